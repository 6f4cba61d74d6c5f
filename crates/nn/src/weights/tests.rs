use std::collections::HashMap;
use std::path::PathBuf;

use millstream_core::{DType, Device};
use proptest::prelude::*;

use super::header::{self, TYPES};
use super::index::Index;
use crate::{Error, Init, Linear, Tensor, WeightProblem, Weights, save};

fn device() -> Device {
    Device::cpu().unwrap()
}

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn range(count: usize, dtype: DType) -> Tensor {
    Tensor::arange(0.0, count as f64, 1.0, DType::F32, &device()).unwrap().to_dtype(dtype).unwrap()
}

#[test]
fn every_type_is_saved_and_opened_again() {
    let folder = Folder::new("types");
    let path = folder.0.join("model.safetensors");
    let stored = TYPES.map(|(_, dtype)| dtype).into_iter().filter(|dtype| dtype.is_storage());
    let stored = stored.map(|dtype| (dtype, range(6, dtype).reshape(&[3, 2]).unwrap()));
    let computed = DType::COMPUTED.into_iter();
    let computed =
        computed.map(|dtype| (dtype, range(6, dtype).reshape(&[2, 3]).unwrap().t().unwrap()));
    let tensors: Vec<(String, Tensor)> =
        computed.chain(stored).map(|(dtype, tensor)| (format!("a.{dtype}"), tensor)).collect();
    save(&path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
    for place in [&path, &folder.0] {
        let weights = Weights::open(place, &device()).unwrap();
        assert_eq!(weights.names().len(), TYPES.len());
        for (name, tensor) in &tensors {
            let (_, last) = name.split_once('.').unwrap();
            let found = weights.child("a").get(last, &[3, 2], Init::Zeros).unwrap();
            assert_eq!(found.dtype(), tensor.dtype());
            assert_eq!(found.to_bytes().unwrap(), tensor.to_bytes().unwrap());
            assert!(found.buffer().is_settled());
        }
        let halves = weights.to_dtype(DType::F16);
        assert_eq!(halves.get("a.f32", &[3, 2], Init::Zeros).unwrap().dtype(), DType::F16);
        assert_eq!(halves.get("a.i64", &[3, 2], Init::Zeros).unwrap().dtype(), DType::I64);
    }
    let twice = [("x", &tensors[0].1), ("x", &tensors[1].1)];
    assert!(save(&path, twice).is_err());
}

#[test]
fn a_model_in_several_files_is_opened_by_its_index() {
    let folder = Folder::new("shards");
    let (one, two) = (range(2, DType::F32), range(3, DType::F32));
    save(folder.0.join("1.safetensors"), [("one", &one)]).unwrap();
    save(folder.0.join("2.safetensors"), [("two", &two)]).unwrap();
    let index = folder.0.join("model.safetensors.index.json");
    let map = |file: &str| {
        format!("{{\"weight_map\": {{\"one\": \"1.safetensors\", \"two\": \"{file}\"}}}}")
    };
    std::fs::write(&index, map("2.safetensors")).unwrap();
    let weights = Weights::open(&folder.0, &device()).unwrap();
    assert_eq!(weights.names(), ["one", "two"]);
    assert_eq!(
        weights.get("two", &[3], Init::Zeros).unwrap().to_vec::<f32>().unwrap(),
        [0.0, 1.0, 2.0]
    );
    for wrong in ["1.safetensors", "../2.safetensors", "/etc/passwd", "", "..", "none"] {
        std::fs::write(&index, map(wrong)).unwrap();
        let error = Weights::open(&index, &device()).unwrap_err();
        assert!(matches!(error, Error::Format { .. } | Error::Read { .. }), "{wrong}: {error}");
    }
    for wrong in ["", "[]", "{}", "{\"weight_map\": []}", "{\"weight_map\": {\"a\": 1}}"] {
        std::fs::write(&index, wrong).unwrap();
        assert!(matches!(Weights::open(&index, &device()), Err(Error::Format { .. })), "{wrong}");
    }
}

#[test]
fn everything_that_does_not_fit_is_in_one_error() {
    let names = [("fc.weight", 4), ("left.over", 1)];
    let tensors: HashMap<_, _> =
        names.map(|(name, count)| (name.to_owned(), range(count, DType::F32))).into();
    let weights = Weights::from_tensors(tensors, &device());
    let build = |weights: &Weights| Linear::new(2, 2, true, &weights.child("fc"));
    let Err(Error::Weights { problems }) = weights.load(build) else { panic!("it fits") };
    let expected = [
        WeightProblem::Shape { name: "fc.weight".into(), expected: vec![2, 2], found: vec![4] },
        WeightProblem::Missing { name: "fc.bias".into(), shape: vec![2] },
        WeightProblem::Unexpected { name: "left.over".into() },
    ];
    assert_eq!(problems, expected);
    let Err(Error::Weights { problems }) = weights.load_part(build) else { panic!("it fits") };
    assert_eq!(problems, expected[..2]);
    // Without a load there is nobody to collect problems, and after it nobody any more.
    assert!(build(&weights).is_err());
    let mut kept = None;
    let _ = weights.load(|weights| {
        kept = Some(weights.clone());
        build(weights)
    });
    assert!(build(&kept.unwrap()).is_err());
}

#[test]
fn random_weights_depend_on_seed_and_name_alone() {
    let get = |seed, name: &str| {
        let weights = Weights::random(seed, DType::F32, &device());
        weights.get(name, &[8], Init::fan_in(4)).unwrap().to_vec::<f32>().unwrap()
    };
    assert_eq!(get(1, "a"), get(1, "a"));
    assert_ne!(get(1, "a"), get(2, "a"));
    assert_ne!(get(1, "a"), get(1, "b"));
    assert!(get(1, "a").iter().all(|value| value.abs() <= 0.5));
}

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn hostile_headers_are_errors() {
    let entry = |shape: &str, from: &str, to: &str| {
        format!("\"dtype\": \"F32\", \"shape\": {shape}, \"data_offsets\": [{from}, {to}]")
    };
    let good = entry("[2]", "0", "8");
    assert!(header::read(&file(&format!("{{\"a\": {{{good}}}}}"), 8)).is_ok());
    let huge = "18446744073709551608";
    let entries = [
        entry("[2]", "0", "12"),
        entry("[2]", "8", "0"),
        entry("[2]", "4", "12"),
        entry("[2]", "-8", "0"),
        entry("[2.5]", "0", "8"),
        entry("[4611686018427387904, 4]", "0", "0"),
        entry("[4611686018427387904]", "0", huge),
        entry(&format!("[{huge}]"), "0", huge),
        entry("[1,1,1,1,1,1,1,1,2]", "0", "8"),
        entry("{}", "0", "8"),
        "\"dtype\": \"F32\"".into(),
        String::new(),
    ];
    for entry in entries {
        let text = format!("{{\"a\": {{{entry}}}}}");
        assert!(header::read(&file(&text, 8)).is_err(), "{entry}");
    }
    let both = format!("{{\"a\": {{{good}}}, \"b\": {{{good}}}}}");
    assert!(header::read(&file(&both, 8)).is_err(), "two tensors share bytes");
    let one = format!("{{\"a\": {{{good}}}}}");
    assert!(header::read(&file(&one, 9)).is_err(), "bytes that belong to none");
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    for text in ["", "{", "[]", "null", &deep, "{\"a\": null}"] {
        assert!(header::read(&file(text, 0)).is_err());
    }
    assert!(header::read(&[0; 7]).is_err());
    assert!(header::read(&u64::MAX.to_le_bytes()).is_err());
    assert!(header::read(&100u64.to_le_bytes()).is_err());
}

#[test]
fn files_that_hold_too_much_are_errors() {
    let refused = |result: Option<String>, part: &str| {
        assert!(result.as_deref().is_some_and(|text| text.contains(part)), "{part}: {result:?}");
    };
    let long = |length: u64| header::read(&length.to_le_bytes()).unwrap_err();
    assert!(long(64 << 20).contains("ends within"));
    refused(Some(long((64 << 20) + 1)), "above");
    let tensors = |count: usize| {
        let one = |n: usize| {
            format!("\"{n}\": {{\"dtype\": \"U8\", \"shape\": [0], \"data_offsets\": [0, 0]}}")
        };
        let all: Vec<String> = (0..count).map(one).collect();
        header::read(&file(&format!("{{{}}}", all.join(", ")), 0))
    };
    assert_eq!(tensors(header::MAX_TENSORS).unwrap().len(), header::MAX_TENSORS);
    refused(tensors(header::MAX_TENSORS + 1).err(), "more than 262144 tensors");
    let files = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|n| format!("\"{n}\": \"{n}.safetensors\"")).collect();
        let text = format!("{{\"weight_map\": {{{}}}}}", all.join(", "));
        serde_json::from_str::<Index>(&text).map_err(|error| error.to_string())
    };
    assert_eq!(files(4096).unwrap().files.len(), 4096);
    refused(files(4097).err(), "more than 4096 files");
}

#[test]
fn a_type_without_a_name_here_is_only_a_problem_if_it_is_needed() {
    let text = "{\"a\": {\"dtype\": \"F6_E2M3\", \"shape\": [2], \"data_offsets\": [0, 2]}}";
    let folder = Folder::new("unknown");
    let path = folder.0.join("model.safetensors");
    std::fs::write(&path, file(text, 2)).unwrap();
    let weights = Weights::open(&path, &device()).unwrap();
    let error = weights.get("a", &[2], Init::Zeros).unwrap_err().to_string();
    assert!(error.contains("F6_E2M3"), "{error}");
    std::fs::write(&path, b"").unwrap();
    assert!(Weights::open(&path, &device()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    /// Whatever is changed in a file, what it says lies inside it.
    #[test]
    fn damaged_files_are_errors_or_consistent(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        digits in prop::collection::vec((0usize..200, b'0'..=b'9'), 0..6),
        length in 0usize..260,
    ) {
        let text = concat!(
            "{\"a\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, ",
            "\"b\": {\"dtype\": \"BOOL\", \"shape\": [], \"data_offsets\": [24, 25]}}"
        );
        let mut bytes = file(text, 25);
        for (place, byte) in changes {
            bytes[place % text.len()] = byte;
        }
        for (place, digit) in digits {
            let place = 8 + place % text.len();
            if bytes[place].is_ascii_digit() {
                bytes[place] = digit;
            }
        }
        bytes.truncate(length.max(1));
        if let Ok(entries) = header::read(&bytes) {
            for entry in entries.values() {
                prop_assert!(bytes.get(entry.place.clone()).is_some());
                if let Ok(dtype) = entry.dtype {
                    prop_assert_eq!(dtype.bytes(entry.shape.iter().product()), Some(entry.place.len()));
                }
            }
        }
    }
}

#[test]
fn single_tensors_have_their_own_shape_or_are_named_as_missing() {
    let device = Device::cpu().unwrap();
    let tensors = [("a.b".to_owned(), Tensor::new(&[[1i64, 2]], &device).unwrap())];
    let weights = Weights::from_tensors(tensors.into_iter().collect(), &device);
    let found = weights.child("a").tensor("b").unwrap();
    assert_eq!((found.shape(), found.to_vec::<i64>().unwrap()), (&[1, 2][..], vec![1, 2]));
    let missing = weights.tensor("c").unwrap_err().to_string();
    assert!(missing.contains('c') && missing.contains("missing"), "{missing}");
    assert!(Weights::random(1, DType::F32, &device).tensor("a").is_err());
}

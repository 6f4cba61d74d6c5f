//! Files that are small, or nothing but headers, and ask for much: an error, in a process with little memory.
#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::models::bert::Bert;
use millstream_nn::models::m2m100::M2M100;
use millstream_nn::models::tokenizer::WordPiece;
use millstream_nn::{Error, LSTM, Linear, MultiheadAttention, Tensor, Weights, save};

const CHILD: &str = "MILLSTREAM_HOSTILE_FILES";
const MEGABYTE: usize = 1 << 20;

/// Runs `work` in a process of its own with a folder, and so much address space beside what the process has without it.
/// Where memory runs out inside, the process ends and the test fails.
fn alone(name: &str, megabytes: u64, work: fn(&Path)) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        let folder = PathBuf::from(std::env::var("MILLSTREAM_HOSTILE_FOLDER").unwrap());
        return work(&folder);
    }
    let folder = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--test-threads", "1", "--nocapture"]);
    // One thread, so that the address space of stacks and arenas is small and always the same.
    command.env(CHILD, name).env("MILLSTREAM_THREADS", "1").env("MALLOC_ARENA_MAX", "1");
    command.env("MILLSTREAM_HOSTILE_FOLDER", &folder);
    let bytes = megabytes << 20;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: one system call between fork and exec, which touches nothing of the parent.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let output = command.output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

fn device() -> Device {
    Device::cpu().unwrap()
}

fn safetensors(path: &Path, header: &str) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    std::fs::write(path, bytes).unwrap();
}

fn refused<T>(result: millstream_nn::Result<T>) -> String {
    let error = result.err().expect("it must be refused");
    assert!(matches!(error, Error::Format { .. }), "{error}");
    error.to_string()
}

/// Headers of 30 MiB that say nothing, in every way that is dear to keep.
#[test]
fn headers_cost_a_small_multiple_of_their_size() {
    alone("headers_cost_a_small_multiple_of_their_size", 360, |folder| {
        let path = folder.join("model.safetensors");
        for part in ["{\"\":0},", "[],", "0,", "\"\","] {
            let list = part.repeat(30 * MEGABYTE / part.len());
            let list = list.trim_end_matches(',');
            safetensors(&path, &format!("{{\"a\":[{list}]}}"));
            refused(Weights::open(&path, &device()));
            safetensors(&path, &format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{list}]}}}}"));
            refused(Weights::open(&path, &device()));
            // What is not looked at may be anything, and costs nothing.
            safetensors(&path, &format!("{{\"__metadata__\":[{list}]}}"));
            assert!(Weights::open(&path, &device()).unwrap().names().is_empty());
        }
        let mut many = String::from("{");
        for name in 0..(1 << 18) + 1 {
            let separator = if name == 0 { "" } else { "," };
            let entry = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
            write!(many, "{separator}\"{name}\":{entry}").unwrap();
        }
        many.push('}');
        safetensors(&path, &many);
        assert!(refused(Weights::open(&path, &device())).contains("more than 262144 tensors"));
    });
}

#[test]
fn an_index_costs_a_small_multiple_of_its_size() {
    alone("an_index_costs_a_small_multiple_of_its_size", 360, |folder| {
        let path = folder.join("model.safetensors.index.json");
        let part = "{\"\":0},".repeat(30 * MEGABYTE / 7);
        let part = part.trim_end_matches(',');
        std::fs::write(&path, format!("{{\"weight_map\":{{\"a\":[{part}]}}}}")).unwrap();
        refused(Weights::open(&path, &device()));
        let mut map = String::from("{\"weight_map\":{\"a\":\"0\"");
        for name in 0..1 << 18 {
            write!(map, ",\"{name}\":\"{name}\"").unwrap();
        }
        std::fs::write(&path, map + "}}").unwrap();
        assert!(refused(Weights::open(&path, &device())).contains("more than 4096 files"));
    });
}

#[test]
fn settings_and_tokenizers_cost_a_small_multiple_of_their_size() {
    let name = "settings_and_tokenizers_cost_a_small_multiple_of_their_size";
    alone(name, 600, |folder| {
        let dear = "{\"\":0},".repeat(20 * MEGABYTE / 7);
        let dear = dear.trim_end_matches(',');
        let path = folder.join("tokenizer.json");
        std::fs::write(&path, format!("{{\"added_tokens\":[{dear}]}}")).unwrap();
        assert!(refused(WordPiece::open(&path)).contains("too much memory"));
        std::fs::write(folder.join("config.json"), format!("{{\"a\":[{dear}]}}")).unwrap();
        assert!(refused(Bert::open(folder, &device())).contains("more than 1048576 bytes"));
        // 1.5 MB that would be 1.6 GB.
        let single = "{\"SpecialToken\":{\"id\":\"a\"}},".repeat(2_000);
        let ids = "100000,".repeat(200_000);
        let (single, ids) = (single.trim_end_matches(','), ids.trim_end_matches(','));
        let text = format!(
            r###"{{"pre_tokenizer":{{"type":"BertPreTokenizer"}},"normalizer":{{"type":"BertNormalizer"}},
            "model":{{"unk_token":"u","vocab":{{"u":0,"[PAD]":1}}}},"post_processor":{{"type":"TemplateProcessing",
            "single":[{single}],"special_tokens":{{"a":{{"ids":[{ids}]}}}}}}}}"###
        );
        std::fs::write(&path, text).unwrap();
        let message = refused(WordPiece::open(&path));
        assert!(message.contains("more than 1000 tokens"), "{message}");
    });
}

fn missing<T>(result: millstream_nn::Result<T>) -> usize {
    match result.err() {
        Some(Error::Weights { problems }) => problems.len(),
        other => panic!("{other:?}"),
    }
}

/// Settings of some hundred bytes beside weights of four: gigabytes, if they were believed.
#[test]
fn weights_that_are_missing_take_no_memory() {
    alone("weights_that_are_missing_take_no_memory", 360, |folder| {
        let device = device();
        let one = Tensor::ones(&[1], DType::F32, &device).unwrap();
        save(folder.join("model.safetensors"), [("x", &one)]).unwrap();
        let bert = r#"{"model_type":"bert","vocab_size":16777216,"hidden_size":16384,"num_hidden_layers":3,
            "num_attention_heads":16,"intermediate_size":65536,"hidden_act":"gelu",
            "max_position_embeddings":65536,"type_vocab_size":2}"#;
        std::fs::write(folder.join("config.json"), bert).unwrap();
        // Three tables, a norm of two, sixteen of each layer, and one left over.
        assert_eq!(missing(Bert::open(folder, &device)), 3 + 2 + 3 * 16 + 1);
        let m2m100 = r#"{"model_type":"m2m_100","vocab_size":16777216,"d_model":16,"encoder_layers":1,
            "encoder_attention_heads":1,"encoder_ffn_dim":16777216,"decoder_layers":1,
            "decoder_attention_heads":1,"decoder_ffn_dim":16777216,"activation_function":"relu",
            "max_position_embeddings":1048576}"#;
        std::fs::write(folder.join("config.json"), m2m100).unwrap();
        assert_eq!(missing(M2M100::open(folder, &device)), 1 + 16 + 2 + 26 + 2 + 1);
        let weights = Weights::open(folder, &device).unwrap();
        let build = |weights: &Weights| LSTM::new(1 << 16, 1 << 16, Default::default(), weights);
        assert_eq!(missing(weights.load(build)), 4 + 1);
        let build =
            |weights: &Weights| MultiheadAttention::new(1 << 16, 1, Default::default(), weights);
        assert_eq!(missing(weights.load(build)), 4 + 1);
        let build = |weights: &Weights| {
            let norm =
                millstream_nn::BatchNorm::new(1 << 28, Default::default(), &weights.child("n"))?;
            let conv =
                millstream_nn::Conv2d::new(1 << 14, 1 << 28, [1, 1], Default::default(), weights)?;
            conv.with_batch_norm(&norm)
        };
        assert_eq!(missing(weights.load(build)), 6 + 1);
        // More problems than anybody would read end the building.
        let build = |weights: &Weights| {
            (0..).try_for_each(|index| Linear::new(1, 1, true, &weights.child(index)).map(drop))
        };
        assert_eq!(missing(weights.load(build)), 1 << 14);
    });
}

/// Files that are larger than memory, or have no end.
#[test]
fn arrays_are_read_as_far_as_their_header_says() {
    alone("arrays_are_read_as_far_as_their_header_says", 360, |folder| {
        let device = device();
        refused(Tensor::read_npy("/dev/zero", &device));
        let path = folder.join("array.npy");
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend([0; 8]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Tensor::read_npy(&path, &device).unwrap().to_vec::<f32>().unwrap(), [0.0; 2]);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        refused(Tensor::read_npy(&path, &device));
        let large = header.replace("(2,)", "(274877906944,)");
        bytes[8..10].copy_from_slice(&(large.len() as u16).to_le_bytes());
        bytes.splice(10..10 + header.len(), large.bytes());
        std::fs::write(&path, &bytes).unwrap();
        refused(Tensor::read_npy(&path, &device));
        file.set_len(1 << 40).unwrap();
        let error = Tensor::read_npy(&path, &device).unwrap_err();
        assert!(matches!(error, Error::Read { .. } | Error::Format { .. }), "{error}");
    });
}

//! Models of files, as a user or a script runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program with these arguments, on the CPU.
fn millstream(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command
        .args(arguments)
        .env("MILLSTREAM_WAIT_TIMEOUT_MS", "600000")
        .env("MILLSTREAM_DEVICE", "cpu");
    command.output().expect("the program runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    // Nothing but JSON may stand on standard output.
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", error(output)))
}

/// A folder of a test, gone when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    fn write(&self, file: &str, bytes: &[u8]) -> String {
        std::fs::write(self.0.join(file), bytes).expect("a file can be written");
        self.path(file)
    }

    /// Writes an array as NumPy does.
    fn npy(&self, file: &str, descr: &str, fortran: bool, shape: &str, bytes: &[u8]) -> String {
        let fortran = if fortran { "True" } else { "False" };
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut contents = b"\x93NUMPY\x01\x00".to_vec();
        contents.extend((header.len() as u16).to_le_bytes());
        contents.extend(header.bytes());
        contents.extend(bytes);
        self.write(file, &contents)
    }

    /// The bytes behind the header of an array that was written, and the header.
    fn read(&self, file: &str) -> (String, Vec<u8>) {
        let bytes = std::fs::read(self.0.join(file)).expect("the file is there");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        (
            String::from_utf8_lossy(&bytes[10..10 + length]).into_owned(),
            bytes[10 + length..].to_vec(),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in a place for such files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn model(name: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = match name {
        "classifier" => here.join("../../examples/models/classifier.onnx"),
        name => here.join("tests/models").join(format!("{name}.onnx")),
    };
    path.display().to_string()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn run_reads_arrays_and_writes_one_per_output_and_a_list_of_them() {
    let folder = Folder::new("run");
    let points = folder.npy("points.npy", "<f4", false, "(2, 2)", &floats(&[1.0, 0.0, 0.0, -1.0]));
    let out = folder.path("out");
    let input = format!("points={points}");
    let run = ["run", &model("classifier"), "--input", &input, "--output-dir", &out, "--json"];
    let output = millstream(&run);
    assert!(output.status.success(), "{}", error(&output));
    let list = json(&output);
    let written = std::fs::read(folder.0.join("out/outputs.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), list);
    assert_eq!((&list[0]["name"], &list[1]["name"]), (&"scores".into(), &"label".into()));
    assert_eq!((&list[0]["dtype"], &list[1]["dtype"]), (&"f32".into(), &"i64".into()));
    assert_eq!(list[0]["shape"], serde_json::json!([2, 3]));
    assert_eq!((&list[0]["file"], &list[1]["file"]), (&"0.npy".into(), &"1.npy".into()));
    let (header, scores) = folder.read("out/0.npy");
    assert!(header.contains("'<f4'") && header.contains("(2, 3)"), "{header}");
    let scores: Vec<f32> =
        scores.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    assert!((scores[0] + scores[1] + scores[2] - 1.0).abs() < 1e-5, "{scores:?}");
    let (header, labels) = folder.read("out/1.npy");
    assert!(header.contains("'<i8'") && header.contains("(2,)"), "{header}");
    assert_eq!(labels, [0i64, 2].iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>());
    // From several threads, more than once, and without the name, as there is one input.
    let again = millstream(&[
        "run",
        &model("classifier"),
        "--input",
        &points,
        "--threads",
        "4",
        "--repeat",
        "3",
        "--json",
    ]);
    assert_eq!(json(&again)[1]["max"], list[1]["max"]);
    assert!(error(&again).contains("8 more: median"), "{}", error(&again));
}

/// Name, type of NumPy, and bytes of two elements, in the order of the model.
const TYPES: [(&str, &str, &[u8]); 18] = [
    ("f32", "<f4", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ("f64", "<f8", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
    ("f16", "<f2", &[1, 2, 3, 4]),
    ("bf16", "<f4", &[0, 0, 0xc0, 0x3f, 0, 0, 0, 0x40]),
    ("i8", "|i1", &[1, 0xff]),
    ("i16", "<i2", &[1, 2, 3, 0xff]),
    ("i32", "<i4", &[1, 2, 3, 4, 5, 6, 7, 0xff]),
    ("i64", "<i8", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff]),
    ("u8", "|u1", &[1, 0xff]),
    ("u16", "<u2", &[1, 2, 3, 0xff]),
    ("u32", "<u4", &[1, 2, 3, 4, 5, 6, 7, 0xff]),
    ("u64", "<u8", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff]),
    ("bool", "|b1", &[1, 0]),
    ("f8e4m3fn", "<f4", &[0, 0, 0xc0, 0x3f, 0, 0, 0, 0x40]),
    ("f8e5m2", "<f4", &[0, 0, 0xc0, 0x3f, 0, 0, 0, 0x40]),
    ("i4", "|i1", &[0xff, 7]),
    ("u4", "|u1", &[15, 7]),
    ("text", "<U1", b"a\0\0\0b\0\0\0"),
];

#[test]
fn every_type_comes_out_as_it_went_in() {
    let folder = Folder::new("types");
    // As they are; and with the other byte order, columns first.
    for fortran in [false, true] {
        let mut arguments =
            vec!["run".to_owned(), model("types"), "--output-dir".into(), folder.path("out")];
        for (name, descr, bytes) in TYPES {
            let size: usize = if name == "text" { 4 } else { descr[2..].parse().unwrap() };
            let mut bytes = bytes.to_vec();
            let mut descr = descr.to_owned();
            if fortran {
                bytes.chunks_mut(size).for_each(<[u8]>::reverse);
                descr = descr.replace('<', ">");
            }
            let file = folder.npy(&format!("{name}.npy"), &descr, fortran, "(1, 2)", &bytes);
            arguments.extend(["--input".into(), format!("{name}={file}")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = millstream(&arguments);
        assert!(output.status.success(), "{}", error(&output));
        for (at, (name, descr, bytes)) in TYPES.iter().enumerate() {
            let (header, written) = folder.read(&format!("out/{at}.npy"));
            assert!(
                header.contains(&format!("'{descr}'")) && header.contains("(1, 2)"),
                "{header}"
            );
            assert_eq!(written, *bytes, "{name}");
        }
    }
}

#[test]
fn inputs_that_are_wrong_are_refused_in_words() {
    let folder = Folder::new("wrong");
    let point = |name: &str, descr: &str, shape: &str, bytes: usize| {
        format!("points={}", folder.npy(name, descr, false, shape, &vec![0; bytes]))
    };
    let right = point("right.npy", "<f4", "(1, 2)", 8);
    let doubles = point("doubles.npy", "<f8", "(1, 2)", 16);
    let wide = point("wide.npy", "<f4", "(1, 3)", 12);
    let flat = point("flat.npy", "<f4", "(2,)", 8);
    let short = point("short.npy", "<f4", "(4, 2)", 8);
    let objects = point("objects.npy", "|O", "(1, 2)", 8);
    let text = format!("points={}", folder.write("text.npy", b"not an array"));
    let gone = format!("points={}", folder.path("gone.npy"));
    let file_in_place = folder.write("file", b"");
    let cases: &[(&[&str], &str)] = &[
        (&[], "\"points\" is not given"),
        (&["--input", &doubles], "--cast"),
        (&["--input", &wide], "f32[batch, 2]"),
        (&["--input", &flat], "f32[batch, 2]"),
        (&["--input", &short], "ends after 8 bytes"),
        (&["--input", &objects], "Python objects"),
        (&["--input", &text], "no .npy file"),
        (&["--input", &gone], "gone.npy"),
        (&["--input", "nothing=x.npy"], "no input \"nothing\""),
        (&["--input", &right, "--input", &right], "given twice"),
        (&["--input", &right, "--shape", "points=1x2"], "a shape and contents"),
        (&["--input", &right, "--without", "sleep"], "no pass \"sleep\""),
        (&["--input", &right, "--device", "abacus"], "abacus"),
        (&["--input", &right, "--output-dir", &file_in_place], "file"),
        (&["--inputs", &file_in_place], "no .npz file"),
        (&["--shape", "points=1x2,2x2"], "one set of inputs"),
        (&["--shape", "points=-1x2"], "as in 1x128"),
        (&["--random", "points=1x1099511627776x1099511627776"], "too large"),
        (&["--dim", "rows=2"], "named are batch"),
        (&["--value", "points=[[1, 2], [3]]"], "one length"),
        (&["--value", "points=[[1, 2"], "JSON"),
        (&["--repeat", "0"], "--repeat"),
    ];
    for (arguments, says) in cases {
        let classifier = model("classifier");
        let mut all = vec!["run", &classifier];
        all.extend(*arguments);
        let output = millstream(&all);
        let said = error(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {said}");
        assert!(said.contains("error: ") && said.contains(says), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // What was wrong becomes right where it is asked for.
    assert!(
        millstream(&["run", &model("classifier"), "--input", &doubles, "--cast"]).status.success()
    );
}

#[test]
fn files_that_are_no_models_are_refused_by_every_command() {
    let folder = Folder::new("files");
    let cases = [
        (folder.path("gone.onnx"), "gone.onnx"),
        (folder.write("empty.onnx", b""), "empty.onnx"),
        (folder.write("noise.onnx", &[0xff; 100]), "no ONNX model"),
        (folder.write("model.txt", b"hello"), "extension"),
        (folder.0.display().to_string(), "extension"),
    ];
    for (path, says) in &cases {
        for command in ["run", "check"] {
            let output = millstream(&[command, path]);
            let said = error(&output) + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{command} {path}: {said}");
            assert!(said.contains(says), "{command} {path}: {said}");
        }
    }
    let output = millstream(&["inspect", &cases[2].0]);
    assert!(error(&output).contains("no ONNX model"), "{}", error(&output));
}

#[test]
fn a_model_with_any_byte_changed_is_no_panic() {
    let folder = Folder::new("changed");
    let whole = std::fs::read(model("classifier")).unwrap();
    // Every seventh byte, so that it does not take long.
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        let path = folder.write("changed.onnx", &changed);
        for command in
            [&["run", &path, "--shape", "points=2x2"][..], &["check", &path], &["inspect", &path]]
        {
            let output = millstream(command);
            let said = error(&output);
            assert!(matches!(output.status.code(), Some(0..=2)), "{at} {command:?}: {said}");
            assert!(!said.contains("panicked"), "{at} {command:?}: {said}");
        }
    }
}

#[test]
fn check_names_every_operator_that_is_missing_and_where() {
    let (good, bad) = (model("classifier"), model("unsupported"));
    let output = millstream(&["check", &good, &bad, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let models = &json(&output)["models"];
    assert_eq!((&models[0]["supported"], &models[1]["supported"]), (&true.into(), &false.into()));
    assert_eq!(models[0]["unsupported"], serde_json::json!([]));
    let expected = serde_json::json!([
        {
            "operator": "Whirl", "domain": "made.up", "version": 1,
            "nodes": ["first", "hidden in choice/then_branch"],
        },
        { "operator": "Twist", "domain": "made.up", "version": 1, "nodes": ["second"] },
    ]);
    assert_eq!(models[1]["unsupported"], expected);
    let output = millstream(&["check", &bad]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Whirl") && said.contains("2 operators are not supported"), "{said}");
    // A model that can be run is called where inputs are given, and what is wrong then is a problem.
    let called = millstream(&["check", &good, "--shape", "points=2x2", "--json"]);
    assert_eq!(
        (called.status.code(), &json(&called)["models"][0]["called"]),
        (Some(0), &true.into())
    );
    let wrong = millstream(&["check", &good, "--shape", "points=2x3", "--json"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(json(&wrong)["models"][0]["problems"][0].as_str().unwrap().contains("points"));
}

#[test]
fn check_names_every_node_that_is_wrong() {
    let wrong = model("wrong");
    let output = millstream(&["check", &wrong, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let problems = json(&output)["models"][0]["problems"].clone();
    let problems: Vec<&str> =
        problems.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("\"first\" (Cast)"), "{problems:?}");
    assert!(problems[1].contains("\"second\" (Cast)"), "{problems:?}");
    // A session names one.
    let run = error(&millstream(&["run", &wrong, "--shape", "x=2"]));
    assert!(run.contains("\"first\" (Cast)") && !run.contains("second"), "{run}");
}

#[test]
fn inspect_says_what_a_model_holds_and_what_its_nodes_cost() {
    let folder = Folder::new("inspect");
    let (dot, svg) = (folder.path("graph.dot"), folder.path("graph.svg"));
    let output =
        millstream(&["inspect", &model("classifier"), "--json", "--dot", &dot, "--svg", &svg]);
    assert!(output.status.success(), "{}", error(&output));
    let found = json(&output);
    assert_eq!(found["inputs"][0]["name"], "points");
    assert_eq!(found["inputs"][0]["type"], "f32[batch, 2]");
    assert_eq!(found["inputs"][0]["dtype"], "f32");
    assert_eq!(found["inputs"][0]["shape"], serde_json::json!(["batch", 2]));
    assert_eq!(found["outputs"][1]["type"], "i64[batch]");
    assert_eq!(found["opsets"], serde_json::json!([{ "domain": "ai.onnx", "version": 17 }]));
    assert_eq!((&found["nodes"], found["operators"].as_array().unwrap().len()), (&3.into(), 3));
    let weights = serde_json::json!([
        { "dtype": "f32", "tensors": 2, "elements": 9, "bytes": 36, "external_bytes": 0 }
    ]);
    assert_eq!(found["weights"], weights);
    assert_eq!(found["cost"], Value::Null);
    assert!(std::fs::read_to_string(&dot).unwrap().contains("Gemm"));
    assert!(std::fs::read_to_string(&svg).unwrap().contains("Softmax"));
    let found = json(&millstream(&["inspect", &model("classifier"), "--dim", "batch=2", "--json"]));
    assert!(found["cost"]["commands"].as_u64().unwrap() > 0);
    assert!(!found["cost"]["nodes"].as_array().unwrap().is_empty(), "{found}");
    let plain = millstream(&["inspect", &model("unsupported")]);
    let said = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.status.success() && said.contains("not supported"), "{said}");
}

#[test]
fn operators_are_listed_by_domain() {
    let found = json(&millstream(&["operators", "--json"]));
    let sets = found["formats"][0]["sets"].as_array().unwrap();
    let of = |domain: &str| sets.iter().find(|set| set["domain"] == domain).unwrap();
    let has = |domain: &str, name: &str| {
        of(domain)["operators"].as_array().unwrap().iter().any(|known| known == name)
    };
    assert!(has("ai.onnx", "Conv") && !has("ai.onnx", "Whirl"));
    assert!(has("com.microsoft", "FastGelu") && has("ai.onnx.ml", "TreeEnsembleClassifier"));
    assert!(of("ai.onnx")["newest"].as_i64().unwrap() >= 23);
    let some = millstream(&["operators", "--only", "softm"]);
    let said = String::from_utf8_lossy(&some.stdout).into_owned();
    assert!(said.contains("LogSoftmax, Softmax") && !said.contains("Conv"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(["operators", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(error(&output), "");
}

#[test]
fn bench_and_stress_call_a_model_from_many_threads() {
    let classifier = model("classifier");
    let bench = millstream(&[
        "bench",
        "--model",
        &classifier,
        "--shape",
        "points=2x2,5x2",
        "--threads",
        "1,3",
        "--seconds",
        "0.01",
        "--json",
    ]);
    assert!(bench.status.success(), "{}", error(&bench));
    let rows = json(&bench)["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    for (row, threads) in rows.as_array().unwrap().iter().zip([1, 3]) {
        assert_eq!((&row["workload"], &row["mode"]), (&"classifier".into(), &"direct".into()));
        assert_eq!((&row["errors"], &row["mismatches"]), (&0.into(), &0.into()), "{row}");
        assert_eq!(row["threads"], threads);
        assert!(row["calls_per_s"].as_f64().unwrap() > 0.0, "{row}");
    }
    let host = ["--input", "host", "--dim", "batch=2", "--seconds", "0.01", "--threads", "2"];
    let bench = millstream(&[&["bench", "--model", &classifier][..], &host].concat());
    assert!(bench.status.success(), "{}", error(&bench));
    let shapes =
        ["--shape", "points=1x2,2x2,3x2", "--threads", "8", "--iterations", "12", "--json"];
    let stress = millstream(&[&["stress", "--model", &classifier][..], &shapes].concat());
    assert!(stress.status.success(), "{}", error(&stress));
    let row = &json(&stress)["rows"][0];
    assert_eq!((&row["scenario"], &row["ops"]), (&"classifier".into(), &96.into()));
    assert_eq!((&row["errors"], &row["mismatches"]), (&0.into(), &0.into()), "{row}");
    assert!(error(&stress).contains("3 compiled"), "{}", error(&stress));
}

#[test]
fn bench_and_stress_refuse_what_does_not_fit() {
    let (classifier, unsupported) = (model("classifier"), model("unsupported"));
    let cases: &[(&[&str], &str)] = &[
        (&["bench", "--model", &classifier], "\"points\" is not given"),
        (&["bench", "--model", &classifier, "--shape", "points=1x2", "--mode", "plan"], "--mode"),
        (&["bench", "--model", &unsupported], "Whirl"),
        (&["bench", "--model", "gone.onnx"], "gone.onnx"),
        (&["bench", "--workload", "mlp", "--shape", "x=1"], "--model"),
        (&["stress", "--model", &classifier], "\"points\" is not given"),
        (&["stress", "--model", &unsupported], "Whirl"),
        (&["stress", "--scenario", "basic", "--shape", "x=1"], "--model"),
    ];
    for (arguments, says) in cases {
        let output = millstream(arguments);
        let said = error(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{arguments:?}: {said}");
    }
    // A shape that the model does not take: every call is an error, and the program says so.
    let output =
        millstream(&["stress", "--model", &classifier, "--shape", "points=1x3", "--threads", "2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("f32[batch, 2]"), "{}", error(&output));
}

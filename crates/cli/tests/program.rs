//! The program as a user or a script runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn millstream(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command
        .args(arguments)
        // On a busy machine a call takes any time. Only what hangs waits that long.
        .env("MILLSTREAM_WAIT_TIMEOUT_MS", "600000")
        // The most capable device of this machine, as far as these tests know.
        .env("MILLSTREAM_DEVICE", "cpu");
    command
}

fn json(output: &Output) -> Value {
    // Nothing but JSON may stand on standard output.
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[test]
fn devices_lists_the_cpu() {
    let output = millstream(&["devices"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("cpu"));
    let json = json(&millstream(&["devices", "--json"]));
    let cpu = json["devices"].as_array().unwrap().iter().find(|device| device["name"] == "cpu");
    assert!(cpu.unwrap()["memory_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn without_a_gpu_the_cuda_device_is_listed_with_what_is_missing() {
    let json = json(&millstream(&["devices", "--json"]));
    let devices = json["devices"].as_array().unwrap();
    let cuda = devices.iter().find(|device| device["backend"] == "cuda").unwrap();
    let output = millstream(&["trace", "--device", "cuda", "-o", "/dev/null", "--calls", "1"]);
    if cuda["available"] == true {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let reason = cuda["reason"].as_str().unwrap();
    assert!(reason.starts_with("device cuda cannot be opened: "), "{reason}");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(reason));
}

#[cfg(not(target_vendor = "apple"))]
#[test]
fn a_probe_without_a_backend_that_has_one_says_where_there_is_one() {
    let output = millstream(&["probe", "--device", "metal"]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("probe") && text.contains("on a Mac"), "{text}");
    let output = millstream(&["probe", "--idle=-1"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--idle"), "a time is not negative");
}

/// The names of all scenarios, as the program lists them.
fn scenarios() -> Vec<String> {
    let list = millstream(&["stress", "--scenario", "list"]);
    let lines = String::from_utf8(list.stdout).expect("names are plain text");
    let names = lines.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "scenario").map(str::to_owned).collect()
}

/// Runs every fourth scenario, from one on, so that no test takes long.
fn stress_passes(from: usize) {
    let names = scenarios();
    assert!(names.len() >= 12, "{names:?}");
    let chosen: Vec<_> = names.iter().skip(from).step_by(4).map(String::as_str).collect();
    let mut arguments = vec!["stress", "--threads", "4", "--iterations", "4", "--json"];
    arguments.extend(chosen.iter().flat_map(|name| ["--scenario", name]));
    let output = millstream(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = json(&output);
    assert_eq!(json["device"], "cpu");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), chosen.len());
    for row in rows {
        assert_eq!((&row["errors"], &row["mismatches"]), (&0.into(), &0.into()), "{row}");
        assert!(
            row["ops"].as_u64().unwrap() > 0 && row["ops_per_s"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert_eq!(row["threads"], 4);
    }
}

mod stress_passes_all_scenarios_and_prints_json {
    #[test]
    fn first_quarter() {
        super::stress_passes(0);
    }

    #[test]
    fn second_quarter() {
        super::stress_passes(1);
    }

    #[test]
    fn third_quarter() {
        super::stress_passes(2);
    }

    #[test]
    fn last_quarter() {
        super::stress_passes(3);
    }
}

#[test]
fn one_scenario_can_be_chosen_and_all_can_be_listed() {
    let output = millstream(&["stress", "--scenario", "basic", "--iterations", "2", "--json"]);
    assert_eq!(json(&output)["rows"].as_array().unwrap().len(), 1);
    let list = millstream(&["stress", "--scenario", "list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("producer-consumer"));
}

#[test]
fn bench_measures_models_checks_every_answer_and_draws() {
    let plot = std::env::temp_dir().join(format!("millstream-{}.svg", std::process::id()));
    let plot_name = plot.to_str().unwrap();
    let output = millstream(&[
        "bench",
        "--workload",
        "mlp,encoder",
        "--threads",
        "1,3",
        "--seconds",
        "0.05",
        "--json",
        "--plot",
        plot_name,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = json(&output);
    assert_eq!(json["device"], "cpu");
    let rows = json["rows"].as_array().unwrap();
    let named: Vec<_> = rows.iter().map(|row| (&row["workload"], &row["threads"])).collect();
    let expected = [("mlp", 1), ("mlp", 3), ("encoder", 1), ("encoder", 3)];
    assert!(
        named
            .iter()
            .zip(expected)
            .all(|(row, (name, threads))| *row.0 == name && *row.1 == threads)
    );
    for row in rows {
        assert_eq!((&row["errors"], &row["mismatches"]), (&0.into(), &0.into()), "{row}");
        assert_eq!(row["mode"], "direct");
        for figure in ["calls_per_s", "p50_us", "p99_us", "efficiency", "single_core_calls_per_s"] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let drawn = std::fs::read_to_string(&plot).unwrap();
    std::fs::remove_file(&plot).unwrap();
    let count = |part: &str| drawn.matches(part).count();
    assert_eq!((count("<polyline"), count("<circle"), count("class=\"ideal\"")), (6, 12, 1));
    assert!(drawn.contains("Models from many threads on cpu ("), "{drawn}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("device: cpu ("));
}

#[test]
fn bench_takes_inputs_from_the_host() {
    let arguments = ["--workload", "mlp", "--threads", "2", "--seconds", "0.02", "--json"];
    let output = millstream(&[&["bench", "--input", "host"], &arguments[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = json(&output);
    assert_eq!((&json["input"], &json["rows"][0]["mismatches"]), (&"host".into(), &0.into()));
    assert!(json["rows"][0]["calls_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn bench_kernels_is_still_there() {
    let output =
        millstream(&["bench", "kernels", "--only", "softmax", "--milliseconds", "1", "--json"]);
    assert!(!json(&output)["rows"].as_array().unwrap().is_empty());
}

/// A transfer is recorded many times, and bytes of the host take one download only.
#[test]
fn bench_kernels_measures_transfers() {
    for name in ["upload", "download"] {
        let arguments = ["bench", "kernels", "--only", name, "--milliseconds", "1", "--json"];
        let rows = json(&millstream(&arguments))["rows"].take();
        assert!(rows.as_array().unwrap().iter().any(|row| row["command"] == name), "{rows}");
    }
}

#[test]
fn trace_has_rows_for_streams_and_callers() {
    let file = std::env::temp_dir().join(format!("millstream-trace-{}.json", std::process::id()));
    let name = file.to_str().unwrap();
    let arguments = ["trace", "--workload", "mlp", "--threads", "3", "--calls", "4", "-o", name];
    let output = millstream(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("matmul"));
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!((named("matmul_packed"), named("download")), (3 * 4 * 3, 3 * 4));
    let rows = |label: &str| {
        let labels = events.iter().filter_map(|event| event["args"]["name"].as_str());
        labels.filter(|name| name.starts_with(label)).count()
    };
    assert_eq!(rows("caller "), 3);
    assert!(rows("stream ") >= 3);
    let arrows = |end: &str| events.iter().filter(|event| event["ph"] == end).count();
    assert_eq!((arrows("s"), arrows("f")), (3 * 4, 3 * 4));
}

/// Every call is in a batch, alone or with others, and every batch is in the trace.
#[test]
fn a_trace_of_joined_calls_has_rows_for_batches() {
    let file = std::env::temp_dir().join(format!("millstream-joined-{}.json", std::process::id()));
    let name = file.to_str().unwrap();
    let arguments =
        ["trace", "--coalesced", "--workload", "mlp", "--threads", "4", "--calls", "25"];
    let output = millstream(&[&arguments[..], &["-o", name]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("batch of "));
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let calls = trace["traceEvents"].as_array().unwrap().iter();
    let calls: u64 = calls.filter_map(|event| event["args"]["calls"].as_u64()).sum();
    assert_eq!(calls, 4 * 25);
}

/// Of two devices, one is closed before the program ends and one is not.
#[test]
fn a_trace_of_all_devices_is_written_at_exit_without_any_code() {
    let file = std::env::temp_dir().join(format!("millstream-exit-{}.json", std::process::id()));
    let arguments = ["bench", "--workload", "encoder", "--threads", "2", "--seconds", "0.01"];
    let output = command(&arguments).env("MILLSTREAM_TRACE", &file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let groups = events.iter().filter(|event| event["name"] == "process_name");
    let groups: std::collections::BTreeSet<_> =
        groups.map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(groups.len(), 4, "streams and threads of two devices");
    for (group, event) in [(1, "attention"), (3, "attention")] {
        let found = events.iter().find(|one| one["pid"] == group && one["name"] == event);
        let arguments = &found.unwrap()["args"];
        assert!(arguments["shapes"].as_str().unwrap().starts_with("f32["), "{arguments}");
        assert!(arguments["layer"].as_str().is_some(), "{arguments}");
    }
}

#[test]
fn mistakes_get_a_clear_message_and_a_status() {
    for (arguments, part) in [
        (&["stress", "--scenario", "nonsense"][..], "--scenario list"),
        (&["stress", "--device", "warp"], "known here: cuda, cpu"),
        (&["stress", "--threads", "0"], "0 is not in 1..=4096"),
        (&["bench", "--workload", "nonsense"], "mlp-large"),
        (&["bench", "--seconds", "0"], "from 0.001"),
        (&["bench", "--plot", "/missing/folder/plot.svg"], "/missing/folder/plot.svg"),
        (&["bench", "--model", "/missing"], "/missing/config.json"),
        (&["bench", "--model", "a", "--workload", "mm"], "cannot be used with"),
        (&["bench", "kernels", "--only", "nonsense"], "--only"),
        (&["trace", "-o", "/missing/folder/trace.json"], "/missing/folder/trace.json"),
        (&["inspect", "/missing.safetensors"], "/missing.safetensors"),
        (&["dance"], "unrecognized subcommand"),
    ] {
        let output = millstream(arguments);
        assert!(!output.status.success());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(part), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

/// A folder with the settings and the random weights of a small encoder.
fn model_folder() -> std::path::PathBuf {
    use millstream::nn::{Tensor, save};
    let folder = std::env::temp_dir().join(format!("millstream-model-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the model");
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu",
        "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).expect("a file is written");
    let layer = |name: &str| format!("encoder.layer.0.{name}");
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![30, 8]),
        ("embeddings.position_embeddings.weight".into(), vec![12, 8]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, 8]),
        (layer("intermediate.dense.weight"), vec![16, 8]),
        (layer("intermediate.dense.bias"), vec![16]),
        (layer("output.dense.weight"), vec![8, 16]),
        (layer("output.dense.bias"), vec![8]),
    ];
    for name in ["attention.self.query", "attention.self.key", "attention.self.value"] {
        shapes.push((layer(&format!("{name}.weight")), vec![8, 8]));
        shapes.push((layer(&format!("{name}.bias")), vec![8]));
    }
    shapes.push((layer("attention.output.dense.weight"), vec![8, 8]));
    shapes.push((layer("attention.output.dense.bias"), vec![8]));
    let norms = [
        "embeddings.LayerNorm".to_owned(),
        layer("attention.output.LayerNorm"),
        layer("output.LayerNorm"),
    ];
    for (norm, part) in norms.iter().flat_map(|norm| [(norm, "weight"), (norm, "bias")]) {
        shapes.push((format!("{norm}.{part}"), vec![8]));
    }
    let device = millstream::Device::cpu().expect("the CPU device");
    let random = |(seed, (name, shape)): (usize, (String, Vec<usize>))| {
        let tensor = Tensor::randn(&shape, seed as u64, millstream::DType::F32, &device);
        (name, tensor.expect("a small tensor"))
    };
    let tensors: Vec<(String, Tensor)> = shapes.into_iter().enumerate().map(random).collect();
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    save(folder.join("model.safetensors"), named).expect("a file is written");
    folder
}

#[test]
fn a_model_folder_is_inspected_and_measured() {
    let folder = model_folder();
    let path = folder.to_str().expect("a plain path");
    let listed = millstream(&["inspect", path]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for part in ["embeddings.word_embeddings.weight", "f32", "[30, 8]", "model_type: bert"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let all = json(&millstream(&["inspect", path, "--json"]));
    let tensors = all["tensors"].as_array().unwrap();
    assert_eq!(
        (tensors.len() as u64, tensors.len()),
        (all["total"]["tensors"].as_u64().unwrap(), 21)
    );
    let bytes: u64 = tensors.iter().map(|tensor| tensor["bytes"].as_u64().unwrap()).sum();
    assert_eq!(
        (all["total"]["bytes"].as_u64(), all["dtypes"]["f32"]["bytes"].as_u64()),
        (Some(bytes), Some(bytes))
    );
    assert_eq!(all["config"]["hidden_size"], 8);
    let file = folder.join("model.safetensors");
    let some = ["inspect", file.to_str().unwrap(), "--only", "LayerNorm", "--json"];
    let some = json(&millstream(&some));
    assert_eq!(some["tensors"].as_array().unwrap().len(), 6);
    assert_eq!(some["config"], Value::Null);

    let arguments = ["--threads", "2", "--mode", "direct,plan", "--seconds", "0.02", "--json"];
    for origin in ["device", "host"] {
        let measured =
            millstream(&[&["bench", "--model", path, "--input", origin], &arguments[..]].concat());
        assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
        let measured = json(&measured);
        for row in measured["rows"].as_array().unwrap() {
            assert_eq!(row["workload"].as_str(), folder.file_name().unwrap().to_str());
            assert!(row["calls_per_s"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    std::fs::write(folder.join("config.json"), "{\"model_type\": \"gpt2\"}").unwrap();
    let refused = millstream(&["bench", "--model", path]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("model_type"));
    std::fs::remove_dir_all(&folder).unwrap();
}

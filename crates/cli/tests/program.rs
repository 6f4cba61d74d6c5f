//! The program as a user or a script runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        // On a busy machine a call takes any time. Only what hangs waits that long.
        .env("MILLSTREAM_WAIT_TIMEOUT_MS", "600000")
        .output()
        .expect("the program runs")
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
    assert_eq!(drawn.matches("<polyline").count(), 4);
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

#[test]
fn mistakes_get_a_clear_message_and_a_status() {
    for (arguments, part) in [
        (&["stress", "--scenario", "nonsense"][..], "--scenario list"),
        (&["stress", "--device", "warp"], "known here: cuda, cpu"),
        (&["stress", "--threads", "0"], "0 is not in 1..=4096"),
        (&["bench", "--workload", "nonsense"], "mlp-large"),
        (&["bench", "--seconds", "0"], "from 0.001"),
        (&["dance"], "unrecognized subcommand"),
    ] {
        let output = millstream(arguments);
        assert!(!output.status.success());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(part), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

//! The program as a user or a script runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
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
fn stress_passes_all_scenarios_and_prints_json() {
    let output = millstream(&["stress", "--threads", "4", "--iterations", "4", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = json(&output);
    assert_eq!(json["device"], "cpu");
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.len() >= 12);
    for row in rows {
        assert_eq!((&row["errors"], &row["mismatches"]), (&0.into(), &0.into()), "{row}");
        assert!(
            row["ops"].as_u64().unwrap() > 0 && row["ops_per_s"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert_eq!(row["threads"], 4);
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
fn mistakes_get_a_clear_message_and_a_status() {
    for (arguments, part) in [
        (&["stress", "--scenario", "nonsense"][..], "--scenario list"),
        (&["stress", "--device", "warp"], "known here: cpu"),
        (&["stress", "--threads", "0"], "0 is not in 1..=4096"),
        (&["dance"], "unrecognized subcommand"),
    ] {
        let output = millstream(arguments);
        assert!(!output.status.success());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(part), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

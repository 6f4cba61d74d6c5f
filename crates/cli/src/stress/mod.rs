//! `millstream stress`: scenarios from many threads, every result compared with sequential work.

mod harness;
mod scenarios;

use std::process::ExitCode;

use millstream::{Device, Error, Result};
use serde_json::json;

use self::harness::{Context, Outcome};
use self::scenarios::{ALL, Scenario};
use crate::choice::DeviceChoice;
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Threads that work at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Calls per thread; by default enough for some hundred calls in all.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Run only this scenario; may be given several times. `--scenario list` names them.
    #[arg(long)]
    scenario: Vec<String>,
    /// One call in so many comes with one that must fail, on the same stream and pending at the same time:
    /// that one gets its error, and nothing else does.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    faults: Option<u32>,
    /// Models and matrices are an eighth as wide, and as long: for devices that are slow, such as drivers that check
    /// everything.
    #[arg(long)]
    small: bool,
    #[command(flatten)]
    device: DeviceChoice,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.scenario.iter().any(|name| name == "list") {
        let rows: Vec<_> =
            ALL.iter().map(|s| vec![s.name.to_owned(), s.about.to_owned()]).collect();
        table::print(&["scenario", "what it does"], &rows);
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(&arguments.scenario)?;
    let device = arguments.device.open()?;
    let threads = arguments.threads as usize;
    let iterations = arguments.iterations.map_or((400 / threads).max(10), |count| count as usize);

    let bar = progress::bar(chosen.len());
    let mut rows: Vec<(&Scenario, Outcome)> = Vec::new();
    for scenario in chosen {
        bar.set_message(scenario.name);
        let faults = arguments.faults.map(|calls| calls as usize);
        let name = device.name().to_owned();
        let divisor = if arguments.small { 8 } else { 1 };
        let context = Context { device, name, threads, iterations, faults, divisor };
        rows.push((scenario, (scenario.run)(&context)));
        bar.inc(1);
    }
    bar.finish_and_clear();

    if arguments.json {
        print_json(device, threads, &rows);
    } else {
        print_table(threads, &rows);
    }
    for (scenario, outcome) in &rows {
        for problem in &outcome.problems {
            eprintln!("{}: {problem}", scenario.name);
        }
    }
    let clean = rows.iter().all(|(_, outcome)| outcome.errors == 0 && outcome.mismatches == 0);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    names
        .iter()
        .map(|name| {
            ALL.iter().find(|scenario| scenario.name == *name).ok_or_else(|| Error::InvalidConfig {
                key: "--scenario".into(),
                value: name.clone(),
                expected: "a name that `--scenario list` shows",
            })
        })
        .collect()
}

fn print_json(device: Device, threads: usize, rows: &[(&Scenario, Outcome)]) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(scenario, outcome)| {
            json!({
                "scenario": scenario.name,
                "threads": threads,
                "ops": outcome.ops,
                "ops_per_s": outcome.ops_per_second(),
                "errors": outcome.errors,
                "mismatches": outcome.mismatches,
            })
        })
        .collect();
    println!("{}", json!({ "device": device.name(), "rows": rows }));
}

fn print_table(threads: usize, rows: &[(&Scenario, Outcome)]) {
    let cells: Vec<_> = rows
        .iter()
        .map(|(scenario, outcome)| {
            vec![
                scenario.name.to_owned(),
                threads.to_string(),
                outcome.ops.to_string(),
                format!("{:.0}", outcome.ops_per_second()),
                outcome.errors.to_string(),
                outcome.mismatches.to_string(),
            ]
        })
        .collect();
    table::print(&["scenario", "threads", "ops", "ops/s", "errors", "mismatches"], &cells);
    let (errors, mismatches) = rows.iter().fold((0, 0), |(errors, mismatches), (_, outcome)| {
        (errors + outcome.errors, mismatches + outcome.mismatches)
    });
    println!("\n{} scenarios, {errors} errors, {mismatches} mismatches", rows.len());
}

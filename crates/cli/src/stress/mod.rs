//! `millstream stress`: scenarios from many threads, every result compared with sequential work.

mod harness;
mod model;
mod scenarios;

use std::path::PathBuf;
use std::process::ExitCode;

use millstream::{Device, Error, Result};
use serde_json::json;

use self::harness::{Context, Outcome};
use self::scenarios::{ALL, Scenario};
use crate::choice::DeviceChoice;
use crate::{model_inputs, progress, table};

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
    /// Call the model of an `.onnx` file instead, with inputs of all shapes that are given at once. Inputs are random
    /// unless they are given; those of fixed shape need no `--shape`.
    #[arg(long, value_name = "FILE.onnx", conflicts_with_all = ["scenario", "small"])]
    model: Option<PathBuf>,
    #[command(flatten)]
    inputs: model_inputs::Arguments,
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

impl Arguments {
    pub fn has_model(&self) -> bool {
        self.model.is_some()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.scenario.iter().any(|name| name == "list") {
        let rows: Vec<_> =
            ALL.iter().map(|s| vec![s.name.to_owned(), s.about.to_owned()]).collect();
        table::print(&["scenario", "what it does"], &rows);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.model.is_none() && arguments.inputs.is_given() {
        let reason = "inputs are for --model; scenarios have their own".into();
        return Err(Error::Invalid { op: "stress", reason });
    }
    let chosen = match &arguments.model {
        Some(_) => Vec::new(),
        None => choose(&arguments.scenario)?,
    };
    let device = arguments.device.open()?;
    let threads = arguments.threads as usize;
    let iterations = arguments.iterations.map_or((400 / threads).max(10), |count| count as usize);
    let context = || Context {
        device,
        name: device.name().to_owned(),
        threads,
        iterations,
        faults: arguments.faults.map(|calls| calls as usize),
        divisor: if arguments.small { 8 } else { 1 },
    };

    let bar = progress::bar(chosen.len().max(1));
    let mut rows: Vec<(String, Outcome)> = Vec::new();
    if let Some(path) = &arguments.model {
        bar.set_message(path.display().to_string());
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        rows.push((name, model::run(path, &arguments.inputs, &context(), &bar)?));
        bar.inc(1);
    }
    for scenario in chosen {
        bar.set_message(scenario.name);
        rows.push((scenario.name.to_owned(), (scenario.run)(&context())));
        bar.inc(1);
    }
    bar.finish_and_clear();
    // Whoever counts what the device leaves behind counts now. A call that failed on purpose may have been the last.
    if let Err(error) = device.close() {
        eprintln!("close: {error}");
    }

    if arguments.json {
        print_json(device, threads, &rows);
    } else {
        print_table(threads, &rows);
    }
    for (name, outcome) in &rows {
        for problem in &outcome.problems {
            eprintln!("{name}: {problem}");
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

fn print_json(device: Device, threads: usize, rows: &[(String, Outcome)]) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, outcome)| {
            json!({
                "scenario": name,
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

fn print_table(threads: usize, rows: &[(String, Outcome)]) {
    let cells: Vec<_> = rows
        .iter()
        .map(|(name, outcome)| {
            vec![
                name.clone(),
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

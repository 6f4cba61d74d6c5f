//! `millstream bench opening`: how long a model takes until its first answer, and how much memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream::Result;
use millstream::graph::{Batching, Session};
use serde_json::json;

use crate::choice::DeviceChoice;
use crate::model_inputs::{self, Fill, Missing, ModelInputs};
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, an `.onnx` file.
    model: PathBuf,
    #[command(flatten)]
    inputs: model_inputs::Arguments,
    #[command(flatten)]
    device: DeviceChoice,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// What a step took.
struct Step {
    name: &'static str,
    time: Duration,
    /// The most memory that the process had up to its end, less what it had before the first step.
    peak: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = arguments.device.open()?;
    let bar = progress::spinner("opening the model");
    let before = resident("VmRSS:");
    let mut last = Instant::now();
    let mut steps = Vec::new();
    let mut end = |name| {
        let peak = resident("VmHWM:").zip(before).map(|(most, before)| most.saturating_sub(before));
        steps.push(Step { name, time: last.elapsed(), peak });
        last = Instant::now();
    };
    let session = Session::builder(&device).batching(Batching::off()).open(&arguments.model)?;
    end("open");
    let filled = (Missing::Filled, Fill::Random);
    let inputs = ModelInputs::new(session.inputs(), &[], &arguments.inputs, filled)?;
    let first = inputs.make(&device, 0, 0)?;
    let again = inputs.make(&device, 0, 0)?;
    end("inputs");
    session.run(first)?.wait()?;
    end("first call");
    session.run(again)?.wait()?;
    end("second call");
    bar.finish_and_clear();
    let weights = session.stats().weight_bytes;
    if arguments.json {
        let step = |step: &Step| json!({ "step": step.name, "ms": milliseconds(step.time), "peak_bytes": step.peak });
        let steps: Vec<_> = steps.iter().map(step).collect();
        println!("{}", json!({ "weights_bytes": weights, "steps": steps }));
        return Ok(ExitCode::SUCCESS);
    }
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / (1 << 20) as f64);
    let rows: Vec<_> = steps
        .iter()
        .map(|step| {
            let peak = step.peak.map_or("unknown".into(), mebibytes);
            vec![step.name.to_owned(), format!("{:.2}", milliseconds(step.time)), peak]
        })
        .collect();
    table::print(&["step", "ms", "peak MiB"], &rows);
    println!("weights: {} MiB on the device", mebibytes(weights as u64));
    Ok(ExitCode::SUCCESS)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What Linux says of the memory of this process, in bytes.
fn resident(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

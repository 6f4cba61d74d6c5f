//! `millstream bench`: the built-in models from many threads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use millstream::Device;
use millstream::{Error, Result};

use super::measure::{Subject, answers};
use super::report::{Report, Row};
use super::{plot, report};
use crate::workloads::{Origin, Workload};
use crate::{progress, workloads};

#[derive(clap::Args)]
// The arguments around it have a group of that name already.
#[group(skip)]
pub(crate) struct Arguments {
    /// The models, separated by commas; by default all.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(workloads::names()))]
    workload: Vec<String>,
    /// The device, by name.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How many threads call at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,31,64")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// How calls reach the device.
    #[arg(long, value_delimiter = ',', default_value = "direct")]
    mode: Vec<Mode>,
    /// Where callers have their inputs.
    #[arg(long, value_enum, default_value = "device")]
    input: Origin,
    /// Seconds per row.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Draw throughput and p99 against threads to an SVG file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Every thread calls the model itself.
    Direct,
    /// Every thread runs one plan that was traced from the model.
    Plan,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Plan => "plan",
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.001 to 86400".into()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = Device::open(&arguments.device)?;
    // The measure of efficiency, and where the right answers come from.
    let one_core = Device::builder(&arguments.device).threads(1).open()?;
    let chosen = workloads::chosen(&arguments.workload);
    let bar = progress::bar(chosen.len() * arguments.threads.len() * arguments.mode.len());
    let mut rows = Vec::new();
    for workload in chosen {
        rows.extend(measure(workload, device, one_core, arguments, &bar)?);
        device.empty_cache()?;
        one_core.empty_cache()?;
    }
    bar.finish_and_clear();
    one_core.close()?;

    let cores = device.info().parallelism;
    let report = Report {
        device: device.name(),
        cores,
        input: arguments.input.name(),
        seconds: arguments.seconds,
        rows,
    };
    if arguments.json {
        println!("{}", report.json());
    } else {
        report.print();
    }
    if let Some(path) = &arguments.plot {
        std::fs::write(path, plot::svg(&report)).map_err(|error| Error::write(path, error))?;
        eprintln!("plot written to {}", path.display());
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(
    workload: &'static Workload,
    device: Device,
    one_core: Device,
    arguments: &Arguments,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<Row>> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let most = arguments.threads.iter().max().map_or(1, |&most| most as usize);
    let origin = arguments.input;
    let alone = workload.load(&one_core)?;
    let answers = &answers(workload, &one_core, &alone, most)?[..];
    let alone = Subject { workload, device: one_core, origin, model: &alone, answers };
    let model = workload.load(&device)?;
    let plan = workload.plan(&model, &device)?;
    let direct = Subject { workload, device, origin, model: &model, answers };
    let planned = Subject { model: &plan, ..direct };
    let (mut rows, mut single_core) = (Vec::new(), 0f64);
    for &mode in &arguments.mode {
        for &threads in &arguments.threads {
            bar.set_message(format!("{}, {threads} threads", workload.name));
            // Looked at again before each row, and the best counts: what other programs take away at
            // one moment must not make the rows look good.
            single_core = single_core.max(alone.measure(1, time / 4).calls_per_second);
            let subject = match mode {
                Mode::Direct => &direct,
                Mode::Plan => &planned,
            };
            let mut sample = subject.measure(threads as usize, time);
            if threads == 1 {
                sample.host = Some(subject.host_cost(time / 4)?);
            }
            rows.push((mode, threads as usize, sample));
            bar.inc(1);
        }
    }
    let cores = device.info().parallelism;
    Ok(rows
        .into_iter()
        .map(|(mode, threads, sample)| {
            report::row(workload, mode, threads, sample, single_core, cores)
        })
        .collect())
}

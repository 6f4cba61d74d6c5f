//! `millstream bench`: models from many threads.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use millstream::graph::Batching;
use millstream::nn::Module;
use millstream::{Device, Error, Result};

use super::callees::{ModuleCallee, TracedCallee};
use super::measure::{Arrivals, Callee, Subject, answers};
use super::report::{Report, Row};
use super::{plot, sessions};
use crate::choice::{DeviceChoice, check_output, is_model_file, named};
use crate::workloads::{Origin, Workload};
use crate::{model_inputs, progress, workloads};

#[derive(clap::Args)]
// The arguments around it have a group of that name already.
#[group(skip)]
pub(crate) struct Arguments {
    /// The built-in models, separated by commas; by default all.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(workloads::names()))]
    workload: Vec<String>,
    /// A model of one's own instead: an `.onnx` file, or a folder with an encoder of the BERT type, as Transformers
    /// saves it. Inputs of a file are random unless they are given; those of fixed shape need no `--shape`.
    #[arg(long, value_name = "FILE.onnx|FOLDER", conflicts_with = "workload")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub inputs: model_inputs::Arguments,
    #[command(flatten)]
    pub device: DeviceChoice,
    /// How many threads call at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,31,64")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Vec<u32>,
    /// How calls reach the device.
    #[arg(long, value_delimiter = ',', default_value = "direct")]
    pub mode: Vec<Mode>,
    /// With `--mode coalesced`, calls that meet are joined in any case, with so many batches in flight. Otherwise the session finds out
    /// whether to join them, and how many.
    #[arg(long, value_name = "BATCHES", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub in_flight: Option<u8>,
    /// When callers send: `closed`, when they have their answers; or `poisson:RATE`, at random times, so many calls per second
    /// in all, whether or not there are answers. A latency then counts from the time at which the call should have been sent.
    #[arg(long, default_value = "closed", value_parser = arrivals)]
    pub arrivals: Arrivals,
    /// Where callers have their inputs.
    #[arg(long, value_enum, default_value = "device")]
    pub input: Origin,
    /// Seconds per row.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Draw throughput, times one core, and p99 against threads to an SVG file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

impl Arguments {
    /// How calls are joined with `--mode coalesced`.
    pub fn batching(&self) -> Batching {
        match self.in_flight {
            Some(batches) => Batching::new().always().in_flight(batches.into()),
            None => Batching::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Every thread calls the model itself.
    Direct,
    /// Every thread runs one plan that was traced from the model.
    Plan,
    /// Calls that come at the same time are joined, by a session.
    Coalesced,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Plan => "plan",
            Mode::Coalesced => "coalesced",
        }
    }

    /// Whether answers have the bits of a call by itself. On a GPU those of a batch do not: it has other kernels for it.
    pub fn is_exact(self, device: &Device) -> bool {
        self != Mode::Coalesced || device.info().name == "cpu"
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.001 to 86400".into()),
    }
}

fn arrivals(text: &str) -> Result<Arrivals, String> {
    let wrong =
        || "expected closed, or poisson:RATE with calls per second from 0.001 to 1e9".into();
    if text == "closed" {
        return Ok(Arrivals::Closed);
    }
    let rate = text.strip_prefix("poisson:").and_then(|rate| rate.parse::<f64>().ok());
    match rate {
        Some(rate) if (0.001..=1e9).contains(&rate) => Ok(Arrivals::Poisson(rate)),
        _ => Err(wrong()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_file = |path: &&Path| path.is_file() || is_model_file(path);
    let file = arguments.model.as_deref().filter(is_file);
    if file.is_none() && arguments.inputs.is_given() {
        let reason = "inputs are for --model with a model file; other models have their own".into();
        return Err(Error::Invalid { op: "bench", reason });
    }
    let chosen = match &arguments.model {
        Some(_) if file.is_some() => Vec::new(),
        Some(folder) => vec![workloads::of_folder(folder)?],
        None => workloads::chosen(&arguments.workload),
    };
    if let Some(path) = &arguments.plot {
        check_output(path)?;
    }
    let device = arguments.device.open()?;
    // The measure of efficiency, and where the right answers come from.
    let one_core = Device::builder(device.name()).threads(1).open()?;
    let models = chosen.len().max(1);
    let bar = progress::bar(models * arguments.threads.len() * arguments.mode.len());
    let run = Run { arguments, device, one_core, bar: &bar };
    let mut rows = Vec::new();
    if let Some(path) = file {
        rows.extend(sessions::measure(path, &run)?);
    }
    for workload in chosen {
        rows.extend(measure(workload, &run)?);
        device.empty_cache()?;
        one_core.empty_cache()?;
    }
    bar.finish_and_clear();
    one_core.close()?;

    let cores = device.info().parallelism;
    let memory = device.memory();
    let report = Report {
        device: device.name(),
        described: named(device),
        cores,
        input: arguments.input.name(),
        seconds: arguments.seconds,
        counters: device.counters().to_string(),
        peak_bytes: memory.peak + memory.scratch,
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

/// What all models are measured with.
pub(crate) struct Run<'a> {
    pub arguments: &'a Arguments,
    pub device: Device,
    /// The same kind of device with one thread.
    pub one_core: Device,
    pub bar: &'a indicatif::ProgressBar,
}

impl Run<'_> {
    /// The most threads that call at once.
    pub fn max_threads(&self) -> usize {
        self.arguments.threads.iter().max().map_or(1, |&most| most as usize)
    }

    /// Measures a model at each number of threads, beside the same on one core. `single_core` is the best rate there so
    /// far.
    pub fn rows<C: Callee, A: Callee>(
        &self,
        model: (&'static str, &'static str),
        mode: &'static str,
        subject: &Subject<'_, C>,
        alone: &Subject<'_, A>,
        single_core: &mut f64,
    ) -> Result<Vec<Row>> {
        let time = Duration::from_secs_f64(self.arguments.seconds);
        let mut samples = Vec::new();
        for &threads in &self.arguments.threads {
            self.bar.set_message(format!("{}, {threads} threads", model.0));
            // Looked at again before each row, and the best counts: what other programs take away at
            // one moment must not make the rows look good.
            *single_core = single_core.max(alone.measure(1, time / 4).calls_per_second);
            let mut sample = subject.measure(threads as usize, time);
            if threads == 1 {
                sample.host = Some(subject.host_cost(time / 4)?);
            }
            samples.push((threads as usize, sample));
            self.bar.inc(1);
        }
        let cores = self.device.info().parallelism;
        let row = |sample| Row::new(model, mode, sample, *single_core, cores);
        Ok(samples.into_iter().map(row).collect())
    }
}

fn measure(workload: &'static Workload, run: &Run<'_>) -> Result<Vec<Row>> {
    let &Run { arguments, device, one_core, .. } = run;
    let origin = arguments.input;
    let alone = workload.load(&one_core)?;
    let alone = ModuleCallee { workload, device: one_core, origin, model: &*alone };
    let answers = &answers(&alone, run.max_threads())?[..];
    let alone = Subject { callee: &alone, device: one_core, answers, arrivals: Arrivals::Closed };
    let model = workload.load(&device)?;
    let plan = workload.plan(&*model, &device)?;
    let (mut rows, mut single_core) = (Vec::new(), 0f64);
    let named = (workload.name, workload.about);
    for &mode in &arguments.mode {
        let arrivals = arguments.arrivals;
        let model: &dyn Module = match mode {
            Mode::Direct => &*model,
            Mode::Plan => &plan,
            Mode::Coalesced => {
                let session = workload.session(&device, arguments.batching())?;
                let exact = mode.is_exact(&device);
                let callee = TracedCallee { workload, origin, session: &session, exact };
                session.warm_up_with(callee.input(0)?.given())?;
                let subject = Subject { callee: &callee, device, answers, arrivals };
                rows.extend(run.rows(named, mode.name(), &subject, &alone, &mut single_core)?);
                let joined = session.batching_stats();
                run.bar.suspend(|| eprintln!("{}: {joined}", workload.name));
                continue;
            }
        };
        let callee = ModuleCallee { workload, device, origin, model };
        let subject = Subject { callee: &callee, device, answers, arrivals };
        rows.extend(run.rows(named, mode.name(), &subject, &alone, &mut single_core)?);
    }
    // The best of all modes counts for all rows.
    let cores = device.info().parallelism;
    Ok(rows.into_iter().map(|row: Row| row.beside(single_core, cores)).collect())
}

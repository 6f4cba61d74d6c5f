//! `millstream run`: a model on arrays of NumPy.

mod outputs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use millstream::graph::{Inputs, Outputs, Pass, Passes, Session};
use millstream::{Error, Result};

use crate::choice::DeviceChoice;
use crate::model_inputs::{self, Fill, Missing, ModelInputs};
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, an `.onnx` file.
    model: PathBuf,
    /// The contents of an input: `.npy`, or `.json`. Types that NumPy does not have are given as `ml_dtypes` saves them,
    /// or as f32. A model with one input needs no name. Several files for one input are a sequence.
    #[arg(long, value_name = "NAME=FILE.npy")]
    input: Vec<String>,
    #[command(flatten)]
    inputs: model_inputs::Arguments,
    /// Where outputs are written: `0.npy`, `1.npy`, … in the order of the model, and `outputs.json` with names, types
    /// and shapes.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// How often the model is called, by each thread. The outputs are those of the last call.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Threads that call at the same time. The outputs are those of the first one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// A pass that is not run, by its name; may be given several times. `all` stands for every one.
    #[arg(long, value_name = "PASS")]
    without: Vec<String>,
    #[command(flatten)]
    device: DeviceChoice,
    /// Print what stands in `outputs.json` on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(folder) = &arguments.output_dir {
        outputs::prepare(folder)?;
    }
    let passes = passes(&arguments.without)?;
    let device = arguments.device.open()?;
    let progress = progress::spinner("opening the model");
    let started = Instant::now();
    let session = Session::builder(&device).passes(passes).open(&arguments.model)?;
    let opened = started.elapsed();
    let filled = (Missing::Refused, Fill::Zeros);
    let inputs = ModelInputs::new(session.inputs(), &arguments.input, &arguments.inputs, filled)?;
    if inputs.sets() > 1 {
        let reason = "several shapes for one input: run takes one set of inputs".into();
        return Err(Error::Invalid { op: "run", reason });
    }
    progress.suspend(|| inputs.notes().iter().for_each(|note| eprintln!("{note}")));
    let given = inputs.make(&device, 0, 0)?;
    progress.set_message("compiling, and the first call");
    let (times, made) = call_from_threads(&session, &given, arguments, &progress)?;
    progress.set_message("writing outputs");
    let listed = outputs::list(&made, arguments.output_dir.as_deref())?;
    progress.finish_and_clear();
    eprintln!("{}", timing(opened, &times));
    if arguments.json {
        println!("{}", serde_json::Value::from(listed));
    } else {
        let rows: Vec<_> = listed.iter().enumerate().map(outputs::row).collect();
        table::print(&["output", "name", "type", "values"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// How long each call of a thread took, the first with compiling.
type Times = Vec<Duration>;

/// Calls the model from all threads at once. Gives the times of each of them, and what the first one got at last.
fn call_from_threads(
    session: &Session,
    given: &Inputs,
    arguments: &Arguments,
    progress: &ProgressBar,
) -> Result<(Vec<Times>, Outputs)> {
    let repeat = arguments.repeat;
    if arguments.threads == 1 {
        let (times, made) = call(session, given, repeat, |call| {
            progress.set_message(format!("call {} of {repeat}", call + 1));
        })?;
        return Ok((vec![times], made));
    }
    progress.set_message(format!("{} threads, {repeat} calls each", arguments.threads));
    std::thread::scope(|scope| {
        let mut callers = Vec::new();
        for _ in 1..arguments.threads {
            let work = || call(session, given, repeat, |_| {}).map(|(times, _)| times);
            let caller = std::thread::Builder::new().spawn_scoped(scope, work);
            callers.push(caller.map_err(|error| Error::Invalid {
                op: "run",
                reason: format!("a thread could not be started: {error}"),
            })?);
        }
        let (times, made) = call(session, given, repeat, |_| {})?;
        let mut all = vec![times];
        for caller in callers {
            all.push(caller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok((all, made))
    })
}

/// Calls the model so often.
fn call(
    session: &Session,
    given: &Inputs,
    repeat: u32,
    before: impl Fn(u32),
) -> Result<(Times, Outputs)> {
    let mut times = Vec::new();
    let mut once = || {
        let started = Instant::now();
        let outputs = session.run(given.clone())?;
        outputs.wait()?;
        times.push(started.elapsed());
        Ok::<_, Error>(outputs)
    };
    let mut made = once()?;
    for call in 1..repeat {
        before(call);
        // What the call before gave is not needed any more, and its memory is.
        drop(made);
        made = once()?;
    }
    Ok((times, made))
}

/// All passes but those that are named.
fn passes(without: &[String]) -> Result<Passes> {
    without.iter().try_fold(Passes::all(), |passes, name| {
        if name == "all" {
            return Ok(Passes::none());
        }
        match Pass::ALL.iter().find(|pass| pass.name() == name) {
            Some(pass) => Ok(passes.without(*pass)),
            None => {
                let known: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).collect();
                let reason = format!("there is no pass {name:?}: there are {}", known.join(", "));
                Err(Error::Invalid { op: "--without", reason })
            }
        }
    })
}

/// How long it took, in a line.
fn timing(opened: Duration, times: &[Times]) -> String {
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let first = times.iter().filter_map(|times| times.first()).max().copied().unwrap_or_default();
    let mut line = format!("opened in {}, first call {} with compiling", ms(opened), ms(first));
    let mut later: Times = times.iter().flat_map(|times| times.iter().skip(1)).copied().collect();
    later.sort_unstable();
    if let (Some(best), Some(worst)) = (later.first(), later.last()) {
        let (count, median) = (later.len(), ms(later[later.len() / 2]));
        let (best, worst) = (ms(*best), ms(*worst));
        line += &format!("; {count} more: median {median}, from {best} to {worst}");
    }
    line
}

#[cfg(test)]
mod tests;

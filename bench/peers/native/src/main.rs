//! Models in onnxruntime and OpenVINO, through their C interfaces, for `bench/peers/models.py`.
//!
//! Threads share one model; each has inputs of its own and starts at a barrier, warm. A call ends when its outputs are in
//! host memory, where they are compared with those of the first call: part of the rate, not of the latency, as in
//! `millstream bench`.

mod inputs;
mod onnxruntime;
mod openvino;

use std::path::PathBuf;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use inputs::Input;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// A model that any number of threads call.
trait Model: Sync {
    /// What a thread calls, with these inputs.
    fn caller<'a>(&'a self, inputs: &'a mut [Input]) -> Result<Box<dyn Caller + 'a>>;
}

/// One thread's way to a model.
trait Caller {
    /// Computes the outputs.
    fn call(&mut self) -> Result<()>;

    /// The bytes of all outputs of the last call.
    fn outputs(&self) -> Result<Vec<&[u8]>>;
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    Onnxruntime,
    Openvino,
}

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    program: Program,
    /// Its library.
    #[arg(long)]
    library: PathBuf,
    #[arg(long)]
    model: PathBuf,
    /// A folder with `inputs.json` and a file for each input.
    #[arg(long)]
    inputs: PathBuf,
    #[arg(long, value_delimiter = ',', default_value = "1,2,8,31")]
    threads: Vec<usize>,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Threads of onnxruntime inside of one call.
    #[arg(long, default_value_t = 1)]
    inside: i32,
    /// Whether these wait busily for work.
    #[arg(long)]
    spin: bool,
    /// The hint for OpenVINO: LATENCY or THROUGHPUT.
    #[arg(long, default_value = "LATENCY")]
    hint: String,
    /// Only open the model and call it twice: how long each takes, and how much memory.
    #[arg(long)]
    opening: bool,
}

/// What one thread did.
struct Calls {
    latencies: Vec<Duration>,
    mismatches: usize,
    started: Instant,
    ended: Instant,
}

fn one_thread(
    model: &dyn Model,
    inputs: &[Input],
    barrier: &Barrier,
    time: Duration,
) -> Result<Calls> {
    let mut inputs = inputs.to_vec();
    let prepared = model.caller(&mut inputs).and_then(|mut caller| {
        caller.call()?;
        let expected: Vec<Vec<u8>> = caller.outputs()?.into_iter().map(<[u8]>::to_vec).collect();
        Ok((caller, expected))
    });
    barrier.wait();
    let (mut caller, expected) = prepared?;
    let (started, mut latencies, mut mismatches) = (Instant::now(), Vec::new(), 0);
    loop {
        let before = Instant::now();
        caller.call()?;
        let ended = Instant::now();
        latencies.push(ended - before);
        mismatches += usize::from(caller.outputs()? != expected);
        if ended - started >= time {
            return Ok(Calls { latencies, mismatches, started, ended });
        }
    }
}

fn measure(model: &dyn Model, inputs: &[Input], threads: usize, time: Duration) -> Result<Value> {
    let barrier = Barrier::new(threads);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let calls = one_thread(model, inputs, &barrier, time);
                all.lock().unwrap_or_else(PoisonError::into_inner).push(calls);
            });
        }
    });
    let calls: Vec<Calls> = all
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .collect::<Result<_>>()?;
    let first = calls.iter().map(|calls| calls.started).min();
    let last = calls.iter().map(|calls| calls.ended).max();
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    let mismatches: usize = calls.iter().map(|calls| calls.mismatches).sum();
    let mut latencies: Vec<Duration> =
        calls.into_iter().flat_map(|calls| calls.latencies).collect();
    latencies.sort_unstable();
    let percentile = |share: f64| {
        let place = (latencies.len() as f64 * share).ceil() as usize;
        latencies.get(place.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    Ok(json!({
        "threads": threads,
        "calls_per_s": latencies.len() as f64 / elapsed.as_secs_f64().max(1e-9),
        "p50_us": percentile(0.5),
        "p99_us": percentile(0.99),
        "mismatches": mismatches,
    }))
}

/// What Linux says of the memory of this process, in bytes.
fn resident(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("no such field")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
}

/// Opens a model and calls it twice, as `millstream bench opening` does.
fn opening(open: impl FnOnce() -> Result<Box<dyn Model>>, inputs: &[Input]) -> Result<()> {
    let before = resident("VmRSS:")?;
    let mut steps = Vec::new();
    let mut last = Instant::now();
    let mut end = |name| -> Result<()> {
        let peak = resident("VmHWM:")?.saturating_sub(before);
        steps.push(
            json!({ "step": name, "ms": last.elapsed().as_secs_f64() * 1e3, "peak_bytes": peak }),
        );
        last = Instant::now();
        Ok(())
    };
    let model = open()?;
    end("open")?;
    let mut inputs = inputs.to_vec();
    let mut caller = model.caller(&mut inputs)?;
    end("inputs")?;
    for name in ["first call", "second call"] {
        caller.call()?;
        end(name)?;
    }
    println!("{}", json!({ "steps": steps }));
    Ok(())
}

fn open(arguments: &Arguments, inputs: &[Input]) -> Result<Box<dyn Model>> {
    Ok(match arguments.program {
        Program::Onnxruntime => Box::new(onnxruntime::Session::open(
            &arguments.library,
            &arguments.model,
            arguments.inside,
            arguments.spin,
        )?),
        Program::Openvino => Box::new(openvino::Compiled::open(
            &arguments.library,
            &arguments.model,
            &arguments.hint,
            inputs,
        )?),
    })
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let inputs = inputs::read(&arguments.inputs)?;
    if arguments.opening {
        return opening(|| open(&arguments, &inputs), &inputs);
    }
    let model = open(&arguments, &inputs)?;
    let time = Duration::from_secs_f64(arguments.seconds);
    let rows: Vec<Value> = arguments
        .threads
        .iter()
        .map(|&threads| measure(&*model, &inputs, threads, time))
        .collect::<Result<_>>()?;
    println!("{}", json!({ "rows": rows }));
    Ok(())
}

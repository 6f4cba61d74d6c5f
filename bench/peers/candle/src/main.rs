//! The workloads of `millstream bench` in candle, for `bench/peers/compare.py`.
//!
//! Threads share one model; each has an input of its own and starts at a barrier, warm. A call ends when
//! its answer is a vector on the host. `RAYON_NUM_THREADS` sets how many threads one operation may use.

mod workloads;

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use candle_core::{Module, Result, Tensor};
use clap::Parser;
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    workload: String,
    #[arg(long, value_delimiter = ',', default_value = "1,2,8,31")]
    threads: Vec<usize>,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

fn call(model: &dyn Module, input: &Tensor) -> Result<Vec<f32>> {
    model.forward(input)?.flatten_all()?.to_vec1()
}

/// What one thread did.
struct Calls {
    latencies: Vec<Duration>,
    /// Answers that differ from that of the first call.
    mismatches: usize,
    started: Instant,
    ended: Instant,
}

fn measure(
    model: &(dyn Module + Sync),
    shape: &[usize],
    threads: usize,
    time: Duration,
) -> Result<Vec<Calls>> {
    let barrier = Barrier::new(threads);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let prepared = workloads::input(shape).and_then(|input| {
                    call(model, &input)?;
                    let expected = call(model, &input)?;
                    Ok((input, expected))
                });
                barrier.wait();
                let calls = prepared.and_then(|(input, expected)| {
                    let (started, mut latencies) = (Instant::now(), Vec::new());
                    let mut mismatches = 0;
                    loop {
                        let before = Instant::now();
                        let answer = call(model, &input)?;
                        let ended = Instant::now();
                        latencies.push(ended - before);
                        // As in `millstream bench`: part of the rate, not of the latency.
                        mismatches += usize::from(answer != expected);
                        if ended - started >= time {
                            return Ok(Calls { latencies, mismatches, started, ended });
                        }
                    }
                });
                all.lock().unwrap_or_else(PoisonError::into_inner).push(calls);
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (model, shape) = workloads::load(&arguments.workload)?;
    let mut rows = Vec::new();
    for &threads in &arguments.threads {
        let time = Duration::from_secs_f64(arguments.seconds);
        let calls = measure(&*model, shape, threads, time)?;
        let first = calls.iter().map(|calls| calls.started).min();
        let last = calls.iter().map(|calls| calls.ended).max();
        let mismatches: usize = calls.iter().map(|calls| calls.mismatches).sum();
        let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        let mut latencies: Vec<Duration> =
            calls.into_iter().flat_map(|calls| calls.latencies).collect();
        latencies.sort_unstable();
        let percentile = |share: f64| {
            let place = (latencies.len() as f64 * share).ceil() as usize;
            latencies.get(place.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        rows.push(json!({
            "workload": arguments.workload,
            "threads": threads,
            "calls_per_s": latencies.len() as f64 / elapsed.as_secs_f64().max(1e-9),
            "p50_us": percentile(0.5),
            "p99_us": percentile(0.99),
            "mismatches": mismatches,
        }));
    }
    println!("{}", json!({ "rows": rows }));
    Ok(())
}

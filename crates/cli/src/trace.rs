//! `millstream trace`: the timeline of a built-in model for Perfetto, and what its commands take.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock, mpsc};

use clap::builder::PossibleValuesParser;
use millstream::Device;
use millstream::profiler::StreamTrace;
use millstream::{Error, Result};

use crate::table;
use crate::workloads::{self, Workload, call};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model.
    #[arg(long, default_value = "encoder")]
    #[arg(value_parser = PossibleValuesParser::new(workloads::names()))]
    workload: String,
    /// Threads that call it at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Calls of each thread, after one that is not in the trace.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// The device, by name.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// The file to write; ui.perfetto.dev and chrome://tracing open it.
    #[arg(short, long, default_value = "trace.json")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = Device::open(&arguments.device)?;
    let path = &arguments.output;
    for workload in workloads::chosen(std::slice::from_ref(&arguments.workload)) {
        let streams = take(workload, device, arguments)?;
        let json = device.profiler().chrome_json(&streams);
        std::fs::write(path, json).map_err(|error| Error::write(path, error))?;
        print_totals(&streams);
    }
    println!("\ntimeline in {}: open it in https://ui.perfetto.dev", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Profiles calls from many threads, but not loading, nor each thread's first call.
fn take(workload: &Workload, device: Device, arguments: &Arguments) -> Result<Vec<StreamTrace>> {
    let model = workload.load(&device)?;
    let start = RwLock::new(());
    let work = |thread: usize, warm: mpsc::Sender<()>| -> Result<()> {
        let input = workload.input(thread, &device)?;
        call(&model, &input)?;
        drop(warm);
        let _started = start.read();
        (0..arguments.calls).try_for_each(|_| call(&model, &input).map(drop))
    };
    let result = std::thread::scope(|scope| {
        let closed = start.write().unwrap_or_else(PoisonError::into_inner);
        let (warm, all_warm) = mpsc::channel();
        let mut callers = Vec::new();
        for thread in 0..arguments.threads as usize {
            let (work, warm) = (&work, warm.clone());
            let builder = std::thread::Builder::new().name(format!("caller {thread}"));
            callers.push(builder.spawn_scoped(scope, move || work(thread, warm)));
        }
        drop(warm);
        // Ends when every thread has dropped its sender: it is warm, or it has failed.
        let _ = all_warm.recv();
        device.profiler().start();
        drop(closed);
        callers.into_iter().try_for_each(|caller| {
            let caller = caller.map_err(|error| Error::Invalid {
                op: "trace",
                reason: format!("a thread could not be started: {error}"),
            })?;
            caller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    device.profiler().stop();
    result?;
    Ok(device.profiler().take())
}

/// What each kind of command took, over all streams.
fn print_totals(streams: &[StreamTrace]) {
    let mut kinds = BTreeMap::<&str, (u64, u64)>::new();
    for span in streams.iter().flat_map(|stream| &stream.spans) {
        let (count, total) = kinds.entry(span.kind.name()).or_default();
        *count += 1;
        *total += span.end_ns.saturating_sub(span.start_ns);
    }
    let all = kinds.values().map(|(_, total)| total).sum::<u64>().max(1) as f64;
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (_, total))| std::cmp::Reverse(*total));
    let rows: Vec<_> = kinds
        .into_iter()
        .map(|(name, (count, total))| {
            vec![
                name.to_owned(),
                count.to_string(),
                format!("{:.1}", total as f64 / 1e3 / count as f64),
                format!("{:.1}", total as f64 / 1e6),
                format!("{:.1}%", 100.0 * total as f64 / all),
            ]
        })
        .collect();
    table::print(&["command", "count", "mean µs", "total ms", "share"], &rows);
    let dropped: u64 = streams.iter().map(|stream| stream.dropped).sum();
    if dropped > 0 {
        println!("{dropped} older commands are no longer in the trace");
    }
}

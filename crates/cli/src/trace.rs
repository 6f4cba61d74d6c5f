//! `millstream trace`: the timeline of a built-in model for Perfetto, and what its commands take.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock, mpsc};

use clap::builder::PossibleValuesParser;
use millstream::Device;
use millstream::graph::Batching;
use millstream::profiler::Trace;
use millstream::{Error, Result, Tensor};

use crate::choice::{DeviceChoice, check_output};
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
    /// Threads call a session, which joins calls that come at the same time. The trace then has rows for batches of calls.
    #[arg(long)]
    coalesced: bool,
    #[command(flatten)]
    device: DeviceChoice,
    /// The file to write; ui.perfetto.dev and chrome://tracing open it.
    #[arg(short, long, default_value = "trace.json")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = &arguments.output;
    check_output(path)?;
    let device = arguments.device.open()?;
    for workload in workloads::chosen(std::slice::from_ref(&arguments.workload)) {
        let trace = take(workload, device, arguments)?;
        trace.export(path)?;
        print!("{}", trace.summary());
    }
    println!("\ntimeline in {}: open it in https://ui.perfetto.dev", path.display());
    Ok(ExitCode::SUCCESS)
}

/// One call, to its end.
type Callee = dyn Fn(&Tensor) -> Result<()> + Send + Sync;

/// Profiles calls from many threads, but not loading, nor each thread's first call.
fn take(workload: &Workload, device: Device, arguments: &Arguments) -> Result<Trace> {
    let model: Box<Callee> = if arguments.coalesced {
        let session = workload.session(&device, Batching::new().always())?;
        session.warm_up_with([&workload.input(0, &device)?])?;
        Box::new(move |input| session.run([input])?.wait())
    } else {
        let model = workload.load(&device)?;
        Box::new(move |input| call(&*model, input).map(drop))
    };
    let start = RwLock::new(());
    let work = |thread: usize, warm: mpsc::Sender<()>| -> Result<()> {
        let input = workload.input(thread, &device)?;
        model(&input)?;
        drop(warm);
        let _started = start.read();
        (0..arguments.calls).try_for_each(|_| {
            let _span = device.profiler().span("call");
            model(&input)
        })
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
    Ok(device.profiler().take_trace())
}

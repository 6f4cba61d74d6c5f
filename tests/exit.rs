//! Invariant 12, first half: exit is clean. A program of its own, since it is about returning from
//! `main` while threads are in the middle of their work.
//!
//! Without arguments it starts itself 100 times; each child returns from `main` with 8 threads busy.

use std::process::{Command as Process, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::{Activation, Command, DType, Device, Distribution, Layout, Result};

const RUNS: usize = 100;
const THREADS: usize = 8;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--busy-child") {
        return busy_child();
    }
    // Cargo passes test arguments; a filter that does not mean this program skips it.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"invariant_12_exit_is_clean".contains(&filter)) {
        println!("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed");
        return ExitCode::SUCCESS;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let failed: Vec<_> = (0..RUNS)
        .filter_map(|run| {
            let status = Process::new(&program).arg("--busy-child").status();
            let status = status.expect("a child process");
            (status.code() != Some(0)).then_some((run, status))
        })
        .collect();
    let clean = failed.is_empty();
    let outcome = if clean { "ok" } else { "FAILED" };
    println!("\nrunning 1 test\ntest invariant_12_exit_is_clean ... {outcome}");
    println!("clean exits: {} of {RUNS}; others: {failed:?}", RUNS - failed.len());
    println!(
        "\ntest result: {outcome}. {} passed; {} failed",
        usize::from(clean),
        usize::from(!clean)
    );
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns once every thread has finished a call and is in the middle of the next.
fn busy_child() -> ExitCode {
    let calls = Arc::new(AtomicUsize::new(0));
    for thread in 0..THREADS {
        let calls = Arc::clone(&calls);
        std::thread::spawn(move || {
            let mut first = true;
            while call(thread as u64).is_ok() {
                if std::mem::take(&mut first) {
                    calls.fetch_add(1, Ordering::Release);
                }
            }
            std::process::abort();
        });
    }
    while calls.load(Ordering::Acquire) < THREADS {
        std::thread::yield_now();
    }
    ExitCode::SUCCESS
}

fn call(seed: u64) -> Result<()> {
    let stream = Device::cpu()?.stream()?;
    let layout = Layout::contiguous(DType::F32, &[128, 128])?;
    let a = stream.allocate(layout.dense_bytes())?;
    let b = stream.allocate(layout.dense_bytes())?;
    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    stream.record(Command::random(a.operand(layout), normal, seed, 0)?)?;
    let (to, from) = (b.operand(layout), a.operand(layout));
    stream.record(Command::matmul(to, from, from, None, None, 1.0, Activation::Relu)?)?;
    stream.flush()?;
    stream.download(b.operand(layout))?.read::<f32>().map(drop)
}

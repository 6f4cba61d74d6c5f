//! The probe: every assumption that this backend and the driver of its tests rest on, measured where it runs. `docs/metal.md` lists
//! the rows with where each assumption comes from.
//!
//! A row runs on a thread of its own with a deadline. One that does not end is given up, and one that fails says why; the next
//! row runs all the same.

mod clock;
mod cost;
mod failures;
mod functions;
mod indirect;
mod lab;
mod limits;
mod newer;
mod numbers;
mod order;
mod queues;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use millstream_core::{
    Error, ProbeEntry, ProbeOptions, ProbeOutcome, ProbeRow, Result, panic_message,
};

use self::lab::Lab;
use crate::objects::pooled;

/// A row before it was run.
#[derive(Clone, Copy)]
struct Check {
    name: &'static str,
    assumed: &'static str,
    run: fn(&Lab) -> RowResult,
}

/// What a row found, or why it could not be run.
type RowResult = std::result::Result<Found, String>;

#[derive(Debug)]
struct Found {
    text: String,
    outcome: ProbeOutcome,
}

/// An assumption that holds or not.
fn compared(holds: bool, text: impl Into<String>) -> RowResult {
    let outcome = if holds { ProbeOutcome::AsAssumed } else { ProbeOutcome::Not };
    Ok(Found { text: text.into(), outcome })
}

/// A figure that nothing rests on.
fn measured(text: impl Into<String>) -> RowResult {
    Ok(Found { text: text.into(), outcome: ProbeOutcome::Measured })
}

fn checks() -> impl Iterator<Item = &'static Check> {
    let all: [&[Check]; 10] = [
        numbers::CHECKS,
        functions::CHECKS,
        order::CHECKS,
        queues::CHECKS,
        limits::CHECKS,
        newer::CHECKS,
        indirect::CHECKS,
        clock::CHECKS,
        cost::CHECKS,
        failures::CHECKS,
    ];
    all.into_iter().flatten()
}

/// Runs one row until its deadline.
fn run_check(check: Check, lab: &Arc<Lab>) -> ProbeRow {
    let start = Instant::now();
    let (sender, results) = channel();
    let own = Arc::clone(lab);
    let started = std::thread::Builder::new().name(check.name.into()).spawn(move || {
        let run = std::panic::AssertUnwindSafe(|| pooled(|| (check.run)(&own)));
        let result = std::panic::catch_unwind(run)
            .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_message(&*panic))));
        // Nobody listens where the deadline has passed.
        let _ = sender.send(result);
    });
    let result = match started {
        Err(error) => Err(format!("no thread: {error}")),
        Ok(_) => match results.recv_timeout(lab.options.deadline) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it did not end within {:?}", lab.options.deadline))
            }
            Err(RecvTimeoutError::Disconnected) => Err("its thread is gone".into()),
        },
    };
    let (found, outcome) = match result {
        Ok(Found { text, outcome }) => (text, outcome),
        Err(reason) => (reason, ProbeOutcome::NotRun),
    };
    let Check { name, assumed, .. } = check;
    ProbeRow { name, assumed, found, outcome, time: start.elapsed() }
}

fn rows() -> Vec<(&'static str, &'static str)> {
    checks().map(|check| (check.name, check.assumed)).collect()
}

fn run(options: &ProbeOptions, each: &mut dyn FnMut(ProbeRow)) -> Result<()> {
    if let Some(unknown) = options.rows.iter().find(|row| checks().all(|c| c.name != *row)) {
        let reason = format!("there is no row {unknown}; --list names all of them");
        return Err(Error::Invalid { op: "probe", reason });
    }
    let lab = Arc::new(Lab::open(options)?);
    let wanted = |check: &&Check| {
        options.rows.is_empty() || options.rows.iter().any(|row| row == check.name)
    };
    checks().filter(wanted).for_each(|check| each(run_check(*check, &lab)));
    Ok(())
}

/// Microseconds, as rows show them.
fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// The middle of some times.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

millstream_core::inventory::submit! {
    ProbeEntry { backend: "metal", rows, run }
}

#[cfg(all(test, feature = "driver"))]
mod tests;

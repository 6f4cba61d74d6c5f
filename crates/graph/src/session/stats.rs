//! Figures of a session.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Inputs, Session};
use crate::Result;

/// What a session has compiled, and how often it was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Calls that were answered.
    pub calls: u64,
    /// Time from the beginning of these calls until they had their outputs; those may still be computed.
    pub time: Duration,
    /// How often inputs came for which there was no plan.
    pub compiled: usize,
    /// Plans that are kept.
    pub stages: usize,
    /// Commands of all of them.
    pub commands: usize,
    /// Bytes that the largest of them takes for its temporary values in each run.
    pub largest_arena: usize,
    /// Bytes of the weights that they share.
    pub weight_bytes: usize,
}

impl SessionStats {
    /// Calls whose shapes were compiled already.
    pub fn hits(&self) -> u64 {
        self.calls.saturating_sub(self.compiled as u64)
    }
}

/// Bytes as mebibytes.
fn mib(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

impl fmt::Display for SessionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, time, compiled, stages, commands, largest_arena, weight_bytes } = self;
        let each = if *calls == 0 {
            Duration::ZERO
        } else {
            *time / (*calls).min(u64::from(u32::MAX)) as u32
        };
        write!(
            f,
            "{calls} calls ({each:?} each), {compiled} compiled, {stages} plans of {commands} Commands, "
        )?;
        write!(
            f,
            "arenas up to {:.1} MiB, weights {:.1} MiB",
            mib(*largest_arena),
            mib(*weight_bytes)
        )
    }
}

/// Counters that many threads add to. Each thread has one of a few places, so that they do not wait for one cache line.
pub(super) struct LiveStats([Place; PLACES]);

const PLACES: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Place {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The beginning of a call.
pub(super) struct Started(Instant);

impl Started {
    pub fn at(&self) -> Instant {
        self.0
    }
}

impl LiveStats {
    pub fn new() -> Self {
        Self(Default::default())
    }

    pub fn begin(&self) -> Started {
        Started(Instant::now())
    }

    pub fn end(&self, started: Started) {
        let place = &self.0[own_place()];
        let time = u64::try_from(started.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Nothing is published by these numbers.
        place.calls.fetch_add(1, Ordering::Relaxed);
        place.nanoseconds.fetch_add(time, Ordering::Relaxed);
    }

    /// These figures with those of the program.
    pub fn read(&self, compiled: SessionStats) -> SessionStats {
        let sum = |of: fn(&Place) -> &AtomicU64| {
            self.0.iter().map(|place| of(place).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (calls, nanoseconds) = (sum(|place| &place.calls), sum(|place| &place.nanoseconds));
        SessionStats { calls, time: Duration::from_nanos(nanoseconds), ..compiled }
    }
}

fn own_place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PLACES;
    }
    // A thread that is ending has no place any more; any will do.
    OWN.try_with(|own| *own).unwrap_or(0)
}

/// How long a node of a model took in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTime {
    /// Its name.
    pub node: String,
    /// Commands that it became.
    pub commands: u64,
    /// Their time.
    pub time: Duration,
}

pub(super) fn profile(session: &Session, inputs: Inputs) -> Result<Vec<NodeTime>> {
    let profiler = session.device();
    let profiler = profiler.profiler();
    profiler.start();
    let result = session.run(inputs).and_then(|outputs| outputs.wait());
    profiler.stop();
    let summary = profiler.take_trace().summary();
    result?;
    let time = |row: millstream_core::profiler::SummaryRow| NodeTime {
        node: row.name,
        commands: row.count,
        time: Duration::from_nanos(row.total_ns),
    };
    Ok(summary.layers.into_iter().map(time).collect())
}

//! When calls are sent.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When callers send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrivals {
    /// Each sends when it has its answer.
    Closed,
    /// At random times that do not depend on the answers, so many per second in all. A latency counts from the time at which
    /// the call should have been sent.
    Poisson(f64),
}

/// The times at which calls are due: one sequence for all callers, of whom the next that is free sends the next call. A call waits
/// for a caller only while all of them wait for answers.
pub(super) struct Schedule {
    /// None if each caller sends when it has its answer.
    arrivals: Option<Mutex<Process>>,
}

/// A Poisson process.
struct Process {
    /// The mean time between two calls, in seconds.
    mean: f64,
    /// When the last call that was taken is due.
    last: Option<Instant>,
    random: u64,
}

impl Schedule {
    pub fn new(arrivals: Arrivals) -> Self {
        let process = match arrivals {
            Arrivals::Closed => None,
            Arrivals::Poisson(rate) => {
                Some(Process { mean: 1.0 / rate, last: None, random: 0x9e37_79b9_7f4a_7c15 })
            }
        };
        Self { arrivals: process.map(Mutex::new) }
    }

    /// Waits until the next call is due, and says when that was. `None` if that is not before the end.
    pub fn wait(&self, end: Instant) -> Option<Instant> {
        let Some(process) = &self.arrivals else { return Some(Instant::now()) };
        let due = process.lock().unwrap_or_else(PoisonError::into_inner).next();
        if due >= end {
            return None;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Some(due)
    }

    /// To be called by each caller first. Where calls have times, the system may wake it that late: 50 µs by default on Linux, which is as long as
    /// a small call.
    pub fn prepare_caller(&self) {
        #[cfg(target_os = "linux")]
        if self.arrivals.is_some() {
            // SAFETY: changes nothing but how exactly the calling thread sleeps. If it is refused, it sleeps as before.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        }
    }
}

impl Process {
    /// When the next call is due; the first after the first caller has asked.
    fn next(&mut self) -> Instant {
        let gap = -self.uniform().ln() * self.mean;
        let last = self.last.unwrap_or_else(Instant::now);
        let due = last + Duration::from_secs_f64(gap.min(3600.0));
        self.last = Some(due);
        due
    }

    /// A number above 0 and at most 1 (xorshift).
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;

//! The health of a device, and the errors that it had.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CLOSED, DeviceInner, LOST, OPEN};
use crate::Error;
use crate::stream::StreamInner;
use crate::sync::shim::{Mutex, MutexGuard, lock};

/// Whether a device can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum HealthState {
    /// It can be used.
    Healthy,
    /// It is gone; every call fails.
    Lost,
    /// It was closed.
    Closed,
    /// It was opened before a fork and is not usable in this process.
    Forked,
}

/// The health of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Whether it can be used.
    pub state: HealthState,
    /// Commands that failed, and errors of the device itself, since it was opened.
    pub faults: u64,
    /// The last error; for a lost device, why it was lost.
    pub last_error: Option<Error>,
}

/// The errors of a device.
#[derive(Default)]
pub(super) struct FaultLog(Mutex<State>);

#[derive(Default)]
struct State {
    faults: u64,
    last: Option<Error>,
    lost: Option<Arc<str>>,
}

impl FaultLog {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    fn note(&self, error: &Error) {
        let mut state = self.state();
        state.faults += 1;
        state.last = Some(error.clone());
        if let Error::DeviceLost { reason, .. } = error {
            state.lost.get_or_insert_with(|| Arc::clone(reason));
        }
    }

    fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    pub fn lost(&self, device: &str) -> Error {
        let reason = self.state().lost.clone().unwrap_or_else(|| "unknown".into());
        Error::DeviceLost { device: device.to_owned(), reason }
    }
}

impl DeviceInner {
    /// Takes note of an error that a backend returned. A lost device fails closed: from here on every
    /// call is refused, and everything pending on every stream fails.
    pub fn note_error(&self, error: &Error) {
        self.note_error_locked(error);
        self.wake_tasks();
    }

    /// As [`note_error`](Self::note_error), for a caller that holds a lock. It must wake the tasks after it has
    /// released the lock.
    pub fn note_error_locked(&self, error: &Error) {
        self.fault_log.note(error);
        if matches!(error, Error::DeviceLost { .. }) {
            // The status comes first, so that a caller that is released below and calls again is refused.
            let _ = self.status.compare_exchange(OPEN, LOST, Ordering::AcqRel, Ordering::Acquire);
            // This comes after the error was noted above; `lose_if_lost` relies on it.
            for stream in self.pool.created() {
                stream.progress().lose(error.clone());
            }
        }
    }

    /// Wakes the tasks that wait for work that has passed, on all streams. The caller holds no lock.
    pub fn wake_tasks(&self) {
        self.pool.created().for_each(|stream| stream.progress().wake_tasks());
    }

    /// Loses a stream that was just added to the pool if the device was lost meanwhile. Nothing is missed: either
    /// this check, under the lock of the fault log, comes after the loss was noted, or the thread that notes the loss
    /// finds the stream in the pool.
    pub fn lose_if_lost(&self, stream: &StreamInner) {
        if self.fault_log.is_lost() {
            stream.progress().lose(self.fault_log.lost(self.name()));
        }
    }

    /// Opens a device again that could not be closed. If it was lost meanwhile, it is lost: who noted that may have found it closed.
    pub(super) fn reopen(&self) {
        let set = |from, to| {
            let _ = self.status.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        };
        set(CLOSED, OPEN);
        if self.fault_log.is_lost() {
            set(OPEN, LOST);
        }
    }

    /// The error of a queue that did not take a batch. Unless the device was closed, it is broken, and nobody knows
    /// what it still does.
    pub fn broken(&self, error: Error) -> Error {
        match error {
            Error::DeviceLost { .. } | Error::DeviceClosed { .. } => error,
            error => Error::DeviceLost {
                device: self.name().to_owned(),
                reason: error.to_string().into(),
            },
        }
    }

    pub fn health(&self) -> Health {
        if self.is_inherited() {
            return Health { state: HealthState::Forked, faults: 0, last_error: None };
        }
        let state = match self.status.load(Ordering::Acquire) {
            LOST => HealthState::Lost,
            CLOSED => HealthState::Closed,
            _ => HealthState::Healthy,
        };
        let (mut faults, mut last_error) = {
            let state = self.fault_log.state();
            (state.faults, state.last.clone())
        };
        for stream in self.pool.created() {
            let (count, last) = stream.progress().faults();
            faults += count;
            last_error = last_error.or(last);
        }
        Health { state, faults, last_error }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

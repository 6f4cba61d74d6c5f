//! How a device is, and what went wrong on it.

use std::sync::Arc;

use super::{CLOSED, DeviceInner, LOST, OPEN};
use crate::Error;
use crate::sync::schedule::{Mutex, MutexGuard, Ordering, PoisonError};

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

/// How a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Whether it can be used.
    pub state: HealthState,
    /// Commands that failed, and errors of the device itself, since it was opened.
    pub faults: u64,
    /// The last error, or the reason why it is lost.
    pub last_error: Option<Error>,
}

#[derive(Default)]
pub(super) struct Troubles(Mutex<Record>);

#[derive(Default)]
struct Record {
    faults: u64,
    last: Option<Error>,
    lost: Option<Arc<str>>,
}

impl Troubles {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lost(&self, device: &str) -> Error {
        let reason = self.record().lost.clone().unwrap_or_else(|| "unknown".into());
        Error::DeviceLost { device: device.to_owned(), reason }
    }
}

impl DeviceInner {
    /// Takes note of an error that a backend returned. A lost device fails closed: from here on every
    /// call is refused, and everything pending on every stream fails.
    pub fn note_error(&self, error: &Error) {
        {
            let mut record = self.troubles.record();
            record.faults += 1;
            record.last = Some(error.clone());
            if let Error::DeviceLost { reason, .. } = error {
                record.lost.get_or_insert_with(|| Arc::clone(reason));
            }
        }
        if matches!(error, Error::DeviceLost { .. }) {
            // Status first: whoever is released below and calls again is refused.
            let _ = self.status.compare_exchange(OPEN, LOST, Ordering::AcqRel, Ordering::Acquire);
            for stream in self.pool.created() {
                stream.progress().lose(error.clone());
            }
        }
    }

    /// What an error means that a queue gave instead of taking a batch: unless the device was closed it is
    /// broken, and nobody can say what it still does.
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
            let record = self.troubles.record();
            (record.faults, record.last.clone())
        };
        for stream in self.pool.created() {
            let (count, last) = stream.progress().faults();
            faults += count;
            last_error = last_error.or(last);
        }
        Health { state, faults, last_error }
    }
}

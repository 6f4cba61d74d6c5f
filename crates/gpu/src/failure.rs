//! Failures of driver calls, and whether the device survives them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_core::{Error, Result};

/// A call into a driver or library that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function that was called.
    pub call: &'static str,
    /// The error code, by name.
    pub name: String,
    /// The driver's description of the error.
    pub text: String,
    /// Whether the device is lost by it.
    pub sticky: bool,
    /// Whether it is a lack of memory.
    pub out_of_memory: bool,
}

impl Failure {
    /// A failure that harms nothing else.
    #[cold]
    pub fn new(call: &'static str, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { call, name, text, sticky: false, out_of_memory: false }
    }

    /// The error of a call on a device that is open.
    pub fn during_work(&self, device: &str) -> Error {
        let (device, message) = (device.to_owned(), self.to_string().into());
        match self.sticky {
            true => Error::DeviceLost { device, reason: message },
            false => Error::Driver { device, message },
        }
    }

    /// The error of a device that this failure keeps from being opened.
    pub fn while_opening(&self, device: &str) -> Error {
        Error::Unavailable { name: device.to_owned(), reason: self.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gave {} ({})", self.call, self.name, self.text)
    }
}

/// Whether a device still works. The status belongs to the hardware: all devices that are opened on one GPU share it.
#[derive(Debug)]
pub struct DeviceStatus {
    name: String,
    lost: OnceLock<Arc<str>>,
}

impl DeviceStatus {
    /// A device that works.
    pub fn new(name: String) -> Self {
        Self { name, lost: OnceLock::new() }
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it still works.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`].
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => {
                Err(Error::DeviceLost { device: self.name.clone(), reason: Arc::clone(reason) })
            }
        }
    }

    /// Notes a failure during work. If the device is lost by it, every later call fails.
    pub fn note(&self, failure: &Failure) -> Error {
        if failure.sticky {
            self.lost.get_or_init(|| failure.to_string().into());
        }
        failure.during_work(&self.name)
    }

    /// Loses the device, whatever the failure says of itself.
    pub fn lose(&self, failure: &Failure) -> Error {
        self.note(&Failure { sticky: true, ..failure.clone() })
    }

    /// Notes a failure during work and returns its error.
    ///
    /// # Errors
    ///
    /// The device is lost, by this failure or an earlier one.
    pub fn survive(&self, failure: &Failure) -> Result<Error> {
        let error = self.note(failure);
        self.check().map(|()| error)
    }
}

#[cfg(test)]
mod tests;

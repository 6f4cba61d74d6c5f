//! What a driver says when a call fails, and whether the device survives it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_core::{Error, Result};

/// A call into a driver or library that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function that was called.
    pub call: &'static str,
    /// What it answered, as a name.
    pub name: String,
    /// The same in words.
    pub text: String,
    /// Whether nothing works any more after it.
    pub sticky: bool,
    /// Whether memory was lacking.
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

    /// The error of a device that cannot be opened because of it.
    pub fn while_opening(&self, device: &str) -> Error {
        Error::Unavailable { name: device.to_owned(), reason: self.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gave {} ({})", self.call, self.name, self.text)
    }
}

/// Whether a device still works. It belongs to the hardware, so all devices that are opened on one GPU share it.
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

    /// Notes a failure during work. If nothing works any more after it, every call fails from here on.
    pub fn note(&self, failure: &Failure) -> Error {
        if failure.sticky {
            self.lost.get_or_init(|| failure.to_string().into());
        }
        failure.during_work(&self.name)
    }

    /// The device cannot be used any more, whatever the failure says of itself.
    pub fn lose(&self, failure: &Failure) -> Error {
        self.note(&Failure { sticky: true, ..failure.clone() })
    }

    /// Notes a failure during work; gives its error.
    ///
    /// # Errors
    ///
    /// The device is lost, by this failure or before it.
    pub fn survive(&self, failure: &Failure) -> Result<Error> {
        let error = self.note(failure);
        self.check().map(|()| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_during_work_names_the_call_and_does_not_speak_of_opening() {
        let failure = Failure::new("launch", "BAD_CONFIG", "words");
        let error = failure.during_work("gpu:0");
        assert!(matches!(error, Error::Driver { .. }));
        let text = error.to_string();
        assert!(
            text.contains("gpu:0") && text.contains("launch gave BAD_CONFIG (words)"),
            "{text}"
        );
        assert!(!text.contains("cannot be opened"), "{text}");
        assert!(failure.while_opening("gpu:0").to_string().contains("cannot be opened"));
    }

    #[test]
    fn a_sticky_failure_loses_the_device_for_good() {
        let status = DeviceStatus::new("gpu:0".into());
        let failure = Failure::new("launch", "BAD_CONFIG", "words");
        assert!(status.survive(&failure).is_ok() && status.check().is_ok());
        let lost = status.lose(&failure);
        assert!(matches!(lost, Error::DeviceLost { .. }));
        assert_eq!(status.check(), Err(lost));
        // The first reason stays.
        status.lose(&Failure::new("free", "LATER", "words"));
        assert!(status.check().unwrap_err().to_string().contains("BAD_CONFIG"));
        assert!(status.survive(&failure).is_err());
    }
}

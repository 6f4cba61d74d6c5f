//! What ran when: a ring of spans per stream, exported for Perfetto.

mod chrome;
mod stream;
mod thread;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub use stream::{Activity, BatchSpan, Span, StreamProfile, StreamTrace};
pub use thread::ThreadLabel;

use crate::device::fork;
use crate::{Error, Result};

/// Nanoseconds of a clock that starts with the process and never goes back.
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A device's profiler. Off until it is started; safe to use from any thread at any time. That of a device
/// inherited through a fork does nothing and knows nothing.
pub struct Profiler {
    device: String,
    /// The process it was made in.
    generation: u32,
    enabled: Arc<AtomicBool>,
    streams: Mutex<Vec<(u32, Arc<StreamProfile>)>>,
}

impl Profiler {
    pub(crate) fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            generation: fork::generation(),
            enabled: Arc::new(AtomicBool::new(false)),
            streams: Mutex::new(Vec::new()),
        }
    }

    /// A stream's own ring; made once, when the stream is.
    pub(crate) fn stream(&self, stream: u32) -> Arc<StreamProfile> {
        let profile = Arc::new(StreamProfile::new(Arc::clone(&self.enabled)));
        self.streams().push((stream, Arc::clone(&profile)));
        profile
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<(u32, Arc<StreamProfile>)>> {
        self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether its locks may be held by threads that do not exist in this process.
    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Starts to take spans, forgetting earlier ones.
    pub fn start(&self) {
        if self.is_inherited() {
            return;
        }
        self.take();
        self.enabled.store(true, Ordering::Relaxed);
    }

    /// Stops. What was taken stays until it is exported.
    pub fn stop(&self) {
        self.enabled.store(false, Ordering::Relaxed);
    }

    /// What is known of each stream so far; forgets it.
    pub fn take(&self) -> Vec<StreamTrace> {
        if self.is_inherited() {
            return Vec::new();
        }
        let mut streams: Vec<_> =
            self.streams().iter().map(|(stream, profile)| profile.take(*stream)).collect();
        streams.sort_by_key(|trace| trace.stream);
        streams
    }

    /// What is known so far in Chrome's trace format: a row per stream with its commands, a row per thread
    /// with the batches that it recorded and executed, and arrows from recording to the stream. Forgets it.
    pub fn to_json(&self) -> String {
        self.chrome_json(&self.take())
    }

    /// What [`take`](Self::take) gave, as [`to_json`](Self::to_json) writes it.
    pub fn chrome_json(&self, streams: &[StreamTrace]) -> String {
        chrome::trace(&self.device, streams)
    }

    /// Writes [`to_json`](Self::to_json) to a file that Perfetto and `chrome://tracing` open.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or a device inherited through a fork.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Forked { device: self.device.clone() });
        }
        let path = path.as_ref();
        std::fs::write(path, self.to_json()).map_err(|error| Error::write(path, error))
    }
}

//! What ran when: a ring of spans per stream and the spans and marks of users, exported for Perfetto or summarized.

mod annotation;
mod chrome;
pub(crate) mod file;
mod joined;
mod shapes;
mod stream;
mod summary;
mod thread;
mod trace;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub use annotation::{Annotation, SpanGuard};
pub use joined::JoinedSpan;
pub use shapes::Shapes;
pub use stream::{Activity, BatchSpan, Span, StreamProfile, StreamTrace};
pub use summary::{Summary, SummaryRow};
pub use thread::ThreadLabel;
pub use trace::Trace;

use annotation::Annotations;
use joined::Joined;

use crate::device::fork;
use crate::{Error, Result};

/// Nanoseconds of a clock that starts with the process and never goes backward.
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A device's profiler. It is off until it is started, and safe to use from any thread at any time. The profiler of a
/// device that was inherited through a fork does nothing and has no data.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::Device;
///
/// let profiler = Device::cpu()?.profiler();
/// profiler.start();
/// {
///     let _span = profiler.span("request"); // until the end of the block
///     // … calls …
/// }
/// profiler.mark("answered");
/// profiler.stop();
/// let trace = profiler.take_trace();
/// println!("{}", trace.summary());
/// println!("{} bytes for Perfetto", trace.to_json().len());
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Profiler {
    device: String,
    /// The process in which it was made.
    generation: u32,
    enabled: Arc<AtomicBool>,
    /// How many entries of each kind are kept.
    ring: usize,
    streams: Mutex<Vec<(u32, Arc<StreamProfile>)>>,
    annotations: Mutex<Annotations>,
    joined: Mutex<Joined>,
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiler")
            .field("device", &self.device)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl Profiler {
    pub(crate) fn new(device: &str, ring: usize) -> Self {
        Self {
            device: device.to_owned(),
            generation: fork::generation(),
            enabled: Arc::new(AtomicBool::new(false)),
            ring,
            streams: Mutex::default(),
            annotations: Mutex::default(),
            joined: Mutex::default(),
        }
    }

    /// The ring of a stream. Called once, when the stream is made.
    pub(crate) fn stream(&self, stream: u32) -> Arc<StreamProfile> {
        let profile = Arc::new(StreamProfile::new(Arc::clone(&self.enabled), self.ring));
        self.streams().push((stream, Arc::clone(&profile)));
        profile
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<(u32, Arc<StreamProfile>)>> {
        self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn annotations(&self) -> std::sync::MutexGuard<'_, Annotations> {
        self.annotations.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn joined(&self) -> std::sync::MutexGuard<'_, Joined> {
        self.joined.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether spans and marks of users, and batches of calls, are recorded. While it is off, this costs one load.
    fn takes_annotations(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) && !self.is_inherited()
    }

    fn annotate(&self, annotation: Annotation) {
        self.annotations().add(annotation, self.ring);
    }

    /// Whether this process is a fork of the one that made the profiler. Its locks may then be held by threads that
    /// do not exist.
    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Starts profiling, and drops earlier data.
    pub fn start(&self) {
        if self.is_inherited() {
            return;
        }
        self.take_trace();
        self.enabled.store(true, Ordering::Relaxed);
    }

    /// Stops profiling. The data stays until it is taken or exported.
    pub fn stop(&self) {
        self.enabled.store(false, Ordering::Relaxed);
    }

    /// Takes all data so far out of the profiler.
    pub fn take_trace(&self) -> Trace {
        let streams = self.take();
        let (mut annotations, mut joined) = (Annotations::default(), Joined::default());
        if !self.is_inherited() {
            annotations = std::mem::take(&mut *self.annotations());
            joined = std::mem::take(&mut *self.joined());
        }
        let (annotations, joined) = (annotations.list.into(), joined.into());
        Trace { device: self.device.clone(), streams, annotations, joined }
    }

    /// As [`take_trace`](Self::take_trace); `None` if another thread holds a lock until the deadline.
    fn take_within(&self, deadline: Instant) -> Option<Trace> {
        let mut streams = Vec::new();
        for (stream, profile) in file::lock_within(&self.streams, deadline)?.iter() {
            streams.push(profile.take_within(*stream, deadline)?);
        }
        streams.sort_by_key(|trace| trace.stream);
        let annotations = std::mem::take(&mut *file::lock_within(&self.annotations, deadline)?);
        let joined = std::mem::take(&mut *file::lock_within(&self.joined, deadline)?);
        let (annotations, joined) = (annotations.list.into(), joined.into());
        Some(Trace { device: self.device.clone(), streams, annotations, joined })
    }

    /// Takes the data of each stream so far out of the profiler. Spans and marks of users and batches of calls stay.
    pub fn take(&self) -> Vec<StreamTrace> {
        if self.is_inherited() {
            return Vec::new();
        }
        let mut streams: Vec<_> =
            self.streams().iter().map(|(stream, profile)| profile.take(*stream)).collect();
        streams.sort_by_key(|trace| trace.stream);
        streams
    }

    /// Takes the data so far, in Chrome's trace format; see [`Trace::to_json`].
    pub fn to_json(&self) -> String {
        self.take_trace().to_json()
    }

    /// Takes the data so far, as a table of times; see [`Trace::summary`].
    ///
    /// ```
    /// # let (device, _) = millstream_core::fake::device(Default::default(), 1 << 20, 1).unwrap();
    /// device.profiler().start();
    /// // … calls …
    /// println!("{}", device.profiler().summary());
    /// ```
    pub fn summary(&self) -> Summary {
        self.take_trace().summary()
    }

    /// Writes [`to_json`](Self::to_json) to a file that Perfetto and `chrome://tracing` open.
    ///
    /// ```no_run
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let profiler = Device::cpu()?.profiler();
    /// profiler.start();
    /// // … calls …
    /// profiler.export("trace.json")?; // open it in ui.perfetto.dev
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or a device that was inherited through a fork.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Forked { device: self.device.clone() });
        }
        self.take_trace().export(path)
    }
}

//! What ran when: a ring of spans per stream, exported for Perfetto.

mod chrome;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::{Error, OpKind, Result};

/// Spans kept per stream; the oldest go first.
const RING: usize = 16 * 1024;

/// Nanoseconds of a clock that starts with the process and never goes back.
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// One command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What ran.
    pub kind: OpKind,
    /// Its sequence number.
    pub sequence: u64,
    /// When it began, see [`now_ns`].
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// The spans of one stream. A backend adds to it; each stream has its own lock.
pub struct StreamProfile {
    enabled: Arc<AtomicBool>,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    spans: VecDeque<Span>,
    dropped: u64,
}

impl StreamProfile {
    /// Whether spans are wanted. Ask before taking the time.
    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Adds spans, if they are wanted.
    pub fn add(&self, spans: impl IntoIterator<Item = Span>) {
        if !self.enabled() {
            return;
        }
        let mut ring = self.ring.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for span in spans {
            if ring.spans.len() == RING {
                ring.spans.pop_front();
                ring.dropped += 1;
            }
            ring.spans.push_back(span);
        }
    }

    fn take(&self) -> (Vec<Span>, u64) {
        let mut ring = self.ring.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (ring.spans.drain(..).collect(), std::mem::take(&mut ring.dropped))
    }
}

/// A device's profiler. Off until it is started; safe to use from any thread at any time.
pub struct Profiler {
    device: String,
    enabled: Arc<AtomicBool>,
    streams: Mutex<Vec<(u32, Arc<StreamProfile>)>>,
}

impl Profiler {
    pub(crate) fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            enabled: Arc::new(AtomicBool::new(false)),
            streams: Mutex::new(Vec::new()),
        }
    }

    /// A stream's own ring; made once, when the stream is.
    pub(crate) fn stream(&self, stream: u32) -> Arc<StreamProfile> {
        let enabled = Arc::clone(&self.enabled);
        let profile = Arc::new(StreamProfile { enabled, ring: Mutex::default() });
        self.streams().push((stream, Arc::clone(&profile)));
        profile
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<(u32, Arc<StreamProfile>)>> {
        self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Starts to take spans, forgetting earlier ones.
    pub fn start(&self) {
        self.take();
        self.enabled.store(true, Ordering::Relaxed);
    }

    /// Stops. What was taken stays until it is exported.
    pub fn stop(&self) {
        self.enabled.store(false, Ordering::Relaxed);
    }

    /// The spans of each stream so far, and how many of the oldest were dropped; forgets them.
    pub fn take(&self) -> Vec<(u32, Vec<Span>, u64)> {
        let mut streams: Vec<_> = self
            .streams()
            .iter()
            .map(|(stream, profile)| {
                let (spans, dropped) = profile.take();
                (*stream, spans, dropped)
            })
            .collect();
        streams.sort_by_key(|(stream, ..)| *stream);
        streams
    }

    /// The spans so far in Chrome's trace format, one row per stream; forgets them.
    pub fn to_json(&self) -> String {
        chrome::trace(&self.device, &self.take())
    }

    /// Writes [`to_json`](Self::to_json) to a file that Perfetto and `chrome://tracing` open.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_json()).map_err(|error| Error::Write {
            path: path.display().to_string(),
            message: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(sequence: u64) -> Span {
        Span {
            kind: OpKind::MatMul,
            sequence,
            start_ns: sequence * 1000,
            end_ns: sequence * 1000 + 500,
        }
    }

    #[test]
    fn nothing_is_kept_while_it_is_off() {
        let profiler = Profiler::new("test");
        let profile = profiler.stream(0);
        profile.add([span(1)]);
        profiler.start();
        profile.add([span(2)]);
        profiler.stop();
        profile.add([span(3)]);
        assert_eq!(profiler.take(), [(0, vec![span(2)], 0)]);
    }

    #[test]
    fn the_ring_is_bounded_and_keeps_the_newest() {
        let profiler = Profiler::new("test");
        let profile = profiler.stream(0);
        profiler.start();
        profile.add((0..RING as u64 + 10).map(span));
        let (_, spans, dropped) = profiler.take().remove(0);
        assert_eq!((spans.len(), dropped), (RING, 10));
        assert_eq!(spans[0], span(10));
    }

    #[test]
    fn the_trace_has_one_row_per_stream() {
        let profiler = Profiler::new("a \"quoted\" name");
        let profiles = [profiler.stream(0), profiler.stream(7)];
        profiler.start();
        for profile in &profiles {
            profile.add([span(1)]);
        }
        let json = profiler.to_json();
        assert!(json.contains(r#""name":"stream 0""#) && json.contains(r#""name":"stream 7""#));
        assert!(json.contains(r#""ts":1.000,"dur":0.500"#), "{json}");
        assert!(json.contains(r#"a \"quoted\" name"#));
        assert_eq!(json.matches('{').count(), json.matches('}').count());
    }
}

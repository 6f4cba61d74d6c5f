//! Spans and marks that users set.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Profiler, ThreadLabel, now_ns};

/// A span or a mark that a user has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its name.
    pub name: Arc<str>,
    /// The thread that set it.
    pub thread: ThreadLabel,
    /// When the span began, or when the mark was set, see [`now_ns`].
    pub start_ns: u64,
    /// When the span ended; `None` for a mark.
    pub end_ns: Option<u64>,
}

/// The annotations of a device, the oldest first.
#[derive(Default)]
pub(super) struct Annotations {
    pub list: VecDeque<Annotation>,
}

impl Annotations {
    pub fn add(&mut self, annotation: Annotation, most: usize) {
        if self.list.len() >= most {
            self.list.pop_front();
        }
        self.list.push_back(annotation);
    }
}

/// A user's span. It ends when this is dropped; see [`Profiler::span`].
#[must_use = "the span ends when this is dropped"]
pub struct SpanGuard<'a> {
    /// `None` while the profiler is off.
    begun: Option<Begun<'a>>,
}

struct Begun<'a> {
    profiler: &'a Profiler,
    name: Arc<str>,
    thread: ThreadLabel,
    start_ns: u64,
}

impl Profiler {
    /// Begins a span, which ends when the guard is dropped. The trace shows it on the row of its thread, beside the
    /// work of the device. While the profiler is off, this does nothing and costs one load.
    ///
    /// ```
    /// # let (device, _) = millstream_core::fake::device(Default::default(), 1 << 20, 1).unwrap();
    /// device.profiler().start();
    /// {
    ///     let _span = device.profiler().span("tokenize");
    ///     // … what is to be seen in the trace …
    /// }
    /// device.profiler().mark("ready");
    /// let trace = device.profiler().take_trace();
    /// assert_eq!(&*trace.annotations[0].name, "tokenize");
    /// assert_eq!(&*trace.annotations[1].name, "ready");
    /// ```
    pub fn span(&self, name: &str) -> SpanGuard<'_> {
        let begun = self.takes_annotations().then(|| Begun {
            profiler: self,
            name: name.into(),
            thread: ThreadLabel::current(),
            start_ns: now_ns(),
        });
        SpanGuard { begun }
    }

    /// Sets a mark: a moment with a name. While the profiler is off, this does nothing and costs one load.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let profiler = Device::cpu()?.profiler();
    /// profiler.start();
    /// profiler.mark("model loaded");
    /// assert_eq!(&*profiler.take_trace().annotations[0].name, "model loaded");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn mark(&self, name: &str) {
        if self.takes_annotations() {
            let (name, thread, start_ns) = (name.into(), ThreadLabel::current(), now_ns());
            self.annotate(Annotation { name, thread, start_ns, end_ns: None });
        }
    }
}

impl Drop for SpanGuard<'_> {
    fn drop(&mut self) {
        let Some(Begun { profiler, name, thread, start_ns }) = self.begun.take() else { return };
        if profiler.takes_annotations() {
            let end_ns = Some(now_ns());
            profiler.annotate(Annotation { name, thread, start_ns, end_ns });
        }
    }
}

impl std::fmt::Debug for SpanGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.begun {
            Some(begun) => write!(f, "SpanGuard({:?})", begun.name),
            None => f.write_str("SpanGuard(off)"),
        }
    }
}

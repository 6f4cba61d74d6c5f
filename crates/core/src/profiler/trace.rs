//! The data that the profiler has collected.

use std::path::Path;

use super::{Annotation, JoinedSpan, StreamTrace, Summary, chrome};
use crate::{Error, Result};

/// The profile of a device over some time; see [`Profiler::take_trace`](super::Profiler::take_trace).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The device's name.
    pub device: String,
    /// What each stream did.
    pub streams: Vec<StreamTrace>,
    /// Spans and marks that users have set, the oldest first.
    pub annotations: Vec<Annotation>,
    /// Batches of calls that were run as one, the oldest first.
    pub joined: Vec<JoinedSpan>,
}

impl Trace {
    /// The trace in Chrome's format, which Perfetto opens. It has a row per stream with its Commands, and a row per
    /// thread with the batches that it recorded and executed and with the spans and marks of users. Arrows lead from
    /// recording to the stream. Commands have the names of their layers and the shapes of their operands. Where calls were
    /// joined, there is a row for each batch in flight, with how many calls it had and for how long they had waited.
    pub fn to_json(&self) -> String {
        chrome::trace(&[self])
    }

    /// Writes [`to_json`](Self::to_json) to a file that Perfetto and `chrome://tracing` open.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_json()).map_err(|error| Error::write(path, error))
    }

    /// Total times per operation, per layer, and per span of users.
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }
}

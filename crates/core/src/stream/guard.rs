//! The lock of a stream's recorder.

use std::ops::{Deref, DerefMut};

use super::StreamInner;
use super::inner::Recorder;
use crate::sync::schedule::MutexGuard;

/// The recorder, locked. Tasks that became ready meanwhile are woken after the unlock: wakers are foreign code.
pub(crate) struct RecorderGuard<'a> {
    recorder: MutexGuard<'a, Recorder>,
    // After the lock: fields are dropped in this order.
    wakes: Wakes<'a>,
}

struct Wakes<'a> {
    stream: &'a StreamInner,
    due: bool,
}

impl<'a> RecorderGuard<'a> {
    #[inline]
    pub fn new(stream: &'a StreamInner, recorder: MutexGuard<'a, Recorder>) -> Self {
        Self { recorder, wakes: Wakes { stream, due: false } }
    }
}

impl Deref for RecorderGuard<'_> {
    type Target = Recorder;

    #[inline]
    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl DerefMut for RecorderGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
}

impl Drop for RecorderGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.wakes.due = std::mem::take(&mut self.recorder.releases_tasks);
    }
}

impl Drop for Wakes<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.due {
            // Polling one queue may have advanced others.
            self.stream.device_inner().wake_tasks();
        }
    }
}

//! Faults: Commands that their data, or a lack of memory, makes impossible.
//!
//! Such a fault is a value: it is not a defect of this program, and a program that is built to abort on
//! panic goes on too.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use super::parallel::{Parallel, parallel_for};

/// Why a Command could not be executed. What it writes may hold anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    message: Box<str>,
}

/// The result of a kernel.
pub(crate) type Result<T = ()> = std::result::Result<T, KernelFault>;

impl KernelFault {
    #[cold]
    pub(crate) fn new(message: impl Into<Box<str>>) -> Self {
        KernelFault { message: message.into() }
    }

    /// Scratch memory that the machine does not have for one thread.
    #[cold]
    pub(crate) fn scratch(bytes: usize) -> Self {
        Self::new(format!("the operation needs {bytes} bytes of scratch memory, which is too much"))
    }

    /// One clause that says what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for KernelFault {}

/// Like [`parallel_for`], for a body that may fail: the first fault is the result, and ranges that begin after
/// it are skipped.
#[inline]
pub(crate) fn try_parallel_for(
    parallel: &dyn Parallel,
    items: usize,
    work_per_item: usize,
    body: impl Fn(Range<usize>) -> Result + Sync,
) -> Result {
    let first = FirstFault::default();
    parallel_for(parallel, items, work_per_item, |range| first.note(|| body(range)));
    first.into_result()
}

/// Like [`Parallel::run`], for a body that may fail; see [`try_parallel_for`].
pub(crate) fn try_run(
    parallel: &dyn Parallel,
    chunks: usize,
    body: impl Fn(usize) -> Result + Sync,
) -> Result {
    let first = FirstFault::default();
    parallel.run(chunks, &|chunk| first.note(|| body(chunk)));
    first.into_result()
}

/// The first fault of several threads.
#[derive(Default)]
struct FirstFault(OnceLock<KernelFault>);

impl FirstFault {
    /// Runs a body, unless there was a fault already.
    #[inline]
    fn note(&self, body: impl FnOnce() -> Result) {
        if self.0.get().is_none()
            && let Err(fault) = body()
        {
            // Of several threads the first one wins.
            let _ = self.0.set(fault);
        }
    }

    fn into_result(self) -> Result {
        self.0.into_inner().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;

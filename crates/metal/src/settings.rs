//! Settings of this device alone, from the environment.

use std::sync::OnceLock;

use millstream_core::{MAX_STREAMS, Result};
use millstream_gpu::environment;

/// Says something on standard error, if `MILLSTREAM_METAL_LOG` is 1. For slow paths only.
pub(crate) fn log(text: impl FnOnce() -> String) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| std::env::var_os("MILLSTREAM_METAL_LOG").is_some_and(|v| v == "1")) {
        eprintln!("millstream metal: {}", text());
    }
}

/// A fraction of a second on the smallest GPU, with the plainest of kernels.
const USUAL_WORK: u64 = 1 << 33;

/// Batches of a capture: a few calls of a model.
const USUAL_CAPTURE: u64 = 20;

/// What can be set; see the crate's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Command queues that all streams share, if they do.
    pub queues: Option<usize>,
    /// Batches that come again are prepared lists.
    pub replay: bool,
    /// Prepared lists are indirect command buffers, where the GPU has them.
    pub indirect: bool,
    /// Residency sets.
    pub residency: bool,
    /// Products with simdgroup matrices, where the GPU has them.
    pub matrices: bool,
    /// Binary archives, where the GPU has them.
    pub archives: bool,
    /// [Work](millstream_core::Command::work) of one command buffer at most.
    pub work: u64,
    /// An idle device is kept warm.
    pub keep_warm: bool,
    /// The file that a capture goes to, and how many batches it has.
    pub capture: Option<String>,
    pub capture_batches: u64,
}

impl Settings {
    /// The defaults, changed by what the environment says.
    ///
    /// # Errors
    ///
    /// A variable that does not parse.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(environment::variable)
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let switch = |key: &str, default: bool| environment::switch(&lookup, key, default);
        let number = |key: &str, most: u64, expected: &'static str| {
            environment::number(&lookup, key, most, expected)
        };
        let queues = number("MILLSTREAM_METAL_QUEUES", u64::from(MAX_STREAMS), "0 to 64")?;
        let work = number("MILLSTREAM_METAL_WORK", u64::MAX, "a number of operations")?;
        let batches = number("MILLSTREAM_METAL_CAPTURE_BATCHES", 1 << 20, "1 to 1048576")?;
        Ok(Self {
            keep_warm: switch("MILLSTREAM_METAL_KEEP_WARM", false)?,
            capture: lookup("MILLSTREAM_METAL_CAPTURE").filter(|path| !path.is_empty()),
            capture_batches: if batches == 0 { USUAL_CAPTURE } else { batches },
            work: if work == 0 { USUAL_WORK } else { work },
            queues: (queues > 0).then_some(queues as usize),
            replay: switch("MILLSTREAM_METAL_REPLAY", true)?,
            indirect: switch("MILLSTREAM_METAL_INDIRECT", false)?,
            residency: switch("MILLSTREAM_METAL_RESIDENCY", true)?,
            matrices: switch("MILLSTREAM_METAL_MATRICES", true)?,
            archives: switch("MILLSTREAM_METAL_ARCHIVES", false)?,
        })
    }
}

#[cfg(test)]
mod tests;

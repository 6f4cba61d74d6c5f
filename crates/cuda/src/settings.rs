//! Settings of this device alone, from the environment.

use std::sync::OnceLock;

use millstream_core::Result;
use millstream_gpu::environment;

/// Says something on standard error, if `MILLSTREAM_CUDA_LOG` is 1. For slow paths only.
pub(crate) fn log(text: impl FnOnce() -> String) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| std::env::var_os("MILLSTREAM_CUDA_LOG").is_some_and(|v| v == "1")) {
        eprintln!("millstream cuda: {}", text());
    }
}

/// What can be set; see the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Products of `f32` may round their inputs to TF32.
    pub tf32: bool,
    /// Batches that come again are replayed as graphs.
    pub graphs: bool,
    /// Kernels may be started while the one before them still runs.
    pub overlap: bool,
}

impl Settings {
    /// The defaults, changed by what the environment says.
    ///
    /// # Errors
    ///
    /// A variable that is neither 0 nor 1.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(environment::variable)
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let switch = |key: &str, default: bool| environment::switch(&lookup, key, default);
        Ok(Self {
            tf32: switch("MILLSTREAM_CUDA_TF32", false)?,
            graphs: switch("MILLSTREAM_CUDA_GRAPHS", true)?,
            overlap: switch("MILLSTREAM_CUDA_OVERLAP", true)?,
        })
    }
}

#[cfg(test)]
mod tests;

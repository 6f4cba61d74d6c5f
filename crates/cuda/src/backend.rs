//! The CUDA device as a backend.

use millstream_core::{Backend, BackendEntry, Config, Result};
use millstream_gpu::{GpuBackend, Options};

use crate::gpu::{self, Gpu};
use crate::platform::Cuda;
use crate::settings::Settings;

fn open(index: usize, config: &Config) -> Result<Box<dyn Backend>> {
    let settings = Settings::from_env()?;
    let platform = Cuda { gpu: Gpu::open(index, config)?, tf32: settings.tf32 };
    let options = Options { replay: settings.graphs, batch_commands: config.batch_commands };
    Ok(Box::new(GpuBackend::open(platform, options)?))
}

millstream_core::inventory::submit! {
    BackendEntry {
        name: "cuda",
        preference: 100,
        list: || Ok(gpu::all()?.iter().map(gpu::Properties::info).collect()),
        open,
    }
}

#[cfg(test)]
mod tests;

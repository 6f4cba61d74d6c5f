//! The Metal device as a backend.

use millstream_core::{Backend, BackendEntry, Config, Result};
use millstream_gpu::{GpuBackend, Options};

use crate::gpu::{self, Gpu};
use crate::platform::Metal;

fn open(index: usize, config: &Config) -> Result<Box<dyn Backend>> {
    let platform = Metal { gpu: Gpu::open(index, config)? };
    let replay = platform.gpu.settings.replay;
    let options = Options { replay, batch_commands: config.batch_commands };
    Ok(Box::new(GpuBackend::open(platform, options)?))
}

millstream_core::inventory::submit! {
    BackendEntry { name: "metal", preference: 100, list: gpu::list, open }
}

//! The GPU for tests of the CUDA device.

use millstream::Device;

/// The GPU, if there is one.
pub fn gpu() -> Option<Device> {
    match Device::builder("cuda").open() {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(std::env::var_os("MILLSTREAM_REQUIRE_CUDA").is_none(), "{error}");
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// The GPU; where there is none the test says so and passes.
#[macro_export]
macro_rules! gpu_or_skip {
    () => {
        match gpu::gpu() {
            Some(device) => device,
            None => return,
        }
    };
}

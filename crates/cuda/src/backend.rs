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
mod tests {
    use millstream_core::Device;

    #[test]
    fn without_a_driver_opening_and_listing_say_what_is_missing() {
        let listed = Device::list();
        let (_, list) = listed.iter().find(|(name, _)| *name == "cuda").unwrap();
        match list {
            // With a GPU the tests of the root crate see to the rest.
            Ok(list) => assert!(list.iter().all(|info| info.name.starts_with("cuda:"))),
            Err(listed) => {
                let opened = Device::open("cuda").unwrap_err();
                assert_eq!(opened.to_string(), listed.to_string());
                assert!(opened.to_string().starts_with("device cuda cannot be opened: "));
                assert!(opened.to_string().len() > 60, "{opened}");
            }
        }
    }
}

//! Checks of arguments before anything long begins: which device, which kind of file, and whether one can be written.

use std::path::Path;

use millstream::graph::Importer;
use millstream::{Device, Error, Result};

/// The device of an argument.
#[derive(clap::Args)]
pub(crate) struct DeviceChoice {
    /// The device, by name; by default the most capable one that opens: a GPU, else the CPU.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

impl DeviceChoice {
    /// Opens the device. Where none was named, says on standard error which one it is.
    pub fn open(&self) -> Result<Device> {
        match &self.device {
            Some(name) => Device::open(name),
            None => {
                let device = Device::best()?;
                eprintln!("device: {}", named(device));
                Ok(device)
            }
        }
    }
}

/// The name of a device with what it is.
pub(crate) fn named(device: Device) -> String {
    format!("{} ({})", device.name(), device.info().description)
}

/// Whether a file can be written, so that this is known before the work and not after it. Leaves no file behind.
///
/// # Errors
///
/// A folder that does not exist or cannot be written to, or a folder in place of the file.
pub(crate) fn check_output(path: &Path) -> Result<()> {
    let existed = path.exists();
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| Error::write(path, error))?;
    if !existed {
        // A file that stays behind is written over.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Whether a path has the extension of models that can be run, and is no folder.
pub(crate) fn is_model_file(path: &Path) -> bool {
    let Some(extension) = path.extension().and_then(|extension| extension.to_str()) else {
        return false;
    };
    !path.is_dir()
        && Importer::all().any(|importer| importer.extension.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests;

//! One mapped `.safetensors` file.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use millstream_core::{DType, Device};

use super::advice;
use super::header::{self, Entry};
use crate::{Error, Result, Tensor};

/// Tensors below this size are copied: each that is not takes a buffer of its own.
const WRAP_BYTES: usize = 256 << 10;
/// Kernels read 16 bytes at once where they can. A tensor that begins elsewhere is copied to where they can.
const WRAP_ALIGNMENT: usize = 16;

pub struct MappedFile {
    map: Arc<Mmap>,
    entries: HashMap<String, Entry>,
}

impl MappedFile {
    pub fn open(path: &Path) -> Result<Self> {
        let read = |error| Error::read(path, error);
        let file = File::open(path).map_err(read)?;
        // SAFETY: the map is only read. If the file changes while it is mapped, it can give other bytes, which are
        // valid elements too; if it is cut, access ends the process. `Weights::open` says that files must not change.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let entries = header::read(&map).map_err(|reason| {
            let reason = advice::foreign(path, &map).map_or(reason, str::to_owned);
            Error::Format { path: path.display().to_string(), reason }
        })?;
        Ok(Self { map: Arc::new(map), entries })
    }

    pub fn entries(&self) -> &HashMap<String, Entry> {
        &self.entries
    }

    /// A tensor that the device reads where it lies in the file, if it can and that is worth it.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn wrapped(
        &self,
        entry: &Entry,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Tensor>> {
        let bytes = self.data(entry);
        let aligned = bytes.as_ptr().addr().is_multiple_of(WRAP_ALIGNMENT);
        if bytes.len() < WRAP_BYTES || !aligned || cfg!(target_endian = "big") {
            return Ok(None);
        }
        let owner = Arc::clone(&self.map);
        Tensor::wrapping(owner, entry.place.clone(), shape, dtype, device)
    }

    /// The bytes of a tensor of this file.
    pub fn data(&self, entry: &Entry) -> &[u8] {
        &self.map[entry.place.clone()]
    }
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MappedFile({} tensors)", self.entries.len())
    }
}

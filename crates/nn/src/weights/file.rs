//! One mapped `.safetensors` file.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use super::advice;
use super::header::{self, Entry};
use crate::{Error, Result};

pub struct MappedFile {
    map: Mmap,
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
        Ok(Self { map, entries })
    }

    pub fn entries(&self) -> &HashMap<String, Entry> {
        &self.entries
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

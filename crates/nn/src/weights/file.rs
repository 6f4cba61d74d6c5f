//! One mapped `.safetensors` file.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

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
        // SAFETY: the map is only read. A file that changes while it is mapped can give other bytes, any
        // of which are valid elements, or end the process where it was cut; `Weights::open` says that it
        // must not change.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let entries = header::read(&map)
            .map_err(|reason| Error::Format { path: path.display().to_string(), reason })?;
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

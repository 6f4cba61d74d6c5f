//! Files that are mapped, and whose pages go when a device has what stands in them.
//!
//! Weights are copied to the device, or packed in another order. What was read for that would stay in the memory of the process
//! beside it, so that a model takes twice its size.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use memmap2::Mmap;

/// All files that are mapped: bytes do not say where they come from. Taken when a file is mapped and when weights are loaded,
/// never when plans are run.
static MAPS: Mutex<Vec<Weak<Mmap>>> = Mutex::new(Vec::new());

struct Mapped(Arc<Mmap>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn maps() -> MutexGuard<'static, Vec<Weak<Mmap>>> {
    MAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The contents of a file, which is read as far as they are used. It must not be written or cut while they live: they would change, or
/// reading them would end the process.
///
/// # Errors
///
/// A file that cannot be mapped.
pub fn map_file(file: &File) -> std::io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is only read. A file that changes while it is mapped can give other bytes, any of which are
    // valid bytes, or end the process where it was cut; the documentation says that it must not change.
    let map = Arc::new(unsafe { Mmap::map(file) }?);
    let mut maps = maps();
    maps.retain(|map| map.strong_count() > 0);
    maps.push(Arc::downgrade(&map));
    Ok(Bytes::from_owner(Mapped(map)))
}

/// Gives the pages back that these bytes of a mapped file are in. They are read from the file again when they are used again. Nothing
/// happens to other bytes.
pub(crate) fn release(bytes: &[u8]) {
    #[cfg(unix)]
    {
        let start = bytes.as_ptr() as usize;
        let is_inside = |map: &Arc<Mmap>| {
            let first = map.as_ptr() as usize;
            start >= first && start + bytes.len() <= first + map.len()
        };
        let Some(map) = maps().iter().filter_map(Weak::upgrade).find(is_inside) else { return };
        let offset = start - map.as_ptr() as usize;
        // SAFETY: the pages belong to a file, are mapped for reading only and never written, so that dropping them loses nothing:
        // whoever reads them again gets the same bytes.
        let released = unsafe {
            map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes.len())
        };
        // Where the system does not take the advice the pages stay, as before.
        drop(released);
    }
    #[cfg(not(unix))]
    let _ = bytes;
}

#[cfg(all(test, unix))]
mod tests;

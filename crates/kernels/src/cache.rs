//! Compiled kernels on disk, shared by all processes of a user.
//!
//! An entry is named by a hash of everything it was made from, so it never has to be changed: it is
//! written under another name and renamed, and whoever comes second replaces it by the same bytes. A
//! checksum inside tells entries that are whole from those that are not; the latter are built again.
//!
//! What an entry holds is run, so nobody else may write here: a directory that others could write to is not
//! used.

mod private;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// The first bytes of an entry; a new format has new ones.
const MAGIC: [u8; 8] = *b"MSKERN02";

/// Magic, length, checksum.
const HEADER: usize = 8 + 8 + 32;

/// What the directory may hold unless something else is asked for.
const USUAL_LIMIT: u64 = 512 << 20;

/// Files that somebody began to write this long ago will not be finished.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The name of an entry: a hash of what it is made from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Of all that an entry depends on, such as source, compiler version and architecture.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // With the lengths, no two lists of parts run together to the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// A directory of compiled kernels.
///
/// # Thread safety
///
/// Any number of threads and processes may use one directory at the same time.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    limit: u64,
    written: AtomicU64,
}

impl Cache {
    /// The cache of this user: in `$MILLSTREAM_CACHE_DIR`, or where the platform keeps caches, or in a
    /// directory of the user's own among the temporary files.
    ///
    /// # Errors
    ///
    /// As for [`at`](Self::at).
    pub fn open() -> io::Result<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        match directory(variable) {
            Some(directory) => Self::at(&directory, USUAL_LIMIT),
            None => Self::at(&private::temporary(&std::env::temp_dir())?, USUAL_LIMIT),
        }
    }

    /// A cache in a directory of its own, which may hold about `limit` bytes.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made, that is a link, that belongs to another user, or that others may
    /// write to.
    pub fn at(directory: &Path, limit: u64) -> io::Result<Self> {
        private::create(directory)?;
        Ok(Self { directory: directory.into(), limit, written: AtomicU64::new(0) })
    }

    fn path(&self, key: CacheKey) -> PathBuf {
        let mut name = String::with_capacity(64 + 7);
        for byte in key.0 {
            name.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            name.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        name.push_str(".kernel");
        self.directory.join(name)
    }

    /// An entry, if there is one and it is whole. One that is not is removed.
    pub fn get(&self, key: CacheKey) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut entry = fs::read(&path).ok()?;
        if !is_whole(&entry, key) {
            let _ = fs::remove_file(&path);
            return None;
        }
        entry.drain(..HEADER);
        Some(entry)
    }

    /// Writes an entry.
    ///
    /// # Errors
    ///
    /// A file that cannot be written. Nothing is left behind then.
    pub fn put(&self, key: CacheKey, bytes: &[u8]) -> io::Result<()> {
        let mut entry = Vec::with_capacity(HEADER + bytes.len());
        entry.extend(MAGIC);
        entry.extend((bytes.len() as u64).to_le_bytes());
        entry.extend(checksum(key, bytes));
        entry.extend(bytes);
        let unfinished = self.directory.join(unfinished_name());
        // A file that is there already is not ours, and not removed.
        let mut file = private::create_file(&unfinished)?;
        let written = file.write_all(&entry);
        drop(file);
        let result = written.and_then(|()| fs::rename(&unfinished, self.path(key)));
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
            return result;
        }
        // A look at the whole directory now and then is enough to keep it bounded.
        let written = self.written.fetch_add(entry.len() as u64, Ordering::Relaxed);
        let step = (self.limit / 8).max(1);
        if written == 0 || written / step != (written + entry.len() as u64) / step {
            self.trim();
        }
        Ok(())
    }

    /// An entry, or what `build` makes, which is kept for the next time. A cache that cannot be written
    /// only costs time.
    ///
    /// # Errors
    ///
    /// Those of `build`.
    pub fn get_or_build<E>(
        &self,
        key: CacheKey,
        build: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        if let Some(entry) = self.get(key) {
            return Ok(entry);
        }
        let built = build()?;
        let _ = self.put(key, &built);
        Ok(built)
    }

    /// Removes what is oldest until the limit holds with some room, and what was never finished.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let (path, Ok(data)) = (entry.path(), entry.metadata()) else { continue };
            let Ok(time) = data.modified() else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("kernel") => files.push((time, data.len(), path)),
                Some("unfinished") if now.duration_since(time).is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = files.iter().map(|file| file.1).sum();
        if total <= self.limit {
            return;
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.limit / 4 * 3 {
                break;
            }
            // Somebody else may have removed it; then it is gone all the same.
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}

/// A name that no other thread or process has, nor one that had this process's number before.
fn unfinished_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanoseconds = time.map_or(0, |time| time.as_nanos());
    format!("{}-{nanoseconds}-{number}.unfinished", std::process::id())
}

fn checksum(key: CacheKey, bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key.0).chain_update(bytes).finalize().into()
}

fn is_whole(entry: &[u8], key: CacheKey) -> bool {
    let Some((header, bytes)) = entry.split_at_checked(HEADER) else { return false };
    header[..8] == MAGIC
        && header[8..16] == (bytes.len() as u64).to_le_bytes()
        && header[16..] == checksum(key, bytes)
}

/// Where the entries are, if the environment says so.
fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(own) = set("MILLSTREAM_CACHE_DIR") {
        return Some(own);
    }
    let base = if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Caches"))
    } else if cfg!(windows) {
        set("LOCALAPPDATA")
    } else {
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("millstream").join("kernels"))
}

#[cfg(test)]
mod tests;

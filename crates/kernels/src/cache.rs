//! Compiled kernels on disk, shared by all processes of a user.
//!
//! An entry is named by a hash of everything it was made from, so it never changes. It is written under another name
//! and then renamed; if two processes write the same entry, the second replaces it by the same bytes. A checksum
//! inside shows whether an entry is complete. Incomplete entries are built again.
//!
//! Entries are executed, so nobody else may write here: a directory that others could write to is not used.

mod private;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// The first bytes of an entry. A new format gets new ones.
const MAGIC: [u8; 8] = *b"MSKERN02";

/// Magic, length, checksum.
const HEADER: usize = 8 + 8 + 32;

/// The default limit of the directory's size.
const USUAL_LIMIT: u64 = 512 << 20;

/// An unfinished file of this age was abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The name of an entry: a hash of what it is made from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// The hash of everything that an entry depends on, such as source, compiler version and architecture.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // With the lengths, two different lists of parts never give the same bytes.
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
    /// The cache of this user: in `$MILLSTREAM_CACHE_DIR`, or in the platform's directory for caches, or in a private
    /// directory among the temporary files.
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
    /// A directory that cannot be made, that is a link, that belongs to another user, or that others can write to.
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

    /// An entry, if there is one and it is complete. An incomplete entry is removed.
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
        // If the file already exists, it is not ours and is not removed.
        let mut file = private::create_file(&unfinished)?;
        let written = file.write_all(&entry);
        drop(file);
        let result = written.and_then(|()| fs::rename(&unfinished, self.path(key)));
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
            return result;
        }
        // Checking the whole directory now and then is enough to keep it bounded.
        let written = self.written.fetch_add(entry.len() as u64, Ordering::Relaxed);
        let step = (self.limit / 8).max(1);
        if written == 0 || written / step != (written + entry.len() as u64) / step {
            self.trim();
        }
        Ok(())
    }

    /// The name of a file of this cache's directory that nobody else uses, for what a caller has others write. The caller removes it;
    /// one that is abandoned is removed later.
    pub fn scratch_file(&self) -> PathBuf {
        self.directory.join(unfinished_name())
    }

    /// An entry, or the result of `build`, which is then stored. If it cannot be stored, only time is lost.
    ///
    /// # Errors
    ///
    /// The errors of `build`.
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

    /// Removes the oldest entries until the directory is well below the limit, and files that were abandoned.
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
            // Another process may have removed it already, which is fine.
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}

/// A name that no other thread or process uses, nor an earlier process with the same number.
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

/// The directory of entries, if the environment names one.
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

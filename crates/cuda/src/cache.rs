//! Compiled kernels on disk, by a hash of everything that they were made from.
//!
//! Many processes may use one folder: a file is written under a name of its own and then renamed, so nobody
//! sees half of one. A file that is not whole is no file: its kernel is compiled again and it is replaced.
//! Whatever goes wrong here only costs time.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Goes up when files of older versions must not be used any more.
const FORMAT: &[u8; 8] = b"MSCUDA01";
const HEADER: usize = 32;

/// What a kernel was made from, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// FNV-1a with 128 bits: simple, and far more bits than kernels will ever need to be told apart.
fn hash(seed: u128, bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start = if seed == 0 { 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d } else { seed };
    bytes.iter().fold(start, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

impl Key {
    /// Of a source and the options that it is compiled with. Compilers of one major version give code
    /// that does the same, so which of them it was is no part of it.
    pub fn of(options: &[String], source: &str) -> Self {
        let options =
            options.iter().fold(0, |all, option| hash(hash(all, option.as_bytes()), &[0]));
        Self(hash(options, source.as_bytes()))
    }
}

/// The folder, if there is to be one.
fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| choose(|key| std::env::var_os(key).map(PathBuf::from))).as_ref()
}

fn choose(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(own) = variable("MILLSTREAM_CACHE_DIR") {
        let off = own.as_os_str() == "off" || own.as_os_str().is_empty();
        return (!off).then(|| own.join("cuda"));
    }
    let users = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let users = users.or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(users.join("millstream").join("cuda"))
}

fn path(key: Key) -> Option<PathBuf> {
    folder().map(|folder| folder.join(format!("{:032x}.cubin", key.0)))
}

/// A kernel from the disk.
pub(crate) fn load(key: Key) -> Option<Vec<u8>> {
    unpack(key, std::fs::read(path(key)?).ok()?)
}

/// Puts a kernel on the disk, if that can be done.
pub(crate) fn store(key: Key, image: &[u8]) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(path) = path(key) else { return };
    let own = format!("{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let own = path.with_extension(own);
    let written = path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok())
        && std::fs::write(&own, pack(key, image)).is_ok()
        && std::fs::rename(&own, &path).is_ok();
    if !written {
        // The kernel is there; it will be compiled again next time.
        let _ = std::fs::remove_file(&own);
    }
}

fn checksum(key: Key, image: &[u8]) -> [u8; 16] {
    hash(key.0, image).to_le_bytes()
}

fn pack(key: Key, image: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + image.len());
    file.extend(FORMAT);
    file.extend((image.len() as u64).to_le_bytes());
    file.extend(checksum(key, image));
    file.extend(image);
    file
}

/// The kernel in a file, if the file is whole.
fn unpack(key: Key, mut file: Vec<u8>) -> Option<Vec<u8>> {
    let image = file.get(HEADER..).filter(|image| !image.is_empty())?;
    let length = (image.len() as u64).to_le_bytes();
    let whole =
        file[..8] == *FORMAT && file[8..16] == length && file[16..HEADER] == checksum(key, image);
    whole.then(|| file.split_off(HEADER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_source_and_options() {
        let key = |options: &[&str], source| {
            Key::of(&options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>(), source)
        };
        assert_eq!(key(&["a"], "x"), key(&["a"], "x"));
        assert_ne!(key(&["a"], "x"), key(&["a"], "y"));
        assert_ne!(key(&["a"], "x"), key(&["b"], "x"));
        assert_ne!(key(&["ab", "c"], "x"), key(&["a", "bc"], "x"));
    }

    #[test]
    fn a_file_that_is_not_whole_is_no_file() {
        let key = Key(7);
        let file = pack(key, b"kernel");
        assert_eq!(unpack(key, file.clone()).unwrap(), b"kernel");
        assert!(unpack(Key(8), file.clone()).is_none());
        for length in 0..file.len() {
            assert!(unpack(key, file[..length].to_vec()).is_none(), "{length} bytes");
        }
        for place in 0..file.len() {
            let mut broken = file.clone();
            broken[place] ^= 1;
            assert!(unpack(key, broken).is_none(), "byte {place}");
        }
    }

    #[test]
    fn the_folder_is_the_users_unless_it_is_named_or_off() {
        let with = |own: Option<&str>| {
            choose(|key| match key {
                "MILLSTREAM_CACHE_DIR" => own.map(PathBuf::from),
                "HOME" => Some("/home/me".into()),
                _ => None,
            })
        };
        assert_eq!(with(None), Some("/home/me/.cache/millstream/cuda".into()));
        assert_eq!(with(Some("/tmp/own")), Some("/tmp/own/cuda".into()));
        assert_eq!((with(Some("off")), with(Some(""))), (None, None));
    }
}

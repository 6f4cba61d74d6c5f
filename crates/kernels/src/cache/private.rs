//! Directories that only their user can write to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};

/// Makes a directory for this user alone, or checks one that exists.
///
/// # Errors
///
/// The directory cannot be made, or the one that exists is not private.
pub(super) fn create(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder.create(directory)?;
    #[cfg(unix)]
    check(directory, user())?;
    Ok(())
}

/// A new file for this user alone.
///
/// # Errors
///
/// The file cannot be made, or already exists.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    options.open(path)
}

/// The directory of a user without a home, among the temporary files.
///
/// # Errors
///
/// Other users could replace it by a directory of theirs.
#[cfg(unix)]
pub(super) fn temporary(base: &Path) -> io::Result<PathBuf> {
    const STICKY: u32 = 0o1000;
    let data = fs::metadata(base)?;
    let trusted = data.uid() == 0 || data.uid() == user();
    if !trusted || (data.mode() & 0o022 != 0 && data.mode() & STICKY == 0) {
        return Err(unfit(base, "others may rename what lies in it"));
    }
    Ok(base.join(format!("millstream-kernels-{}", user())))
}

/// There is none on this platform: it is unknown whether others can write to it.
#[cfg(not(unix))]
pub(super) fn temporary(base: &Path) -> io::Result<PathBuf> {
    Err(unfit(base, "nobody can tell whether others may write to it"))
}

/// Checks that only `owner` can write to a directory.
#[cfg(unix)]
fn check(directory: &Path, owner: u32) -> io::Result<()> {
    let data = fs::symlink_metadata(directory)?;
    if !data.is_dir() {
        return Err(unfit(directory, "it is a link, and no directory"));
    }
    if data.uid() != owner {
        return Err(unfit(directory, "it belongs to another user"));
    }
    if data.mode() & 0o022 != 0 {
        return Err(unfit(directory, "others may write to it (chmod go-w mends that)"));
    }
    Ok(())
}

/// The effective user of this process.
#[cfg(unix)]
fn user() -> u32 {
    // SAFETY: the function takes no arguments and always succeeds.
    unsafe { libc::geteuid() }
}

fn unfit(path: &Path, why: &str) -> io::Error {
    let text = format!("{} is not used: {why}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(all(test, unix))]
mod tests;

//! Directories that nobody but their user can write to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};

/// Makes a directory for this user alone, or takes the one that is there if it is fit for that.
///
/// # Errors
///
/// It cannot be made, or what is there is not fit.
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
/// It cannot be made, or there is one of that name.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    options.open(path)
}

/// Where a user without a home has a directory, among the temporary files.
///
/// # Errors
///
/// Other users could put another directory in its place.
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

/// There is none: whether others can write to it is unknown.
#[cfg(not(unix))]
pub(super) fn temporary(base: &Path) -> io::Result<PathBuf> {
    Err(unfit(base, "nobody can tell whether others may write to it"))
}

/// Whether a directory is one that only `owner` can write to.
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

/// The user whose rights this process has.
#[cfg(unix)]
fn user() -> u32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

fn unfit(path: &Path, why: &str) -> io::Error {
    let text = format!("{} is not used: {why}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::tests::Scratch;
    use super::super::{Cache, CacheKey};
    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn refusal(directory: &Path) -> String {
        let error = Cache::at(directory, LIMIT).expect_err("it is not private");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        error.to_string()
    }

    #[test]
    fn directory_and_entries_are_for_this_user_alone() {
        let scratch = Scratch::new("private");
        let directory = scratch.0.join("kernels");
        let cache = Cache::at(&directory, LIMIT).unwrap();
        let key = CacheKey::of(&[b"kernel"]);
        cache.put(key, b"compiled").unwrap();
        assert_eq!(mode(&scratch.0), 0o700);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&cache.path(key)), 0o600);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        let scratch = Scratch::new("writable");
        Cache::at(&scratch.0, LIMIT).unwrap();
        for (mode, fit) in [(0o777, false), (0o770, false), (0o702, false), (0o755, true)] {
            fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Cache::at(&scratch.0, LIMIT).is_ok(), fit, "{mode:o}");
            if !fit {
                assert!(refusal(&scratch.0).contains("others may write"));
            }
        }
    }

    #[test]
    fn a_directory_of_another_user_is_not_used() {
        let scratch = Scratch::new("owner");
        Cache::at(&scratch.0, LIMIT).unwrap();
        check(&scratch.0, user()).unwrap();
        let error = check(&scratch.0, user() + 1).unwrap_err();
        assert!(error.to_string().contains("another user"), "{error}");
    }

    #[test]
    fn a_link_is_not_used() {
        let scratch = Scratch::new("link");
        let (real, link) = (scratch.0.join("real"), scratch.0.join("link"));
        Cache::at(&real, LIMIT).unwrap();
        symlink(&real, &link).unwrap();
        assert!(refusal(&link).contains("link"));
    }

    #[test]
    fn a_file_that_is_there_already_is_not_written() {
        let scratch = Scratch::new("exclusive");
        create(&scratch.0).unwrap();
        let path = scratch.0.join("planted");
        fs::write(&path, b"planted").unwrap();
        let error = create_file(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"planted");
    }

    #[test]
    fn without_a_home_there_is_a_directory_of_the_users_own_or_none() {
        let scratch = Scratch::new("temporary");
        create(&scratch.0).unwrap();
        for (mode, fit) in [(0o1777, true), (0o700, true), (0o777, false), (0o770, false)] {
            fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
            let found = temporary(&scratch.0).ok();
            let own = scratch.0.join(format!("millstream-kernels-{}", user()));
            assert_eq!(found, fit.then_some(own), "{mode:o}");
        }
    }
}

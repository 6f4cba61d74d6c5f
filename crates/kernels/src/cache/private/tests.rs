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

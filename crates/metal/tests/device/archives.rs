//! Binary archives: kernels of an earlier process are found, and whatever is wrong with an archive costs time only.

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{ALONE, alone, open, warm_up};

/// What a process is to do differently: a macOS of 14, or a driver that refuses archives or their files.
const VARIANT: &str = "MILLSTREAM_METAL_TEST_VARIANT";

alone! {
    /// What the tests below start: one call, and how many kernels came from archives.
    fn a_call_says_what_it_found() {
        match std::env::var(VARIANT).as_deref() {
            Ok("macos 14") => control::set_system_version(14, 0),
            Ok("no archive") => (0..1000).for_each(|_| control::refuse_next(Refusal::Archive)),
            Ok("no file") => (0..1000).for_each(|_| control::refuse_next(Refusal::ArchiveFile)),
            _ => {}
        }
        warm_up(&open().stream().unwrap());
        println!("found {} in archives", control::archive_hits());
    }
}

/// A folder for archives, which goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// Kernels that a new process finds in archives here.
    fn found(&self, variant: &str) -> usize {
        found(&self.0, "1", variant)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let Ok(files) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        let kept = |file: &PathBuf| file.extension().is_some_and(|end| end == "kernel");
        assert!(files.iter().all(kept), "something was left behind: {files:?}");
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn found(folder: &Path, archives: &str, variant: &str) -> usize {
    let name = "archives::a_call_says_what_it_found";
    let output = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, name)
        .env(VARIANT, variant)
        .env("MILLSTREAM_CACHE_DIR", folder)
        .env("MILLSTREAM_METAL_ARCHIVES", archives)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let (_, rest) = text.split_once("found ").expect(&text);
    rest.split(' ').next().unwrap().parse().expect(&text)
}

#[test]
fn kernels_of_an_earlier_process_are_found() {
    let folder = Folder::new("archives");
    assert_eq!(folder.found(""), 0);
    let entries = folder.entries().len();
    assert!(entries > 1, "builtin kernels and others");
    let all = folder.found("");
    assert!(all > entries, "builtin kernels share an archive");
    assert_eq!((folder.found(""), folder.entries().len()), (all, entries));
    // Another system has its own.
    assert_eq!(folder.found("macos 14"), 0);
    assert_eq!((folder.found("macos 14"), folder.found("")), (all, all));
}

#[test]
fn broken_archives_are_made_again() {
    let folder = Folder::new("broken-archives");
    assert_eq!(folder.found(""), 0);
    let all = folder.found("");
    assert!(all > 0);
    for content in [&b""[..], b"not an archive", &[0xff; 4096]] {
        for entry in folder.entries() {
            std::fs::write(entry, content).unwrap();
        }
        assert_eq!(folder.found(""), 0, "{content:?}");
        assert_eq!(folder.found(""), all, "{content:?}");
    }
}

#[test]
fn without_archives_kernels_are_compiled() {
    let folder = Folder::new("no-archives");
    assert_eq!(found(&folder.0, "0", ""), 0);
    assert!(folder.entries().is_empty(), "nobody asked for them");
    assert_eq!((folder.found("no archive"), folder.entries().len()), (0, 0));
    assert_eq!((folder.found("no file"), folder.entries().len()), (0, 0));
    assert_eq!(found(Path::new("off"), "1", ""), 0);
    // A file where the folder should be.
    let file = Folder::new("no-folder");
    std::fs::write(&file.0, "").unwrap();
    assert_eq!(found(&file.0, "1", ""), 0);
    std::fs::remove_file(&file.0).unwrap();
    // Archives that are there are not refused for good.
    assert_eq!(folder.found(""), 0);
    assert_eq!(folder.found("no archive"), 0);
    assert!(folder.found("") > 0);
}

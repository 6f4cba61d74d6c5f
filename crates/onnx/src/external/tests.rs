//! A model reads nothing but what lies in its folder, whatever it says.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::proto::StringStringEntryProto;

/// `…/home`, the folder of a model with `w.bin` (four numbers) and `sub/`, beside `…/secret.bin`. Removed when dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir()
            .join(format!("millstream-external-{}-{number}", std::process::id()));
        std::fs::create_dir_all(root.join("home/sub")).unwrap();
        let numbers: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|n| n.to_le_bytes()).collect();
        std::fs::write(root.join("home/w.bin"), &numbers).unwrap();
        std::fs::write(root.join("secret.bin"), &numbers).unwrap();
        Self(root)
    }

    fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// What a tensor of two numbers with these entries gives: its bytes, or the error in words.
    fn read(&self, entries: &[(&str, &str)]) -> std::result::Result<Vec<u8>, String> {
        self.read_of("home/model.onnx", entries)
    }

    /// The same, of a model elsewhere.
    fn read_of(
        &self,
        model: &str,
        entries: &[(&str, &str)],
    ) -> std::result::Result<Vec<u8>, String> {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some((*key).to_owned()),
            value: Some((*value).to_owned()),
        };
        let tensor = TensorProto {
            name: Some("t".into()),
            external_data: entries.iter().map(entry).collect(),
            ..Default::default()
        };
        let read = ExternalFiles::of(&self.0.join(model)).read(&tensor, DType::F32, &[2]);
        read.map(|bytes| bytes.to_vec()).map_err(|error| error.to_string())
    }

    fn refused(&self, entries: &[(&str, &str)], why: &str) {
        let error = self.read(entries).expect_err("refused");
        assert!(error.contains(why), "{entries:?}: {error}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn numbers(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn numbers_in_the_folder_are_read_from_their_place() {
    let place = Place::new();
    for location in ["w.bin", "./w.bin", "sub/../w.bin"] {
        assert_eq!(place.read(&[("location", location)]).unwrap(), numbers(&[1.0, 2.0]));
    }
    let part = [("location", "w.bin"), ("offset", "8"), ("length", "8"), ("checksum", "wrong")];
    assert_eq!(place.read(&part).unwrap(), numbers(&[3.0, 4.0]));
    let silent = [("location", "w.bin"), ("offset", ""), ("length", ""), ("prepacked_0", "k|8;8|")];
    assert_eq!(place.read(&silent).unwrap(), numbers(&[1.0, 2.0]));
    symlink("../w.bin", place.home().join("sub/link.bin")).unwrap();
    assert!(place.read(&[("location", "sub/link.bin")]).is_ok(), "a link that stays inside");
}

#[test]
fn paths_that_lead_out_of_the_folder_are_refused() {
    let place = Place::new();
    let secret = place.0.join("secret.bin");
    for location in ["../secret.bin", "sub/../../secret.bin", "../home/w.bin", ".."] {
        place.refused(&[("location", location)], "the path leads out");
    }
    place.refused(&[("location", secret.to_str().unwrap())], "the path is absolute");
    symlink(&secret, place.home().join("link.bin")).unwrap();
    symlink(&place.0, place.home().join("folder")).unwrap();
    symlink("link.bin", place.home().join("twice.bin")).unwrap();
    for location in ["link.bin", "folder/secret.bin", "twice.bin", "folder/home/../secret.bin"] {
        place.refused(&[("location", location)], "a link leads out");
    }
}

/// As caches of models are: `cache/blobs` has the files, and `cache/snapshots/x` links with their names.
#[test]
fn a_model_that_is_a_link_has_its_numbers_beside_the_link_or_the_file() {
    let place = Place::new();
    let link = |target: &str, path: &str| symlink(target, place.0.join(path)).unwrap();
    std::fs::create_dir_all(place.0.join("cache/blobs/deep")).unwrap();
    std::fs::create_dir_all(place.0.join("cache/snapshots/x")).unwrap();
    std::fs::write(place.0.join("cache/blobs/a1"), "the model").unwrap();
    std::fs::write(place.0.join("cache/blobs/b2"), numbers(&[5.0, 6.0])).unwrap();
    std::fs::write(place.0.join("cache/blobs/only.bin"), numbers(&[7.0, 8.0])).unwrap();
    link("../../blobs/a1", "cache/snapshots/x/model.onnx");
    link("../../blobs/b2", "cache/snapshots/x/model.onnx_data");
    link("../../../secret.bin", "cache/snapshots/x/out.bin");
    link("../../secret.bin", "cache/blobs/out_too.bin");
    link("../../blobs/absent", "cache/snapshots/x/absent.bin");
    let read = |location: &str| {
        let length = ("length", "8");
        place.read_of("cache/snapshots/x/model.onnx", &[("location", location), length])
    };
    assert_eq!(read("model.onnx_data"), Ok(numbers(&[5.0, 6.0])), "a link beside the link");
    assert_eq!(read("only.bin"), Ok(numbers(&[7.0, 8.0])), "beside the file");
    assert_eq!(read("deep/../only.bin"), Ok(numbers(&[7.0, 8.0])));
    for location in ["out.bin", "out_too.bin"] {
        let error = read(location).expect_err(location);
        assert!(error.contains("a link leads out"), "{location}: {error}");
    }
    for location in ["../../blobs/b2", "../blobs/b2"] {
        let error = read(location).expect_err(location);
        assert!(error.contains("the path leads out"), "{location}: {error}");
    }
    for location in ["absent.bin", "nowhere.bin"] {
        let error = read(location).expect_err(location);
        assert!(error.contains(location), "the name in the model: {error}");
    }
    // A model that is no link stays in its own folder.
    std::fs::write(place.0.join("cache/snapshots/x/own.onnx"), "the model").unwrap();
    let location = [("location", "model.onnx_data"), ("length", "8")];
    let error = place.read_of("cache/snapshots/x/own.onnx", &location).expect_err("refused");
    assert!(error.contains("a link leads out"), "{error}");
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let place = Place::new();
    let pipe = place.home().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    for location in ["pipe", "sub"] {
        place.refused(&[("location", location)], "it is not a regular file");
    }
    symlink("/dev/zero", place.home().join("zero")).unwrap();
    place.refused(&[("location", "zero")], "a link leads out");
    symlink("loop", place.home().join("loop")).unwrap();
    assert!(place.read(&[("location", "loop")]).is_err());
    assert!(place.read(&[("location", "absent.bin")]).is_err());
    assert!(place.read(&[("location", "w.bin\0x")]).is_err());
}

#[test]
fn places_outside_of_the_file_are_refused() {
    let place = Place::new();
    let at = |offset: &str, why: &str| {
        place.refused(&[("location", "w.bin"), ("offset", offset)], why);
    };
    at("9", "which has 16 bytes");
    at("16", "which has 16 bytes");
    at(&usize::MAX.to_string(), "which has 16 bytes");
    at(&(usize::MAX - 7).to_string(), "which has 16 bytes");
    at("-8", "is not a number");
    at("18446744073709551616", "is not a number");
    at("eight", "is not a number");
    for length in ["7", "16", "9223372036854775807"] {
        place.refused(&[("location", "w.bin"), ("length", length)], "8 are needed");
    }
}

#[test]
fn entries_that_say_nothing_or_something_unknown_are_refused() {
    let place = Place::new();
    place.refused(&[], "without a location");
    place.refused(&[("location", "")], "without a location");
    place.refused(&[("location", "w.bin"), ("data", "x")], "unknown key");
    let none = ExternalFiles::none();
    let entry =
        StringStringEntryProto { key: Some("location".into()), value: Some("w.bin".into()) };
    let tensor = TensorProto { external_data: vec![entry], ..Default::default() };
    let error = none.read(&tensor, DType::F32, &[2]).unwrap_err().to_string();
    assert!(error.contains("open it by its path"), "{error}");
}

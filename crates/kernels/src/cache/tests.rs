use std::process::Command;

use super::*;

/// A directory of its own that goes when the test ends.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(text: &str) -> CacheKey {
    CacheKey::of(&[text.as_bytes(), b"sm_90"])
}

#[test]
fn scratch_files_have_names_of_their_own_in_the_directory() {
    let scratch = Scratch::new("scratch");
    let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
    let [first, second] = [(); 2].map(|()| cache.scratch_file());
    assert_ne!(first, second);
    assert!(
        first.starts_with(&scratch.0) && first.extension().is_some_and(|end| end == "unfinished")
    );
}

#[test]
fn what_was_put_comes_back() {
    let scratch = Scratch::new("put");
    let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
    assert_eq!(cache.get(key("a")), None);
    cache.put(key("a"), b"compiled").unwrap();
    assert_eq!(cache.get(key("a")).unwrap(), b"compiled");
    assert_eq!(cache.get(key("b")), None);
}

#[test]
fn parts_do_not_run_together() {
    assert_ne!(CacheKey::of(&[b"ab", b"c"]), CacheKey::of(&[b"a", b"bc"]));
    assert_ne!(CacheKey::of(&[b"ab"]), CacheKey::of(&[b"ab", b""]));
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed_and_built_again() {
    let scratch = Scratch::new("corrupt");
    let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
    let key = key("kernel");
    cache.put(key, b"twelve bytes").unwrap();
    let whole = fs::read(cache.path(key)).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        for broken in [&flipped[..], &whole[..at]] {
            fs::write(cache.path(key), broken).unwrap();
            assert_eq!(cache.get(key), None, "byte {at}");
            assert!(!cache.path(key).exists());
            let built = cache.get_or_build(key, || Ok::<_, ()>(b"twelve bytes".to_vec()));
            assert_eq!(built.unwrap(), b"twelve bytes");
            assert_eq!(fs::read(cache.path(key)).unwrap(), whole);
        }
    }
}

#[test]
fn an_entry_under_another_name_is_not_taken() {
    let scratch = Scratch::new("renamed");
    let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
    cache.put(key("a"), b"compiled").unwrap();
    fs::copy(cache.path(key("a")), cache.path(key("b"))).unwrap();
    assert_eq!(cache.get(key("b")), None);
}

#[test]
fn invariant_08_what_was_built_is_not_built_again() {
    let scratch = Scratch::new("built");
    for _process in 0..2 {
        let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
        let first = cache.get(key("a")).is_none();
        for call in 0..3 {
            let build = || {
                assert!(first && call == 0, "it is on disk");
                Ok::<_, ()>(b"compiled".to_vec())
            };
            assert_eq!(cache.get_or_build(key("a"), build).unwrap(), b"compiled");
        }
        assert!(cache.get(key("a")).is_some());
    }
}

#[test]
fn invariant_08_a_failed_build_leaves_nothing_and_can_be_tried_again() {
    let scratch = Scratch::new("failed");
    let cache = Cache::at(&scratch.0, 1 << 20).unwrap();
    assert_eq!(cache.get_or_build(key("a"), || Err::<Vec<u8>, _>("no")), Err("no"));
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    assert_eq!(cache.get_or_build(key("a"), || Ok::<_, ()>(vec![7])), Ok(vec![7]));
}

#[test]
fn the_directory_stays_bounded() {
    let scratch = Scratch::new("bounded");
    let cache = Cache::at(&scratch.0, 10_000).unwrap();
    for number in 0..100 {
        cache.put(key(&number.to_string()), &[7; 1000]).unwrap();
    }
    let sizes =
        fs::read_dir(&scratch.0).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 12_500);
}

#[test]
fn the_directory_is_the_one_that_is_named() {
    let named = directory(|name| (name == "MILLSTREAM_CACHE_DIR").then(|| "/somewhere".into()));
    assert_eq!(named, Some(PathBuf::from("/somewhere")));
    assert_eq!(directory(|_| None), None);
}

/// The content of an entry as every process of the next test builds it.
fn content(number: u64) -> Vec<u8> {
    (0..4096 + number * 37).map(|at| (at * (number + 3)) as u8).collect()
}

/// Does nothing unless it is started by the next test.
#[test]
fn one_of_many_processes() {
    let Some(directory) = std::env::var_os("MILLSTREAM_CACHE_TEST") else { return };
    let cache = Cache::at(Path::new(&directory), 1 << 30).unwrap();
    for round in 0..20u64 {
        for number in 0..16 {
            let key = key(&format!("entry {number}"));
            let entry = cache.get_or_build(key, || Ok::<_, ()>(content(number))).unwrap();
            assert_eq!(entry, content(number));
            // Somebody spoils an entry now and then, as a full disk or a crash would.
            if round % 5 == 4 && number % 8 == u64::from(std::process::id()) % 8 {
                let _ = fs::write(cache.path(key), b"MSKERN02 and then nothing");
            }
        }
    }
}

#[test]
fn many_processes_share_a_directory() {
    let scratch = Scratch::new("processes");
    let mut children: Vec<_> = (0..6)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "cache::tests::one_of_many_processes"])
                .env("MILLSTREAM_CACHE_TEST", &scratch.0)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let names: Vec<_> =
        fs::read_dir(&scratch.0).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(names.iter().all(|name| name.extension().unwrap() == "kernel"), "{names:?}");
    assert_eq!(names.len(), 16);
}

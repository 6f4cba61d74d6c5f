//! Weight files from anybody: each is refused with an error, or every tensor in it can be read in full.
//!
//! The first byte of an input says what the rest is: a file as it is, or (if odd) a header with what follows
//! its last `}` as data, to which the right length is added, so that mutations get past it.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millstream_core::Device;
use millstream_cpu as _;
use millstream_nn::{Error, Init, Weights};

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("millstream-fuzz-{}.safetensors", std::process::id()))
});

fn file(input: &[u8]) -> Option<Vec<u8>> {
    let (&mode, rest) = input.split_first()?;
    if mode % 2 == 0 {
        return Some(rest.to_vec());
    }
    let header = rest.iter().rposition(|&byte| byte == b'}')? + 1;
    Some([&(header as u64).to_le_bytes(), rest].concat())
}

fuzz_target!(|input: &[u8]| {
    let Some(bytes) = file(input) else { return };
    std::fs::write(&*PLACE, &bytes).unwrap();
    let device = Device::cpu().unwrap();
    let opened = Weights::open(&*PLACE, &device);
    // What is mapped stays; nothing is left behind.
    std::fs::remove_file(&*PLACE).unwrap();
    let weights = match opened {
        Ok(weights) => weights,
        Err(Error::Format { reason, .. }) => return assert!(!reason.is_empty()),
        Err(Error::Read { .. }) if bytes.is_empty() => return,
        Err(other) => panic!("{other}"),
    };
    let mut total = 0;
    for name in weights.names() {
        let shape = weights.shape_of(&name).expect("a name has a shape");
        match weights.get(&name, &shape, Init::Zeros) {
            Ok(tensor) => {
                let read = tensor.to_bytes().unwrap();
                assert_eq!(Some(read.len()), tensor.dtype().bytes(tensor.elements()));
                total += read.len();
            }
            // A type that there is no element for.
            Err(Error::Weights { .. }) => {}
            Err(other) => panic!("{name:?} {shape:?}: {other}"),
        }
        let other: Vec<usize> = shape.iter().copied().chain([3]).collect();
        assert!(weights.get(&name, &other, Init::Zeros).is_err());
    }
    assert!(total <= bytes.len());
    // All of it at once, as a model does.
    let _ = weights.load(|weights| weights.get("a.weight", &[2, 2], Init::Zeros));
});

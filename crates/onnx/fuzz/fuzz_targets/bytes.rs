//! Bytes that may be a model: refused with an error, or imported, compiled and called.

#![no_main]

mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| model::run(input));

//! Models that are models: what is mutated is not bytes but nodes, attributes, tensors and types.

#![no_main]

#[allow(dead_code)]
#[path = "../../src/generated.rs"]
mod generated;
mod model;
mod mutate;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use prost::Message;

use generated::ModelProto;

fuzz_target!(|input: &[u8]| model::run(input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let Ok(mut proto) = ModelProto::decode(&data[..size]) else {
        return fuzzer_mutate(data, size, max_size);
    };
    mutate::model(&mut proto, seed);
    let bytes = proto.encode_to_vec();
    if bytes.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
});

use millstream_gpu::MAX_IN_FLIGHT;
use millstream_kernels::FAULT_HEADER_WORDS;

use super::*;

#[test]
fn device_and_host_agree_about_the_slots() {
    let (slots, words) = (MAX_IN_FLIGHT, FAULT_HEADER_WORDS);
    let text = format!("enum {{ SLOTS = {slots}, HEADER_WORDS = {words} }};");
    assert!(SOURCE.contains(&text));
}

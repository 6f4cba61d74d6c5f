//! Kernels with mistakes in them: what is meant to find mistakes has to find these.

use std::process::Command;

use millstream_kernels::{Dialect, source_of_many};

use crate::host;
use crate::memory::Bytes;
use crate::toolchain::Sanitizer;

/// Runs the body of a kernel with one buffer of words, and gives the words.
fn run(body: &str, threads: u32, words: usize, order: i32) -> Option<Result<Vec<u32>, String>> {
    let host = host()?;
    let text = format!(
        "{}\n#define ENTRY planted\nstruct Params {{ u64 nothing; }};\n\
         KERNEL_1(words) {{ const Thread t = THREAD; DEVICE u32* out = (DEVICE u32*)words; {body} }}\n",
        source_of_many(&[], Dialect::Host)
    );
    let buffer = Bytes::of(&vec![0; 4 * words]);
    let addresses = [buffer.address() as u64];
    // SAFETY: the kernel takes one buffer; where it steps out of it, a sanitizer stops the process.
    let result = unsafe { host.library.run_text(&text, threads, &addresses, order) };
    let bytes = buffer.to_vec(4 * words);
    let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Some(result.map(|()| bytes.chunks(4).map(word).collect()))
}

/// Turns 64 words round, through memory that the group shares.
const TURN: &str = "SHARED u32 reversed[64]; reversed[t.index] = t.index; BARRIER \
                    out[t.index] = reversed[63 - t.index];";

#[test]
fn a_right_kernel_is_right_in_every_order() {
    let body = TURN.replace("BARRIER", "group_barrier();");
    for order in 0..4 {
        let Some(words) = run(&body, 64, 64, order) else { return };
        assert_eq!(words.unwrap(), (0..64).rev().collect::<Vec<u32>>());
    }
}

#[test]
fn a_missing_barrier_shows_in_the_result() {
    if host().is_none_or(|host| host.library.toolchain().sanitizer != Sanitizer::None) {
        return;
    }
    let body = TURN.replace("BARRIER", "");
    let right: Vec<u32> = (0..64).rev().collect();
    let wrong = |order: i32| run(&body, 64, 64, order).unwrap().unwrap() != right;
    assert!((0..4).all(wrong));
}

#[test]
fn threads_that_miss_a_barrier_are_reported() {
    let Some(returned) = run("if (t.index == 3) return; group_barrier();", 64, 64, 0) else {
        return;
    };
    assert!(returned.unwrap_err().contains("had returned"));
    let elsewhere = "if (t.index == 3) group_barrier(); else group_barrier();";
    let error = run(elsewhere, 64, 64, 3).unwrap().unwrap_err();
    assert!(error.contains("different barriers"), "{error}");
}

#[test]
fn a_simd_operation_in_divergent_code_is_reported() {
    let body = "if (t.lane < 7) out[t.index] = lane_xor(t.index, 1);";
    let Some(result) = run(body, 32, 32, 0) else { return };
    assert!(result.unwrap_err().contains("divergent"));
}

#[test]
fn shared_memory_is_not_device_memory() {
    let body = "SHARED u32 own[4]; DEVICE u32* wrong = own; out[0] = *wrong;";
    let Some(result) = run(body, 32, 32, 0) else { return };
    assert!(result.unwrap_err().contains("__local"));
}

#[test]
fn every_command_of_a_batch_has_its_own_note_of_a_fault() {
    let body = "if (t.index % 32 == 7) fault((DEVICE u8*)words, FAULT_INDEX, t.index / 16);";
    let Some(words) = run(body, 64, 64, 0) else { return };
    let mut expected = vec![0; 64];
    (expected[0], expected[4], expected[6]) = (1, 1, 1);
    assert_eq!(words.unwrap(), expected);
}

/// Does nothing unless it is started by the next test.
#[test]
fn planted_child() {
    let Ok(body) = std::env::var("MILLSTREAM_KERNELS_PLANTED") else { return };
    let _ = run(&body, 64, 64, 0);
}

/// A mistake that only a sanitizer sees ends the process, so it is made in another.
#[test]
fn sanitizers_find_what_is_planted() {
    let Some(host) = host() else { return };
    let (body, expected) = match host.library.toolchain().sanitizer {
        Sanitizer::None => return,
        Sanitizer::Address => ("out[t.index + 1] = 1;".to_string(), "heap-buffer-overflow"),
        Sanitizer::Thread => (TURN.replace("BARRIER", ""), "data race"),
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "planted::planted_child", "--nocapture"])
        .env("MILLSTREAM_KERNELS_PLANTED", body)
        .env("MILLSTREAM_KERNELS_KINDS", "fill")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && report.contains(expected), "{report}");
}

//! Transfers: through staging memory, and straight from and to host memory that the device reaches.

use millstream_core::{Command, HostBytes, Stream};

use crate::kit::{Gpu, bytes, harmless};

const LARGE: usize = 1 << 20;

fn pattern(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 + index / 251 + seed * 13) as u8).collect()
}

#[test]
fn transfers_of_any_size_arrive() {
    let gpu = Gpu::with_seed(7);
    let stream = gpu.stream();
    for count in [0, 1, 2, 4, 1000, 64 << 10, (64 << 10) + 1, 5 << 20] {
        let values = pattern(count, count);
        let buffer = stream.allocate(count).unwrap();
        stream.upload(buffer.operand(bytes(count)), &values).unwrap();
        let got = stream.download(buffer.operand(bytes(count))).unwrap();
        assert!(got.bytes().unwrap() == values, "{count} bytes");
    }
}

#[test]
fn large_transfers_are_direct_and_replayed() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let held = [(); 2].map(|()| stream.allocate(LARGE).unwrap());
    let [first, second] = [0, 1].map(|index| held[index].operand(bytes(LARGE)));
    let before = gpu.allocations();
    for call in 0..40 {
        let values = [call, call + 1].map(|seed| pattern(seed, LARGE));
        stream.upload(first, &values[0]).unwrap();
        stream.upload(second, &values[1]).unwrap();
        let download = stream.download([first, second][call % 2]).unwrap();
        assert!(download.bytes().unwrap() == values[call % 2], "{call}");
    }
    // A piece for each transfer, and no staging memory.
    assert_eq!(gpu.allocations() - before, 3);
    // Two batches in turn, each launched item by item once.
    assert_eq!(gpu.replays(), 2 * 19);
}

/// As calls that are joined: whichever thread leads a batch, it is the batch of the one before.
#[test]
fn batches_of_threads_that_take_turns_as_one_user_are_replayed() {
    for count in [4 << 10, 64 << 10] {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let call = |seed: usize| {
            stream.as_one_user(|| {
                let values = pattern(seed, count);
                let parts = [&values[..count / 2], &values[count / 2..]];
                let buffer = stream.allocate_with_parts(&bytes(count), &parts).unwrap();
                let other = stream.allocate_with_parts(&bytes(count), &parts).unwrap();
                let [first, second] = [buffer, other]
                    .map(|buffer| stream.download(buffer.operand(bytes(count))).unwrap());
                assert!(first.view_bytes().unwrap() == values, "{seed}");
                assert!(second.view_bytes().unwrap() == values, "{seed}");
            });
        };
        call(0);
        let before = gpu.allocations();
        let calls = 20;
        for seed in 1..=calls {
            std::thread::scope(|scope| drop(scope.spawn(|| call(seed))));
        }
        assert_eq!((gpu.allocations() - before, gpu.replays()), (0, calls as u64));
    }
}

#[test]
fn the_largest_transfers_are_direct_too_and_their_memory_is_kept() {
    const HUGE: usize = 40 << 20;
    let gpu = Gpu::new();
    let streams = [gpu.stream(), gpu.stream()];
    let values = pattern(5, HUGE);
    let mut made = None;
    for call in 0..4 {
        let stream = &streams[call % 2];
        let buffer = stream.allocate(HUGE).unwrap();
        let host = stream.host_copy_of(&values);
        stream.record(Command::upload(buffer.operand(bytes(HUGE)), host).unwrap()).unwrap();
        let download = stream.download(buffer.operand(bytes(HUGE))).unwrap();
        assert!(download.view_bytes().unwrap() == values, "{call}");
        drop((download, buffer));
        // The second stream finds what the first has left.
        if call > 1 {
            assert_eq!(Some(gpu.allocations()), made, "{call}");
        }
        made = Some(gpu.allocations());
    }
}

#[test]
fn an_upload_by_several_threads_is_whole() {
    let gpu = Gpu::with_seed(3);
    let stream = gpu.stream();
    for (count, threads) in [(5 << 20, 2), ((5 << 20) + 12, 7), (100 << 10, 3)] {
        let values = pattern(count, count);
        let buffer = stream.allocate(count).unwrap();
        let uploaded = stream.upload_by(threads, 64 << 10, buffer.operand(bytes(count)), &values);
        uploaded.unwrap().unwrap();
        let got = stream.download(buffer.operand(bytes(count))).unwrap();
        assert!(got.bytes().unwrap() == values, "{count} bytes by {threads} threads");
    }
}

#[test]
fn batches_in_flight_have_memory_of_their_own() {
    let gpu = Gpu::with_seed(11);
    let stream = gpu.stream();
    let held = stream.allocate(LARGE).unwrap();
    for round in 0..3 {
        let mut downloads = Vec::new();
        for call in 0..20 {
            stream.upload(held.operand(bytes(LARGE)), &pattern(round + call, LARGE)).unwrap();
            downloads.push(stream.download(held.operand(bytes(LARGE))).unwrap());
            stream.flush().unwrap();
        }
        for (call, download) in downloads.iter().enumerate() {
            assert!(download.view::<u8>().unwrap() == pattern(round + call, LARGE), "{call}");
        }
    }
}

#[test]
fn memory_of_another_device_is_staged() {
    let gpus = [Gpu::new(), Gpu::new()];
    let streams = gpus.each_ref().map(Gpu::stream);
    let host = streams[0].host_copy_of(&pattern(3, LARGE));
    for stream in &streams {
        let buffer = stream.allocate(LARGE).unwrap();
        for _ in 0..4 {
            let upload = Command::upload(buffer.operand(bytes(LARGE)), host.clone());
            stream.record(upload.unwrap()).unwrap();
            let got = stream.download(buffer.operand(bytes(LARGE))).unwrap().bytes().unwrap();
            assert!(got == pattern(3, LARGE));
        }
    }
}

/// Uploads from the heap, so that they need staging memory.
fn upload_from_heap(stream: &Stream, count: usize) {
    let buffer = stream.allocate(count).unwrap();
    let upload = Command::upload(buffer.operand(bytes(count)), HostBytes::zeroed(count));
    stream.record(upload.unwrap()).unwrap();
}

#[test]
fn staging_memory_is_kept_and_used_again() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let upload_both = || {
        for count in [100 << 10, 50 << 10] {
            upload_from_heap(&stream, count);
            stream.synchronize().unwrap();
        }
    };
    upload_both();
    let kept = gpu.allocations();
    (0..10).for_each(|_| upload_both());
    assert_eq!(gpu.allocations(), kept);
}

#[test]
fn without_staging_memory_only_what_needs_it_fails() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let [good, bad] = [(); 2].map(|()| stream.allocate(16).unwrap());
    stream.upload(good.operand(bytes(16)), &[7u8; 16]).unwrap();
    stream.synchronize().unwrap();
    gpu.fail("allocate_host", 0, 1, harmless());
    let upload = Command::upload(bad.operand(bytes(16)), HostBytes::zeroed(16 << 20 >> 20));
    stream.record(upload.unwrap()).unwrap();
    // Larger than the piece that the first upload has left, so that new memory is asked for.
    upload_from_heap(&stream, 1 << 20);
    let fault = stream.download(bad.operand(bytes(16))).unwrap();
    stream.flush().unwrap();
    let error = fault.bytes().unwrap_err().to_string();
    assert!(error.contains("upload") && error.contains("as planted"), "{error}");
    let got = stream.download(good.operand(bytes(16))).unwrap().bytes().unwrap();
    assert_eq!(got, [7; 16]);
}

//! What a queue keeps is bounded.

use millstream_core::{Activation, Command, HostBytes, Stream};

use crate::linux::{Test, ask, bytes, matrix, open, plant, row};

pub const TESTS: &[Test] = &[
    ("a_batch_has_three_graphs_at_most", a_batch_has_three_graphs_at_most),
    ("staging_memory_is_kept_up_to_a_number", staging_memory_is_kept_up_to_a_number),
    ("staging_memory_is_kept_up_to_a_size", staging_memory_is_kept_up_to_a_size),
    ("products_are_remembered_up_to_a_number", products_are_remembered_up_to_a_number),
];

/// Submits batches while none gets through, and lets them go on when all are in flight.
fn in_flight<R>(stream: &Stream, batches: usize, mut batch: impl FnMut(usize) -> R) -> Vec<R> {
    plant(stream, b"HNG").unwrap();
    stream.flush().unwrap();
    let results = (0..batches).map(|index| {
        let result = batch(index);
        stream.flush().unwrap();
        result
    });
    let results = results.collect();
    ask(c"fake_release");
    stream.synchronize().unwrap();
    results
}

fn a_batch_has_three_graphs_at_most() {
    let stream = open().stream().unwrap();
    let buffers = [(); 2].map(|()| stream.allocate(row(4).dense_bytes()).unwrap());
    let call = |value: usize| {
        for buffer in &buffers {
            stream.upload(buffer.operand(row(4)), &[value as f32; 4]).unwrap();
        }
        stream.download(buffers[0].operand(row(4))).unwrap()
    };
    for value in 0..4 {
        assert_eq!(call(value).read::<f32>().unwrap(), [value as f32; 4]);
    }
    assert_eq!(ask(c"fake_graphs"), 1, "one after the other needs one");
    let downloads = in_flight(&stream, 6, call);
    assert_eq!(ask(c"fake_graphs"), 3);
    for (value, download) in downloads.into_iter().enumerate() {
        assert_eq!(download.read::<f32>().unwrap(), [value as f32; 4]);
    }
}

/// Uploads from the heap, so that they need staging memory.
fn upload_from_heap(stream: &Stream, count: usize) {
    let buffer = stream.allocate(count).unwrap();
    let upload = Command::upload(buffer.operand(bytes(count)), HostBytes::zeroed(count));
    stream.record(upload.unwrap()).unwrap();
}

fn staging_memory_is_kept_up_to_a_number() {
    let stream = open().stream().unwrap();
    upload_from_heap(&stream, 1);
    stream.synchronize().unwrap();
    let others = ask(c"fake_registered") - 1;
    // Seven at a time that none of those before are large enough for.
    for (round, count) in [1, 100 << 10, 200 << 10].into_iter().enumerate() {
        in_flight(&stream, 7, |_| upload_from_heap(&stream, count));
        assert_eq!(ask(c"fake_registered") - others, (1 + (round as u64 + 1) * 7).min(16));
    }
}

fn staging_memory_is_kept_up_to_a_size() {
    let stream = open().stream().unwrap();
    upload_from_heap(&stream, 1);
    stream.synchronize().unwrap();
    let others = ask(c"fake_registered") - 1;
    in_flight(&stream, 3, |_| upload_from_heap(&stream, 20 << 20));
    assert_eq!(ask(c"fake_registered") - others, 2, "32 MiB each, 64 MiB in all");
    // What is larger than that is not kept at all.
    upload_from_heap(&stream, 40 << 20);
    stream.synchronize().unwrap();
    assert_eq!(ask(c"fake_registered") - others, 2);
}

fn products_are_remembered_up_to_a_number() {
    let stream = open().stream().unwrap();
    let buffer = stream.allocate(1 << 20).unwrap();
    let weights = stream.allocate(1 << 20).unwrap();
    let result = stream.allocate(1 << 20).unwrap();
    let whole = row(1 << 18);
    for buffer in [&buffer, &weights, &result] {
        stream.record(Command::fill(buffer.operand(whole), 1.0f32).unwrap()).unwrap();
    }
    let products = |columns: std::ops::RangeInclusive<usize>| {
        for n in columns {
            let (to, a) = (result.operand(matrix(5, n)), buffer.operand(matrix(5, 3)));
            let b = weights.operand(matrix(3, n));
            let product = Command::matmul(to, a, b, None, None, 1.0, Activation::None);
            stream.record(product.unwrap()).unwrap();
        }
        stream.synchronize().unwrap();
        ask(c"fake_searches")
    };
    // Fewer columns have a kernel of their own.
    assert_eq!(products(11..=310), 300);
    assert_eq!(products(200..=310), 300, "they are remembered");
    assert_eq!(products(311..=522), 512);
    assert_eq!(products(11..=11), 513, "all were forgotten");
    assert_eq!(products(11..=11), 513);
}

use super::*;
use crate::{Config, DType, fake};

fn stream() -> Stream {
    let (device, _) = fake::device(Config::default(), 64 << 20, 1).unwrap();
    device.stream().unwrap()
}

/// Small pieces, of which the fake device has many.
const SMALL: usize = 4 << 10;

#[test]
fn every_piece_is_recorded_in_order_with_what_came_before() {
    let (device, control) = fake::device(Config::default(), 64 << 20, 1).unwrap();
    let stream = device.stream().unwrap();
    // Whole pieces, a rest, and an offset.
    for (elements, offset) in [(30 << 10, 0), (25 * 1024 + 5, 0), (1025, 3), (9, 0)] {
        let buffer = stream.allocate((elements + offset) * 4).unwrap();
        let layout = Layout::strided(DType::F32, &[elements], &[1], offset).unwrap();
        for threads in [2, 5] {
            let bytes = vec![0; elements * 4];
            let point = stream.upload_by(threads, SMALL, buffer.operand(layout), &bytes);
            point.unwrap().unwrap().wait().unwrap();
        }
    }
    assert!(control.violations().is_empty(), "{:?}", control.violations());
}

#[test]
fn what_would_not_be_faster_is_left_to_the_caller() {
    let stream = stream();
    let bytes = vec![1; 64];
    let buffer = stream.allocate(256).unwrap();
    let dense = Layout::contiguous(DType::F32, &[16]).unwrap();
    let apart = Layout::strided(DType::F32, &[16], &[2], 0).unwrap();
    assert!(upload(&stream, buffer.operand(dense), &bytes).is_none());
    assert!(upload_by(1, SMALL, &stream, buffer.operand(dense), &bytes).is_none());
    assert!(upload_by(4, SMALL, &stream, buffer.operand(apart), &bytes).is_none());
    // Another number of bytes: the Command says what is wrong.
    assert!(upload_by(4, SMALL, &stream, buffer.operand(dense), &bytes[4..]).is_none());
    assert!(upload_by(4, SMALL, &stream, buffer.operand(dense), &bytes).is_some());
}

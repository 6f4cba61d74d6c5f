//! No Command reaches a device that was not checked against the buffers that it names.

mod common;

use common::*;
use millstream_core::{Command, DType, Error, Layout, Operand, RawBuffer, Stream};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, part: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    assert!(error.to_string().contains(part), "{error} lacks {part:?}");
}

fn floats(count: usize, offset: usize) -> Layout {
    Layout::strided(DType::F32, &[count], &[1], offset).unwrap()
}

#[test]
fn a_command_bound_to_a_smaller_buffer_is_not_recorded() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    let large = RawBuffer { address: 0x1000, bytes: 512 };
    let fill = Command::fill(Operand::new(large, floats(128, 0)), 1f32).unwrap();
    refused(stream.record(fill.clone().bind(|_| &buffer)), "buffer of 256 bytes");
    refused(stream.record(fill.try_bind(|_| Ok(&buffer)).unwrap()), "buffer of 256 bytes");
    assert_eq!(device.counters().commands, 0);
    let fitting = Command::fill(Operand::new(large, floats(64, 0)), 1f32).unwrap();
    stream.record(fitting.bind(|_| &buffer)).unwrap();
    stream.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn operands_bound_to_one_buffer_are_seen_to_overlap() {
    let (device, _) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    let raw = |address| RawBuffer { address, bytes: 256 };
    let (to, from) = (floats(32, 1), floats(32, 0));
    let copy = Command::copy(Operand::new(raw(0x1000), to), Operand::new(raw(0x2000), from));
    refused(stream.record(copy.unwrap().bind(|_| &buffer)), "shares memory");
}

#[test]
fn what_is_left_of_a_recorded_command_is_not_recorded_again() {
    let (device, _) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    let mut fill = Command::fill(buffer.operand(floats(64, 0)), 1f32).unwrap();
    stream.record_from(&mut fill).unwrap();
    refused(stream.record_from(&mut fill), "recorded already");
    refused(stream.record(fill.clone()), "recorded already");
    stream.synchronize().unwrap();
}

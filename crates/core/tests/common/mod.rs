//! Helpers for the tests on the fake device.
#![allow(dead_code)]

use std::time::Duration;

use millstream_core::fake::{self, FakeControl};
use millstream_core::{
    BinaryOp, Buffer, Command, Config, DType, Device, Layout, Operand, Result, Stream, Timepoint,
};

pub const MEMORY: usize = 64 << 20;

/// Waits end late, so that only a test that would hang sees it.
pub fn config() -> Config {
    Config { wait_timeout: Some(Duration::from_secs(120)), ..Config::default() }
}

pub fn device() -> (Device, FakeControl) {
    fake::device(config(), MEMORY, 1).unwrap()
}

pub fn device_with(change: impl FnOnce(&mut Config)) -> (Device, FakeControl) {
    let mut config = config();
    change(&mut config);
    fake::device(config, MEMORY, 1).unwrap()
}

/// All of a buffer as f32.
pub fn whole(buffer: &Buffer) -> Operand<&Buffer> {
    buffer.operand(Layout::contiguous(DType::F32, &[buffer.bytes() / 4]).unwrap())
}

pub fn fill(stream: &Stream, buffer: &Buffer) -> Result<Timepoint> {
    stream.record(Command::fill(whole(buffer), 1.0f32)?)
}

pub fn copy(stream: &Stream, to: &Buffer, from: &Buffer) -> Result<Timepoint> {
    stream.record(Command::copy(whole(to), whole(from))?)
}

pub fn add(stream: &Stream, to: &Buffer, a: &Buffer, b: &Buffer) -> Result<Timepoint> {
    stream.record(Command::binary(BinaryOp::Add, whole(to), whole(a), whole(b))?)
}

use millstream_core::{Command, DType, as_bytes, from_bytes};

use super::*;
use crate::kernels::shared::testing::{Tensor, run};
use crate::kernels::{Sequential, execute};

#[test]
fn bytes_survive_a_round_trip_through_any_layout() {
    let values: Vec<i32> = (0..60).collect();
    let layout = Layout::strided(DType::I32, &[5, 12], &[1, 7], 2).unwrap();
    let device = Tensor::uninit(layout);
    run(Command::upload(device.operand(), HostBytes::copy_of(as_bytes(&values))));
    assert_eq!(device.values::<i32>(), values);
    let target = HostBytes::zeroed(240);
    run(Command::download(target.clone(), device.operand()));
    // SAFETY: the command is done.
    assert_eq!(from_bytes::<i32>(unsafe { target.as_slice() }), values);
}

#[test]
fn empty_transfers_do_nothing() {
    let device = Tensor::output(DType::F16, &[0, 4]);
    run(Command::upload(device.operand(), HostBytes::zeroed(0)));
    run(Command::download(HostBytes::zeroed(0), device.operand()));
}

#[test]
fn a_timestamp_is_the_clock_of_the_call() {
    let device = Tensor::new(&[3], &[0i64; 3]);
    let mut operand = device.operand();
    operand.layout = operand.layout.slice(0, 1, 1, 1).unwrap();
    let command = Command::timestamp(operand).unwrap();
    // SAFETY: the operand is memory of this test.
    unsafe { execute(&command, &Sequential, 123_456_789_012) }.unwrap();
    assert_eq!(device.values::<i64>(), [0, 123_456_789_012, 0]);
}

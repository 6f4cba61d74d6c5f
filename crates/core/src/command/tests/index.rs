//! Selection, norms, gathers, scatters and windows.

use super::*;
use crate::Scalar;

#[test]
fn where_checks_its_condition_and_types() {
    let condition = operand(2, DType::Bool, &[2, 1]);
    let (dst, a, b) = (f32s(1, &[2, 3]), f32s(3, &[3]), f32s(4, &[]));
    let command = Command::where_(dst, condition, a, b).unwrap();
    assert_eq!(command.inputs()[0].layout.strides(), [1, 0]);
    assert!(Command::where_(dst, condition, dst, b).is_ok(), "in place is fine");
    rejected(Command::where_(dst, a, a, b), "needs bool");
    rejected(Command::where_(dst, condition, operand(5, DType::I32, &[3]), b), "differ");
    rejected(Command::where_(dst, condition, f32s(3, &[4]), b), "does not broadcast");
}

#[test]
fn clip_checks_its_limits() {
    let (dst, bytes) = (f32s(1, &[4]), operand(2, DType::U8, &[4]));
    let limit = |value: f64| Some(Scalar::Float(value));
    assert!(Command::clip(dst, dst, limit(0.5), None).is_ok());
    rejected(Command::clip(dst, dst, None, limit(f64::NAN)), "NaN");
    rejected(Command::clip(bytes, bytes, limit(0.5), None), "not a whole number");
    rejected(Command::clip(dst, bytes, None, None), "differ");
    let bools = operand(3, DType::Bool, &[4]);
    rejected(Command::clip(bools, bools, None, None), "bool");
    let command = Command::clip(bytes, bytes, limit(-7.0), limit(1e9)).unwrap();
    let limits = (Some(Scalar::Int(0)), Some(Scalar::Int(255)));
    assert_eq!(*command.op(), Op::Clip { min: limits.0, max: limits.1 });
}

#[test]
fn rms_and_group_norm_check_their_parameters() {
    let (dst, src) = (f32s(1, &[2, 6, 3]), f32s(2, &[2, 6, 3]));
    assert!(Command::rms_norm(dst, src, Some(f32s(3, &[6, 3])), 2, 1e-5).is_ok());
    rejected(Command::rms_norm(dst, src, Some(f32s(3, &[6])), 2, 1e-5), "needs [6, 3]");
    rejected(Command::rms_norm(dst, src, None, 0, 1e-5), "0 axes");
    rejected(Command::rms_norm(dst, src, None, 1, -1.0), "negative");
    let channels = Some(f32s(3, &[6]));
    assert!(Command::group_norm(dst, src, channels, channels, 3, 1e-5).is_ok());
    rejected(Command::group_norm(dst, src, None, None, 4, 1e-5), "6 channels in 4 groups");
    rejected(Command::group_norm(dst, src, None, None, 0, 1e-5), "in 0 groups");
    rejected(Command::group_norm(dst, src, None, Some(f32s(3, &[3])), 3, 1e-5), "needs [6]");
    let flat = f32s(4, &[6]);
    rejected(Command::group_norm(flat, flat, None, None, 1, 1e-5), "no axis of channels");
}

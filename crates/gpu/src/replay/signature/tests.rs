use millstream_core::{
    Activation, BinaryOp, Command, CoordinateMode, DType, Distribution, HostBytes, Layout,
    MAX_RANK, NearestRounding, PadMode, PadParams, ResizeMode, ResizeParams, Scalar, UnaryOp,
};

use super::*;
use crate::fake::Fake;

fn operand(address: usize, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(DType::F32, shape).unwrap();
    Operand::new(RawBuffer { address, bytes: 4096 }, layout)
}

fn of(commands: &[BoundCommand]) -> (Vec<u64>, u64) {
    let mut signature = Signature::<Fake>::new(0);
    signature.write_batch(commands, None);
    (signature.words().to_vec(), signature.finish())
}

#[test]
fn what_is_the_same_has_one_signature_and_what_differs_has_another() {
    let fill = |address, value: f32| Command::fill(operand(address, &[4]), value).unwrap();
    assert_eq!(of(&[fill(64, 1.0)]), of(&[fill(64, 1.0)]));
    let all = [
        of(&[fill(64, 1.0)]),
        of(&[fill(128, 1.0)]),
        of(&[fill(64, 2.0)]),
        of(&[fill(64, 0.0)]),
        of(&[fill(64, -0.0)]),
        of(&[fill(64, 1.0), fill(64, 1.0)]),
        of(&[Command::fill(operand(64, &[2, 2]), 1.0f32).unwrap()]),
        of(&[Command::unary(UnaryOp::Exp, operand(0, &[4]), operand(64, &[4])).unwrap()]),
        of(&[Command::unary(UnaryOp::Log, operand(0, &[4]), operand(64, &[4])).unwrap()]),
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[..index] {
            assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
        }
    }
}

#[test]
fn operations_of_one_kind_differ_by_their_parameters() {
    let random = |seed| {
        let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
        Command::random(operand(0, &[4]), normal, seed, 0).unwrap()
    };
    assert_ne!(of(&[random(1)]).0, of(&[random(2)]).0);
    let binary =
        |op| Command::binary(op, operand(0, &[4]), operand(64, &[4]), operand(128, &[4])).unwrap();
    assert_ne!(of(&[binary(BinaryOp::Add)]).0, of(&[binary(BinaryOp::Sub)]).0);
    let matmul = |activation| {
        let (dst, a, b) = (operand(0, &[2, 2]), operand(64, &[2, 2]), operand(128, &[2, 2]));
        Command::matmul(dst, a, b, None, None, 1.0, activation).unwrap()
    };
    let slope = |slope| matmul(Activation::LeakyRelu { slope });
    assert_ne!(of(&[slope(0.1)]).0, of(&[slope(0.2)]).0);
    assert_ne!(of(&[matmul(Activation::Silu)]).0, of(&[matmul(Activation::Tanh)]).0);
}

#[test]
fn resizes_and_paddings_are_told_apart() {
    let resize = |mode, scale| {
        let (mut scales, unit) = ([1.0; MAX_RANK], [(0.0, 1.0); MAX_RANK]);
        scales[0] = scale;
        let params = ResizeParams {
            mode,
            coordinates: CoordinateMode::HalfPixel,
            scales,
            region: unit,
            extrapolation: 0.0,
            exclude_outside: false,
            antialias: false,
            sizes: [1; 8],
        };
        Command::resize(operand(0, &[8]), operand(64, &[4]), params).unwrap()
    };
    let pad = |mode, before| {
        let mut params = PadParams { mode, before: [0; MAX_RANK], after: [0; MAX_RANK] };
        (params.before[0], params.after[0]) = (before, 4 - before);
        Command::pad(operand(0, &[8]), operand(64, &[4]), params).unwrap()
    };
    let all = [
        of(&[resize(ResizeMode::Linear, 2.0)]),
        of(&[resize(ResizeMode::Linear, 2.1)]),
        of(&[resize(ResizeMode::Cubic(-0.5), 2.0)]),
        of(&[resize(ResizeMode::Cubic(-0.75), 2.0)]),
        of(&[resize(ResizeMode::Nearest(NearestRounding::Floor), 2.0)]),
        of(&[resize(ResizeMode::Nearest(NearestRounding::Ceil), 2.0)]),
        of(&[pad(PadMode::Edge, 1)]),
        of(&[pad(PadMode::Edge, 2)]),
        of(&[pad(PadMode::Wrap, 1)]),
        of(&[pad(PadMode::Constant(Scalar::Float(0.0)), 1)]),
        of(&[pad(PadMode::Constant(Scalar::Float(1.0)), 1)]),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| one.0 != other.0), "{index}");
    }
    assert_eq!(all[6], of(&[pad(PadMode::Edge, 1)]));
}

#[test]
fn contents_of_transfers_do_not_count() {
    let upload = |value: u8| {
        let bytes = HostBytes::copy_of(&[value; 16]);
        Command::upload(operand(64, &[4]), bytes).unwrap()
    };
    assert_eq!(of(&[upload(1)]), of(&[upload(2)]));
}

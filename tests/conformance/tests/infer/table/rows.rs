//! What is combined along axes.

use millstream_conformance::ops;
use millstream_core::{Axes, Op, ReduceOp};

use super::{DST, F32, input, row};
use crate::spoil::Good;

pub fn reduce() -> Good {
    let two = Axes::new(&[0, 1]).expect("small axes");
    let beyond = Axes::new(&[1, 7]).expect("small axes");
    row(
        ops::reduce(ReduceOp::ArgMax, &[1]),
        [DST],
        [input("src", F32, &[2, 3], "type size", &["axes"])],
        [
            ("axes", Op::Reduce { op: ReduceOp::ArgMax, axes: two }),
            ("axes", Op::Reduce { op: ReduceOp::Sum, axes: beyond }),
        ],
    )
}

pub fn cumsum() -> Good {
    let op = |axis| Op::CumSum { axis, exclusive: false, reverse: false, product: false };
    let src = input("src", F32, &[2, 3], "type", &["axis"]);
    row(op(1), [DST], [src], [("axis", op(2)), ("axis", op(u8::MAX))])
}

pub fn softmax() -> Good {
    let op = |axis| Op::Softmax { axis, log: false };
    let src = input("src", F32, &[2, 3], "type", &["axis"]);
    row(op(1), [DST], [src], [("axis", op(2)), ("axis", op(u8::MAX))])
}

pub fn layer_norm() -> Good {
    let op =
        |axes, epsilon| Op::LayerNorm { axes, epsilon, weight: true, bias: true, moments: true };
    row(
        op(1, 1e-5),
        [DST, ("mean", DST.1, &[]), ("rstd", DST.1, &[])],
        [
            input("src", F32, &[2, 3], "type", &["axes", "weight"]),
            input("weight", F32, &[3], "type rank size", &[]),
            input("bias", F32, &[3], "type rank size", &[]),
        ],
        [
            ("axes", op(0, 1e-5)),
            ("axes", op(3, 1e-5)),
            ("axes", op(u8::MAX, 1e-5)),
            ("epsilon", op(1, -1.0)),
            ("epsilon", op(1, f32::NAN)),
        ],
    )
}

pub fn rms_norm() -> Good {
    let op = |axes, epsilon| Op::RmsNorm { axes, epsilon, weight: true };
    row(
        op(1, 1e-5),
        [DST],
        [
            input("src", F32, &[2, 3], "type", &["axes", "weight"]),
            input("weight", F32, &[3], "type rank size", &[]),
        ],
        [("axes", op(0, 1e-5)), ("axes", op(3, 1e-5)), ("epsilon", op(1, -1.0))],
    )
}

pub fn group_norm() -> Good {
    let op = |groups, epsilon| Op::GroupNorm { groups, epsilon, weight: true, bias: true };
    row(
        op(2, 1e-5),
        [DST],
        [
            input("src", F32, &[2, 4, 3], "type rank", &["groups", "weight"]),
            input("weight", F32, &[4], "type rank size", &[]),
            input("bias", F32, &[4], "type rank size", &[]),
        ],
        [("groups", op(0, 1e-5)), ("groups", op(3, 1e-5)), ("epsilon", op(2, f32::NAN))],
    )
}

pub fn top_k() -> Good {
    let op = |axis, k| Op::TopK { axis, k, largest: true, sorted: true };
    row(
        op(1, 2),
        [("values", "type rank size", &[]), ("indices", "type rank size", &[])],
        [input("src", F32, &[4, 3], "type", &["axis", "k"])],
        [("axis", op(2, 2)), ("k", op(1, 4)), ("k", op(1, usize::MAX))],
    )
}

pub fn dft() -> Good {
    let op = |axis, length| Op::Dft { axis, inverse: false, onesided: false, length };
    row(
        op(1, 6),
        [DST],
        [input("src", F32, &[2, 6, 2], "type rank size", &["axis"])],
        [
            ("axis", op(2, 6)),
            ("axis", op(u8::MAX, 6)),
            ("length", op(1, 0)),
            ("src", op(1, 7)),
            ("src", op(1, usize::MAX)),
        ],
    )
}

pub fn stft() -> Good {
    let op = |frame, hop| Op::Stft { frame, hop, onesided: true, window: true };
    row(
        op(4, 2),
        [DST],
        [
            input("signal", F32, &[2, 9, 1], "type rank size", &["frame", "window"]),
            input("window", F32, &[4], "type rank size", &[]),
        ],
        [("frame", op(0, 2)), ("frame", op(10, 2)), ("hop", op(4, 0))],
    )
}

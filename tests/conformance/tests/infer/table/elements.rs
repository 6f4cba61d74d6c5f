//! Functions of single elements, conversions, and what comes from nowhere.

use millstream_conformance::ops;
use millstream_core::{
    BinaryOp, Chain, ChainStep, ChainTerm, DType, Distribution, DynamicRange, HostBytes, Op,
    Scalar, TensorSpec, UnaryOp,
};

use super::{DST, F32, I64, U8, input, row};
use crate::spoil::Good;

fn spec(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::new(dtype, shape).expect("a small shape")
}

pub fn fill() -> Good {
    row(ops::fill(Scalar::Int(1), F32, &[2, 3]), [DST], [], [])
}

pub fn iota() -> Good {
    let op = |axis, dtype| ops::iota(axis, Scalar::Int(1), Scalar::Int(2), dtype, &[2, 3]);
    row(
        op(1, F32),
        [DST],
        [],
        [("axis", op(2, F32)), ("axis", op(255, F32)), ("dst", op(1, DType::Bool))],
    )
}

pub fn copy() -> Good {
    row(
        Op::Copy { dtype: F32, saturate: true },
        [("dst", "type", &["src"])],
        [input("src", F32, &[2, 3], "", &[])],
        [],
    )
}

pub fn unary() -> Good {
    row(
        Op::Unary { op: UnaryOp::Exp },
        [("dst", "type", &["src"])],
        [input("src", F32, &[2, 3], "type", &[])],
        [],
    )
}

pub fn binary() -> Good {
    row(
        Op::Binary { op: BinaryOp::Add },
        [("dst", "type", &["a"])],
        [input("a", F32, &[2, 3], "type", &["b"]), input("b", F32, &[2, 3], "type rank size", &[])],
        [],
    )
}

pub fn choose() -> Good {
    row(
        Op::Where,
        [("dst", "type", &["condition"])],
        [
            input("condition", DType::Bool, &[2, 3], "type", &["a"]),
            input("a", F32, &[2, 3], "rank size", &["b"]),
            input("b", F32, &[2, 3], "type rank size", &[]),
        ],
        [],
    )
}

pub fn clip() -> Good {
    let clip = |min, max| Op::Clip { min, max };
    let (nan, half) = (Some(Scalar::Float(f64::NAN)), Some(Scalar::Float(0.5)));
    row(
        clip(Some(Scalar::Int(-1)), Some(Scalar::Int(1))),
        [("dst", "type", &["src"])],
        [input("src", DType::I32, &[2, 3], "type", &[])],
        [
            ("min", clip(nan, None)),
            ("max", clip(None, nan)),
            ("min", clip(half, None)),
            ("max", clip(None, half)),
        ],
    )
}

pub fn chain() -> Good {
    let [x, condition] = [ChainTerm::Input(0), ChainTerm::Input(1)];
    let steps = [
        ChainStep::unary(UnaryOp::Relu, x),
        ChainStep::where_(condition, x, ChainTerm::Step(0)),
        ChainStep::cast(DType::F16, ChainTerm::Step(1)),
    ];
    let chain = Chain::new(&[F32, DType::Bool], &steps).expect("a chain that fits");
    row(
        Op::Chain { chain },
        [("dst", "type", &["input_0"])],
        [
            input("input_0", F32, &[2, 3], "type", &["input_1"]),
            input("input_1", DType::Bool, &[2, 3], "type rank size", &[]),
        ],
        [],
    )
}

pub fn quantize() -> Good {
    let op = |axis, dtype| Op::Quantize { axis, dtype, zero: true, block: None };
    let blocks = |axis, block| Op::Quantize { axis, dtype: U8, zero: true, block };
    row(
        op(Some(1), U8),
        [DST],
        [
            input("src", F32, &[2, 3], "type", &["axis", "scale"]),
            input("scale", F32, &[3], "type rank size", &[]),
            input("zero", U8, &[3], "type rank size", &[]),
        ],
        [
            ("axis", op(Some(2), U8)),
            ("dtype", op(Some(1), DType::I32)),
            ("axis", blocks(None, Some(2))),
            ("block", blocks(Some(1), Some(0))),
        ],
    )
}

pub fn dequantize() -> Good {
    let op = |axis, dtype| Op::Dequantize { axis, dtype, zero: true, block: None };
    row(
        op(None, DType::F16),
        [DST],
        [
            input("src", U8, &[2, 3], "type", &["zero"]),
            input("scale", F32, &[], "type rank", &[]),
            input("zero", U8, &[], "type rank", &[]),
        ],
        [("axis", op(Some(2), DType::F16)), ("dtype", op(None, DType::I32))],
    )
}

pub fn dynamic_quantize() -> Good {
    let op = |range, dtype| Op::DynamicQuantize { range, dtype };
    let parts = |axis, parts| op(DynamicRange::Parts { axis, parts }, U8);
    row(
        op(DynamicRange::Rows, U8),
        [
            ("dst", "type rank size", &[]),
            ("scale", "type rank size", &[]),
            ("zero", "type rank size", &[]),
        ],
        [input("src", F32, &[2, 3], "type rank", &[])],
        [
            ("dtype", op(DynamicRange::Rows, DType::I32)),
            ("axis", parts(2, 1)),
            ("range", parts(1, 2)),
            ("range", parts(1, 0)),
        ],
    )
}

pub fn random() -> Good {
    let op =
        |low, dtype| ops::random(Distribution::Uniform { low, high: 1.0 }, (1, 2), dtype, &[2, 3]);
    let wrong = [("distribution", op(f32::NEG_INFINITY, F32)), ("dst", op(0.0, I64))];
    row(op(0.0, F32), [DST], [], wrong)
}

pub fn upload() -> Good {
    let op = |bytes| Op::Upload { source: HostBytes::zeroed(bytes), spec: spec(F32, &[2, 3]) };
    row(op(24), [DST], [], [("source", op(23)), ("source", op(0))])
}

pub fn download() -> Good {
    let op = |bytes| Op::Download { target: HostBytes::zeroed(bytes) };
    let src = input("src", F32, &[2, 3], "", &["target"]);
    row(op(24), [], [src], [("target", op(25)), ("target", op(0))])
}

pub fn timestamp() -> Good {
    row(Op::Timestamp, [("dst", "type rank size", &[])], [], [])
}

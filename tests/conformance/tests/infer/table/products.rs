//! Products, attention and recurrent layers.

use millstream_conformance::ops;
use millstream_core::{
    Activation, AttentionParams, DType, Op, RecurrentCell, RecurrentDirection, RecurrentParams,
    RecurrentVariant, Rescale,
};

use super::{DST, F32, I64, U8, input, row, sums};
use crate::spoil::Good;

fn lstm() -> RecurrentParams {
    RecurrentParams {
        cell: RecurrentCell::Lstm,
        direction: RecurrentDirection::Both,
        bias: true,
        initial_hidden: true,
        initial_cell: true,
        lengths: true,
        variant: RecurrentVariant {
            peepholes: true,
            quantized: true,
            zeros: true,
            ..RecurrentVariant::default()
        },
    }
}

pub fn matmul() -> Good {
    row(
        Op::MatMul { epilogue: sums() },
        [("dst", "type rank size", &["a"])],
        [
            input("a", F32, &[2, 3, 4], "type rank", &["b", "residual", "scale"]),
            input("b", F32, &[4, 5], "type rank size", &["bias"]),
            input("bias", F32, &[5], "type rank size", &[]),
            input("residual", F32, &[2, 3, 5], "type rank size", &[]),
        ],
        [],
    )
}

pub fn pack_weights() -> Good {
    row(
        Op::PackWeights { bytes: 100 },
        [("packed", "type rank size", &[])],
        [input("weights", F32, &[4, 5], "type rank", &[])],
        [],
    )
}

pub fn matmul_packed() -> Good {
    row(
        Op::MatMulPacked { columns: 5, epilogue: sums() },
        [("dst", "type rank size", &["a"])],
        [
            input("a", F32, &[2, 3, 4], "type rank", &["bias", "residual"]),
            input("packed", U8, &[100], "type rank", &[]),
            input("bias", F32, &[5], "type rank size", &[]),
            input("residual", F32, &[2, 3, 5], "type rank size", &[]),
        ],
        [],
    )
}

pub fn matmul_blocks() -> Good {
    let op = |bits, block| Op::MatMulBlocks { bits, block, zeros: true, epilogue: sums() };
    row(
        op(4, 32),
        [("dst", "type rank size", &["a"])],
        [
            input("a", F32, &[2, 3, 40], "type rank", &["weights", "scales", "residual"]),
            input("weights", U8, &[5, 2, 16], "type rank size", &["scales"]),
            input("scales", F32, &[5, 2], "type rank size", &[]),
            input("zeros", U8, &[5, 1], "type rank size", &[]),
            input("bias", F32, &[5], "type rank size", &[]),
            input("residual", F32, &[2, 3, 5], "type rank size", &[]),
        ],
        [("bits", op(3, 32)), ("block", op(4, 8)), ("block", op(4, 48)), ("block", op(4, 512))],
    )
}

pub fn matmul_integer() -> Good {
    let op = |dtype| {
        let (bias, residual, zero) = (true, true, false);
        let rescale = Rescale { dtype, bias, residual, activation: Activation::Gelu, zero };
        Op::MatMulInteger { a_zero: true, b_zero: true, rescale: Some(rescale) }
    };
    row(
        op(F32),
        [("dst", "type rank size", &["a"])],
        [
            input("a", U8, &[2, 3, 4], "type rank", &["b", "a_zero", "residual"]),
            input("b", DType::I8, &[4, 5], "type rank size", &["b_zero"]),
            input("a_zero", U8, &[3], "type rank size", &[]),
            input("b_zero", DType::I8, &[5], "type rank size", &[]),
            input("a_scale", F32, &[3], "type rank size", &[]),
            input("b_scale", F32, &[5], "type rank size", &[]),
            input("bias", DType::I32, &[5], "type rank size", &[]),
            input("residual", F32, &[2, 3, 5], "type rank size", &[]),
        ],
        [("dtype", op(DType::I32)), ("dtype", op(DType::F64))],
    )
}

pub fn attention() -> Good {
    let new = |softcap| {
        let params = AttentionParams { mask: true, lengths: true, ..AttentionParams::new(0.5) };
        AttentionParams { softcap, ..params }
    };
    let op = |params| Op::Attention { params };
    row(
        op(new(Some(2.0))),
        [DST],
        [
            input("query", F32, &[2, 4, 3, 5], "type rank", &["key", "mask"]),
            input("key", F32, &[2, 2, 6, 5], "type rank size", &["value"]),
            input("value", F32, &[2, 2, 6, 7], "type rank size", &[]),
            input("mask", F32, &[3, 6], "type rank size", &[]),
            input("lengths", I64, &[2], "type rank size", &[]),
        ],
        [
            ("scale", op(AttentionParams { scale: f32::INFINITY, ..new(None) })),
            ("softcap", op(new(Some(0.0)))),
            ("softcap", op(new(Some(f32::INFINITY)))),
        ],
    )
}

pub fn recurrent() -> Good {
    let state = [2, 3, 5];
    let of = ops::recurrent;
    let clipped = |clip| {
        let variant = RecurrentVariant { clip: Some(clip), ..lstm().variant };
        RecurrentParams { variant, ..lstm() }
    };
    row(
        ops::recurrent(lstm()),
        [
            ("sequence", "type rank size", &[]),
            ("hidden", "type rank size", &[]),
            ("cell", "type rank size", &[]),
        ],
        [
            input("src", F32, &[4, 3, 6], "type rank", &["w_input", "hidden_0"]),
            input("w_input", U8, &[2, 20, 6], "type rank size", &["w_hidden"]),
            input("w_hidden", U8, &[2, 20, 5], "type rank size", &["w_input"]),
            input("bias", F32, &[2, 2, 20], "type rank size", &[]),
            input("hidden_0", F32, &state, "type rank size", &[]),
            input("cell_0", F32, &state, "type rank size", &[]),
            input("lengths", I64, &[3], "type rank size", &[]),
            input("peepholes", F32, &[2, 15], "type rank size", &[]),
            input("input_scale", F32, &[2, 20], "type rank size", &[]),
            input("hidden_scale", F32, &[2, 20], "type rank size", &[]),
            input("input_zero", U8, &[2, 20], "type rank size", &[]),
            input("hidden_zero", U8, &[2, 20], "type rank size", &[]),
        ],
        [
            ("initial_cell", of(RecurrentParams { cell: RecurrentCell::RnnTanh, ..lstm() })),
            ("clip", of(clipped(0.0))),
            ("clip", of(clipped(f32::NAN))),
        ],
    )
}

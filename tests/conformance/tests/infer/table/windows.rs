//! Convolution, pooling, interpolation and padding.

use millstream_conformance::ops;
use millstream_core::{
    Activation, ConvParams, CoordinateMode, DType, DeformConvParams, Epilogue, MAX_RANK,
    NearestRounding, Op, PadMode, PadParams, PoolKind, PoolOrder, PoolParams, Rescale, ResizeMode,
    ResizeParams,
};

use super::{DST, F32, U8, input, row, sums};
use crate::spoil::Good;

fn conv_params() -> ConvParams {
    ConvParams { groups: 2, pad_before: [1, 0, 0], ..ConvParams::new(1) }
}

/// What every convolution says of its parameters.
fn wrong_windows(op: impl Fn(ConvParams) -> Op) -> [(&'static str, Op); 6] {
    let good = conv_params();
    [
        ("spatial", op(ConvParams { spatial: 0, ..good })),
        ("spatial", op(ConvParams { spatial: 4, ..good })),
        ("stride", op(ConvParams { stride: [0, 1, 1], ..good })),
        ("dilation", op(ConvParams { dilation: [0, 1, 1], ..good })),
        ("groups", op(ConvParams { groups: 0, ..good })),
        ("groups", op(ConvParams { groups: 3, ..good })),
    ]
}

fn pool_params() -> PoolParams {
    PoolParams {
        kind: PoolKind::Max,
        spatial: 1,
        kernel: [2, 1, 1],
        stride: [2, 1, 1],
        pad_before: [0; 3],
        pad_after: [0; 3],
        dilation: [1; 3],
        ceil: false,
        indices: true,
        order: PoolOrder::Channel,
    }
}

fn resize_params() -> ResizeParams {
    let (mut scales, mut sizes) = ([1.0; MAX_RANK], [1; MAX_RANK]);
    (scales[1], sizes[0], sizes[1]) = (2.0, 3, 8);
    ResizeParams {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        scales,
        sizes,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
    }
}

pub fn conv() -> Good {
    let op = |params| ops::conv(false, params, sums());
    row(
        op(conv_params()),
        [DST],
        [
            input("src", F32, &[2, 4, 7], "type rank size", &["groups", "residual", "weight"]),
            input("weight", F32, &[6, 2, 3], "type rank size", &["bias", "groups", "residual"]),
            input("bias", F32, &[6], "type rank size", &[]),
            input("residual", F32, &[2, 6, 6], "type rank size", &[]),
        ],
        wrong_windows(op),
    )
}

pub fn conv_transpose() -> Good {
    let epilogue = Epilogue { residual: false, ..sums() };
    let op = |params| ops::conv(true, params, epilogue);
    row(
        op(conv_params()),
        [DST],
        [
            input("src", F32, &[2, 4, 7], "type rank", &["groups", "weight"]),
            input("weight", F32, &[4, 3, 3], "type rank size", &["bias"]),
            input("bias", F32, &[6], "type rank size", &[]),
        ],
        wrong_windows(op),
    )
}

pub fn deform_conv() -> Good {
    let conv = ConvParams { groups: 2, pad_before: [1, 0, 0], ..ConvParams::new(2) };
    let op = |conv, offset_groups| {
        let params = DeformConvParams { conv, offset_groups, bias: true, mask: true };
        Op::DeformConv { params: Box::new(params) }
    };
    row(
        op(conv, 2),
        [DST],
        [
            input("src", F32, &[2, 4, 5, 6], "type rank size", &["groups", "weight", "offset"]),
            input("weight", F32, &[6, 2, 3, 2], "type rank size", &["groups", "offset", "bias"]),
            input("offset", F32, &[2, 24, 4, 5], "type rank size", &[]),
            input("bias", F32, &[6], "type rank size", &[]),
            input("mask", F32, &[2, 12, 4, 5], "type rank size", &[]),
        ],
        [
            ("spatial", op(ConvParams { spatial: 1, ..conv }, 2)),
            ("spatial", op(ConvParams { spatial: 3, ..conv }, 2)),
            ("stride", op(ConvParams { stride: [1, 0, 1], ..conv }, 2)),
            ("dilation", op(ConvParams { dilation: [0, 1, 1], ..conv }, 2)),
            ("groups", op(ConvParams { groups: 0, ..conv }, 2)),
            ("groups", op(ConvParams { groups: 3, ..conv }, 2)),
            ("offset_groups", op(conv, 0)),
            ("offset_groups", op(conv, 3)),
        ],
    )
}

pub fn conv_integer() -> Good {
    let rescale =
        Rescale { dtype: U8, bias: true, residual: true, activation: Activation::None, zero: true };
    let op = |params| Op::ConvInteger {
        params: Box::new(params),
        src_zero: true,
        weight_zero: true,
        rescale: Some(rescale),
    };
    row(
        op(conv_params()),
        [DST],
        [
            input(
                "src",
                U8,
                &[2, 4, 7],
                "type rank size",
                &["groups", "src_zero", "weight", "residual"],
            ),
            input(
                "weight",
                DType::I8,
                &[6, 2, 3],
                "type rank size",
                &["groups", "weight_zero", "residual"],
            ),
            input("src_zero", U8, &[], "type rank", &[]),
            input("weight_zero", DType::I8, &[6], "type rank size", &[]),
            input("src_scale", F32, &[], "type rank", &[]),
            input("weight_scale", F32, &[6], "type rank size", &[]),
            input("bias", F32, &[6], "type rank size", &[]),
            input("residual", F32, &[2, 6, 6], "type rank size", &[]),
            input("dst_scale", F32, &[], "type rank", &[]),
            input("dst_zero", U8, &[], "type rank", &[]),
        ],
        wrong_windows(op),
    )
}

pub fn pool() -> Good {
    let (good, op) = (pool_params(), ops::pool);
    let average = PoolKind::Average { include_padding: false };
    row(
        op(good),
        [DST, ("indices", "type rank size", &[])],
        [input("src", F32, &[2, 3, 6], "type rank size", &[])],
        [
            ("spatial", op(PoolParams { spatial: 0, ..good })),
            ("spatial", op(PoolParams { spatial: 4, ..good })),
            ("kernel", op(PoolParams { kernel: [0, 1, 1], ..good })),
            ("stride", op(PoolParams { stride: [0, 1, 1], ..good })),
            ("dilation", op(PoolParams { dilation: [0, 1, 1], ..good })),
            ("indices", op(PoolParams { kind: average, ..good })),
        ],
    )
}

pub fn resize() -> Good {
    let (good, op) = (resize_params(), ops::resize);
    let crop = CoordinateMode::CropAndResize;
    let with = |change: fn(&mut ResizeParams)| {
        let mut params = good;
        change(&mut params);
        op(params)
    };
    row(
        op(good),
        [DST],
        [input("src", F32, &[3, 4], "type size", &["sizes"])],
        [
            ("mode", op(ResizeParams { mode: ResizeMode::Cubic(f32::NAN), ..good })),
            ("scales", with(|params| params.scales[0] = 0.0)),
            ("scales", with(|params| params.scales[1] = f64::NAN)),
            ("sizes", with(|params| params.sizes[1] = 10)),
            ("sizes", with(|params| params.sizes[2] = 2)),
            (
                "region",
                op(ResizeParams {
                    coordinates: crop,
                    mode: ResizeMode::Nearest(NearestRounding::Floor),
                    region: [(f32::NAN, 1.0); MAX_RANK],
                    ..good
                }),
            ),
        ],
    )
}

pub fn pad() -> Good {
    let mut good = PadParams { mode: PadMode::Edge, before: [0; MAX_RANK], after: [0; MAX_RANK] };
    (good.before[0], good.after[1]) = (1, -2);
    let (mut beyond, mut crops, mut all) = (good, good, good);
    (beyond.after[2], crops.before[1]) = (1, i64::MIN);
    // Nothing is left to continue.
    (all.before[1], all.after[1]) = (-3, 2);
    row(
        ops::pad(good),
        [DST],
        [input("src", F32, &[4, 3], "size", &["widths"])],
        [("widths", ops::pad(beyond)), ("src", ops::pad(crops)), ("src", ops::pad(all))],
    )
}

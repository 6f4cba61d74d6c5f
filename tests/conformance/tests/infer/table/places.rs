//! Reading and writing by index.

use millstream_conformance::ops;
use millstream_core::{GridMode, GridPadding, Op, RoiAlignParams, RoiMode, ScatterReduction};

use super::{DST, F32, I64, input, row};
use crate::spoil::Good;

pub fn gather() -> Good {
    let op = |axis| Op::Gather { axis };
    let src = input("src", F32, &[4, 3], "", &["axis"]);
    let indices = input("indices", I64, &[2], "type", &["dst"]);
    row(op(1), [DST], [src, indices], [("axis", op(2)), ("axis", op(u8::MAX))])
}

pub fn embedding() -> Good {
    let table = input("table", F32, &[4, 3], "rank", &[]);
    row(Op::Embedding, [DST], [table, input("ids", I64, &[2], "type", &["dst"])], [])
}

pub fn gather_elements() -> Good {
    let op = |axis| Op::GatherElements { axis };
    let src = input("src", F32, &[4, 3], "", &["axis", "indices"]);
    let indices = input("indices", I64, &[4, 2], "type rank size", &[]);
    row(op(1), [DST], [src, indices], [("axis", op(2)), ("axis", op(u8::MAX))])
}

pub fn gather_nd() -> Good {
    let op = |batch_axes| Op::GatherNd { batch_axes };
    let src = input("src", F32, &[2, 3, 4], "", &["indices"]);
    let indices = input("indices", I64, &[2, 1], "type rank size", &["batch_axes"]);
    row(op(1), [DST], [src, indices], [("batch_axes", op(2)), ("indices", op(u8::MAX))])
}

pub fn scatter_elements() -> Good {
    let op = |axis| Op::ScatterElements { axis, reduction: ScatterReduction::Add };
    row(
        op(1),
        [DST],
        [
            input("src", F32, &[4, 3], "type", &["axis", "indices", "updates"]),
            input("indices", I64, &[4, 2], "type rank size", &["updates"]),
            input("updates", F32, &[4, 2], "type rank size", &[]),
        ],
        [("axis", op(2)), ("axis", op(u8::MAX))],
    )
}

pub fn scatter_nd() -> Good {
    row(
        Op::ScatterNd { reduction: ScatterReduction::Add },
        [DST],
        [
            input("src", F32, &[4, 3], "type", &["indices", "updates"]),
            input("indices", I64, &[2, 1], "type rank size", &["updates"]),
            input("updates", F32, &[2, 3], "type rank size", &[]),
        ],
        [],
    )
}

pub fn cache_write() -> Good {
    let op = |axis| Op::CacheWrite { axis, circular: false, positions: true };
    row(
        op(2),
        [DST],
        [
            input("cache", F32, &[2, 3, 5, 4], "", &["axis", "update"]),
            input("update", F32, &[2, 3, 2, 4], "type rank size", &[]),
            input("positions", I64, &[2], "type rank size", &[]),
        ],
        [("axis", op(0)), ("axis", op(4)), ("axis", op(u8::MAX))],
    )
}

pub fn rope() -> Good {
    row(
        Op::Rope { interleaved: false, positions: true },
        [DST],
        [
            input("src", F32, &[2, 3, 5, 6], "type rank", &["cos", "positions"]),
            input("cos", F32, &[7, 3], "type rank size", &["sin"]),
            input("sin", F32, &[7, 3], "type rank size", &[]),
            input("positions", I64, &[2, 5], "type rank size", &[]),
        ],
        [],
    )
}

pub fn reverse() -> Good {
    row(
        ops::reverse(&[0], Some(1)),
        [DST],
        [
            input("src", F32, &[4, 3], "", &["axes", "batch_axis", "lengths"]),
            input("lengths", I64, &[3], "type rank size", &[]),
        ],
        [
            ("axes", ops::reverse(&[0, 2], Some(1))),
            ("axes", ops::reverse(&[], Some(1))),
            ("batch_axis", ops::reverse(&[0], Some(0))),
            ("batch_axis", ops::reverse(&[0], Some(2))),
            ("batch_axis", ops::reverse(&[0], Some(255))),
        ],
    )
}

pub fn grid_sample() -> Good {
    let (mode, padding) = (GridMode::Linear, GridPadding::Zeros);
    row(
        Op::GridSample { mode, padding, align_corners: false },
        [DST],
        [
            input("src", F32, &[2, 3, 4, 5], "type rank size", &["grid"]),
            input("grid", F32, &[2, 6, 7, 2], "type rank size", &[]),
        ],
        [],
    )
}

pub fn roi_align() -> Good {
    let op = |size, samples, scale| {
        let (mode, half_pixel) = (RoiMode::Mean, true);
        Op::RoiAlign { params: RoiAlignParams { size, samples, scale, mode, half_pixel } }
    };
    row(
        op([2, 3], 0, 1.0),
        [DST],
        [
            input("src", F32, &[2, 3, 4, 5], "type rank size", &["rois"]),
            input("rois", F32, &[6, 4], "type rank size", &["batches"]),
            input("batches", I64, &[6], "type rank size", &[]),
        ],
        [
            ("size", op([0, 3], 0, 1.0)),
            ("size", op([2, 0], 0, 1.0)),
            ("samples", op([2, 3], u32::MAX, 1.0)),
            ("scale", op([2, 3], 0, f32::NAN)),
            ("scale", op([2, 3], 0, f32::INFINITY)),
        ],
    )
}

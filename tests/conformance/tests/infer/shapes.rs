//! Shapes that were worked out by hand, since those of the cases are inferred.

use millstream_conformance::ops;
use millstream_core::{
    ConvParams, DType, Epilogue, Layout, MAX_RANK, Op, PadMode, PadParams, PoolKind, PoolOrder,
    PoolParams, RecurrentCell, RecurrentDirection, RecurrentParams, RecurrentVariant, ReduceOp,
};

/// Compares the shape of the first output; all inputs are `f32`, but indices, which come second.
fn expect(op: Op, inputs: &[&[usize]], output: &[usize]) {
    let indexed = matches!(op, Op::Gather { .. } | Op::GatherNd { .. } | Op::GatherElements { .. });
    let layout = |(place, shape): (usize, &&[usize])| {
        let dtype = if indexed && place == 1 { DType::I64 } else { DType::F32 };
        Layout::contiguous(dtype, shape).expect("a small shape")
    };
    let layouts: Vec<Layout> = inputs.iter().enumerate().map(layout).collect();
    let layouts: Vec<&Layout> = layouts.iter().collect();
    let made = op.infer(&layouts).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made[0].shape(), output, "{op:?} of {inputs:?}");
}

/// One axis: stride, padding before and after, dilation, and what is added to a transposed one.
fn conv(transposed: bool, [stride, before, after, dilation, extra]: [u32; 5]) -> Op {
    let params = ConvParams {
        stride: [stride, 1, 1],
        pad_before: [before, 0, 0],
        pad_after: [after, 0, 0],
        dilation: [dilation, 1, 1],
        output_padding: [extra, 0, 0],
        ..ConvParams::new(1)
    };
    ops::conv(transposed, params, Epilogue::default())
}

/// One axis: kernel, stride, dilation, and padding before and after.
fn pool([kernel, stride, dilation, before, after]: [u32; 5], ceil: bool) -> Op {
    ops::pool(PoolParams {
        kind: PoolKind::Max,
        spatial: 1,
        kernel: [kernel, 1, 1],
        stride: [stride, 1, 1],
        pad_before: [before, 0, 0],
        pad_after: [after, 0, 0],
        dilation: [dilation, 1, 1],
        ceil,
        indices: false,
        order: PoolOrder::Channel,
    })
}

pub fn check() {
    for (steps, from, kernel, to) in [
        ([1, 0, 0, 1, 0], 9, 3, 7),
        ([1, 1, 1, 1, 0], 9, 3, 9),
        ([2, 0, 1, 1, 0], 11, 2, 6),
        ([3, 2, 0, 2, 0], 17, 3, 5),
        ([1, 2, 2, 1, 0], 1, 5, 1),
    ] {
        expect(conv(false, steps), &[&[2, 3, from], &[5, 3, kernel]], &[2, 5, to]);
    }
    for (steps, from, kernel, to) in [
        ([1, 0, 0, 1, 0], 7, 3, 9),
        ([2, 1, 0, 1, 1], 7, 3, 15),
        ([4, 0, 0, 1, 3], 5, 2, 21),
        ([2, 1, 2, 3, 2], 6, 3, 16),
    ] {
        expect(conv(true, steps), &[&[2, 3, from], &[3, 5, kernel]], &[2, 5, to]);
    }
    for (window, from, floor, ceil) in [
        ([2, 1, 1, 0, 0], 7, 6, 6),
        ([2, 2, 1, 0, 0], 7, 3, 4),
        ([3, 2, 2, 1, 1], 9, 4, 4),
        ([4, 1, 1, 1, 1], 300, 299, 299),
        // One more would begin in the padding behind.
        ([2, 3, 1, 1, 1], 5, 2, 2),
    ] {
        expect(pool(window, false), &[&[2, 3, from]], &[2, 3, floor]);
        expect(pool(window, true), &[&[2, 3, from]], &[2, 3, ceil]);
    }
    expect(ops::reduce(ReduceOp::Sum, &[0, 2]), &[&[3, 2, 4]], &[1, 2, 1]);
    expect(Op::Gather { axis: 1 }, &[&[2, 4, 3], &[5, 6]], &[2, 5, 6, 3]);
    expect(Op::GatherNd { batch_axes: 1 }, &[&[2, 3, 4, 7], &[2, 5, 2]], &[2, 5, 7]);
    expect(Op::GatherElements { axis: 0 }, &[&[4, 5], &[9, 3]], &[9, 3]);
    let half = |inverse| Op::Dft { axis: 0, inverse, onesided: true, length: 7 };
    expect(half(false), &[&[7, 1]], &[4, 2]);
    expect(half(true), &[&[4, 2]], &[7, 1]);
    let frames = |onesided| Op::Stft { frame: 11, hop: 20, onesided, window: false };
    expect(frames(true), &[&[3, 50, 1]], &[3, 2, 6, 2]);
    expect(frames(false), &[&[3, 50, 2]], &[3, 2, 11, 2]);
    let mut pad = PadParams { mode: PadMode::Reflect, before: [0; MAX_RANK], after: [0; MAX_RANK] };
    (pad.before[0], pad.after[0], pad.after[1]) = (-1, 4, 2);
    expect(ops::pad(pad), &[&[5, 3]], &[8, 5]);
    let attention = ops::attention(1.0, false, false);
    expect(attention, &[&[2, 4, 5, 3], &[2, 2, 7, 3], &[2, 2, 7, 6]], &[2, 4, 5, 6]);
    let recurrent = ops::recurrent(RecurrentParams {
        cell: RecurrentCell::Gru { linear_before_reset: true },
        variant: RecurrentVariant::default(),
        direction: RecurrentDirection::Both,
        bias: false,
        initial_hidden: false,
        initial_cell: false,
        lengths: false,
    });
    expect(recurrent, &[&[5, 3, 4], &[2, 18, 4], &[2, 18, 6]], &[5, 2, 3, 6]);
}

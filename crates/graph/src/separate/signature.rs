//! Which axes of a node's inputs and outputs are the same index.
//!
//! A node computes each element of an output from elements of its inputs. An axis gets a number if the elements at index `i` of
//! it are computed from elements at index `i` of the axes with the same number, in the same way for every `i`, and from nothing
//! else. Other axes get none. Where an input broadcasts along an axis, its size there is 1.

use millstream_core::{CoordinateMode, DynamicRange, Op, PoolOrder, Rescale, TensorSpec};
use smallvec::SmallVec;

use crate::graph::NodeOp;
use crate::view::View;

/// A number per axis, or none.
pub(super) type Axes = SmallVec<[Option<u8>; 6]>;

/// The numbers of the axes of all inputs and outputs.
#[derive(Debug)]
pub(super) struct Signature {
    pub inputs: SmallVec<[Axes; 4]>,
    pub outputs: SmallVec<[Axes; 1]>,
}

/// One number for each axis.
fn numbered(rank: usize) -> Axes {
    (0..rank).map(|axis| Some(axis as u8)).collect()
}

/// The numbers that an input has which broadcasts to these axes: they are aligned at the end.
fn aligned(to: &[Option<u8>], rank: usize) -> Axes {
    let start = to.len().saturating_sub(rank);
    std::iter::repeat_n(None, rank.saturating_sub(to.len()))
        .chain(to[start..].iter().copied())
        .collect()
}

/// No number on any axis.
fn mixed(rank: usize) -> Axes {
    SmallVec::from_elem(None, rank)
}

/// The first axis has a number, the others are combined.
fn first(rank: usize) -> Axes {
    (0..rank).map(|axis| (axis == 0).then_some(0)).collect()
}

/// One number for each axis but these.
fn but(rank: usize, is_mixed: impl Fn(usize) -> bool) -> Axes {
    (0..rank).map(|axis| (!is_mixed(axis)).then_some(axis as u8)).collect()
}

/// The same axes on all inputs and outputs.
fn same(axes: &Axes, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Signature {
    Signature {
        inputs: inputs.iter().map(|input| aligned(axes, input.shape().len())).collect(),
        outputs: outputs.iter().map(|output| aligned(axes, output.shape().len())).collect(),
    }
}

/// No axis of any operand has a number.
fn inseparable(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Signature {
    let all = |specs: &[TensorSpec]| specs.iter().map(|spec| mixed(spec.shape().len())).collect();
    Signature {
        inputs: all(inputs),
        outputs: outputs.iter().map(|spec| mixed(spec.shape().len())).collect(),
    }
}

/// What each input has, by whether its first axis is the batch.
fn batches(of: &[bool], inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Signature {
    let ranks =
        |specs: &[TensorSpec]| specs.iter().map(|spec| spec.shape().len()).collect::<Vec<_>>();
    let has = |at: usize| of.get(at).copied().unwrap_or(false);
    let inputs = ranks(inputs).into_iter().enumerate();
    Signature {
        inputs: inputs.map(|(at, rank)| if has(at) { first(rank) } else { mixed(rank) }).collect(),
        outputs: ranks(outputs).into_iter().map(first).collect(),
    }
}

/// The signature of a node. A reshape has none: its axes are not those of its source.
pub(super) fn of(op: &NodeOp, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Option<Signature> {
    let rank = |at: usize| inputs.get(at).map_or(0, |input| input.shape().len());
    let made = outputs.first().map_or(0, |output| output.shape().len());
    Some(match op {
        NodeOp::View(View::Reshape(_)) => return None,
        NodeOp::View(View::Permute(order)) => Signature {
            inputs: SmallVec::from_iter([numbered(rank(0))]),
            outputs: SmallVec::from_iter([order.iter().map(|&axis| Some(axis as u8)).collect()]),
        },
        NodeOp::View(View::Slice { axis, .. }) => {
            same(&but(made, |other| other == *axis), inputs, outputs)
        }
        NodeOp::View(View::Broadcast(_) | View::Bits(_)) => same(&numbered(made), inputs, outputs),
        NodeOp::Concat { axis } => same(&but(made, |other| other == *axis), inputs, outputs),
        NodeOp::Op(op) => of_op(op, inputs, outputs, made),
    })
}

fn of_op(op: &Op, inputs: &[TensorSpec], outputs: &[TensorSpec], made: usize) -> Signature {
    let rank = |at: usize| inputs.get(at).map_or(0, |input| input.shape().len());
    match op {
        // Nothing is read, or nothing of the result has an axis of its inputs.
        Op::Fill { .. }
        | Op::Iota { .. }
        | Op::Random { .. }
        | Op::Upload { .. }
        | Op::Download { .. }
        | Op::Timestamp
        | Op::PackWeights { .. }
        | Op::NonZero
        | Op::Compress { .. }
        | Op::Unique { .. }
        | Op::NonMaxSuppression { .. } => inseparable(inputs, outputs),
        Op::Copy { .. }
        | Op::Unary { .. }
        | Op::Binary { .. }
        | Op::Where
        | Op::Clip { .. }
        | Op::Chain { .. } => same(&numbered(made), inputs, outputs),
        Op::Reduce { axes, .. } => same(&but(made, |axis| axes.contains(axis)), inputs, outputs),
        Op::CumSum { axis, .. } | Op::Softmax { axis, .. } | Op::TopK { axis, .. } => {
            same(&but(made, |other| other == usize::from(*axis)), inputs, outputs)
        }
        Op::LayerNorm { axes, .. } | Op::RmsNorm { axes, .. } => {
            let kept = made.saturating_sub(usize::from(*axes));
            same(&but(made, |axis| axis >= kept), inputs, outputs)
        }
        Op::GroupNorm { .. } => batches(&[true], inputs, outputs),
        Op::MatMul { .. } => product(inputs, outputs, made),
        Op::MatMulPacked { .. } => {
            let mut signature = product(inputs, outputs, made);
            signature.inputs[1] = mixed(rank(1));
            signature
        }
        Op::MatMulBlocks { zeros, .. } => {
            let mut signature = product(inputs, outputs, made);
            let weights = if *zeros { 1..4 } else { 1..3 };
            weights.for_each(|at| signature.inputs[at] = mixed(rank(at)));
            signature
        }
        Op::MatMulInteger { a_zero, b_zero, rescale } => {
            integers(inputs, outputs, made, [*a_zero, *b_zero], rescale.as_ref())
        }
        Op::Conv { epilogue, .. } | Op::ConvTranspose { epilogue, .. } => {
            let residual = 2 + usize::from(epilogue.bias);
            let mut signature = batches(&[true], inputs, outputs);
            if epilogue.residual {
                signature.inputs[residual] = aligned(&first(made), rank(residual));
            }
            signature
        }
        Op::ConvInteger { src_zero, weight_zero, rescale, .. } => {
            let mut signature = batches(&[true], inputs, outputs);
            if let Some(rescale) = rescale
                && rescale.residual
            {
                let at = 4 + [*src_zero, *weight_zero, rescale.bias]
                    .map(usize::from)
                    .iter()
                    .sum::<usize>();
                signature.inputs[at] = aligned(&first(made), rank(at));
            }
            signature
        }
        Op::DeformConv { params } => {
            let mask = 3 + usize::from(params.bias);
            let mut of = [true, false, true, false, false];
            if params.mask {
                of[mask] = true;
            }
            batches(&of, inputs, outputs)
        }
        // Indices that are counted through the whole input depend on the place in the batch.
        Op::Pool { params } if params.indices && params.order != PoolOrder::Channel => {
            inseparable(inputs, outputs)
        }
        Op::Pool { .. } => same(&but(made, |axis| axis >= 2), inputs, outputs),
        Op::Gather { axis } => gather(usize::from(*axis), inputs, outputs),
        Op::Embedding => gather(0, inputs, outputs),
        Op::GatherElements { axis } | Op::ScatterElements { axis, .. } => {
            // Indices that are fewer than the elements stand for the first of them: they do not broadcast.
            let is_shorter = |at: usize| {
                inputs[1..].iter().any(|input| input.shape().get(at) != inputs[0].shape().get(at))
            };
            let is_mixed = |other| other == usize::from(*axis) || is_shorter(other);
            same(&but(made, is_mixed), inputs, outputs)
        }
        Op::GatherNd { batch_axes } => gather_nd(usize::from(*batch_axes), inputs),
        Op::ScatterNd { .. } => {
            let tuple =
                inputs.get(1).and_then(|indices| indices.shape().last().copied()).unwrap_or(0);
            let mut signature = same(&but(made, |axis| axis < tuple), inputs, outputs);
            signature.inputs[1] = mixed(rank(1));
            signature
        }
        Op::CacheWrite { .. } => batches(&[true; 3], inputs, outputs),
        Op::Rope { positions, .. } => {
            batches(&[true, !positions, !positions, true], inputs, outputs)
        }
        Op::Resize { params } => {
            let shape = inputs[0].shape();
            let crops = params.coordinates == CoordinateMode::CropAndResize;
            // Axes that stay as they are are not interpolated.
            let moves = |axis: usize| {
                let whole = if crops {
                    params.region[axis] == (0.0, 1.0)
                } else {
                    params.scales[axis] == 1.0
                };
                params.sizes[axis] != shape[axis] || !whole
            };
            same(&but(made, moves), inputs, outputs)
        }
        Op::Pad { params } => {
            let moves = |axis: usize| params.before[axis] != 0 || params.after[axis] != 0;
            same(&but(made, moves), inputs, outputs)
        }
        Op::Reverse { axes, batch_axis } => {
            let mut signature = same(&but(made, |axis| axes.contains(axis)), inputs, outputs);
            if let Some(batch) = batch_axis {
                signature.inputs[1] = SmallVec::from_iter([Some(*batch)]);
            }
            signature
        }
        Op::GridSample { .. } => batches(&[true; 2], inputs, outputs),
        // Each region is resampled by itself; the pictures are all read.
        Op::RoiAlign { .. } => batches(&[false, true, true], inputs, outputs),
        Op::Attention { params } => {
            let mut signature = batches(&[true; 5], inputs, outputs);
            if params.mask {
                signature.inputs[3] = aligned(&first(4), rank(3));
            }
            signature
        }
        Op::Recurrent { params } => {
            let state: Axes = SmallVec::from_iter([None, Some(0), None]);
            let mut signature = inseparable(inputs, outputs);
            signature.inputs[0] = state.clone();
            let mut at = 3 + usize::from(params.bias);
            for _ in 0..usize::from(params.initial_hidden) + usize::from(params.initial_cell) {
                signature.inputs[at] = state.clone();
                at += 1;
            }
            if params.lengths {
                signature.inputs[at] = SmallVec::from_iter([Some(0)]);
            }
            signature.outputs[0] = SmallVec::from_iter([None, None, Some(0), None]);
            signature.outputs[1..].iter_mut().for_each(|output| *output = state.clone());
            signature
        }
        Op::Dft { axis, .. } => {
            let is_mixed = |other: usize| other == usize::from(*axis) || other + 1 == made;
            same(&but(made, is_mixed), inputs, outputs)
        }
        Op::Stft { .. } => batches(&[true], inputs, outputs),
        Op::Quantize { axis, block, .. } | Op::Dequantize { axis, block, .. } => {
            let axis = axis.map(usize::from);
            let blocks = block.and(axis);
            let mut signature = same(&but(made, |other| Some(other) == blocks), inputs, outputs);
            // One number for each index of the axis, or one for all.
            if block.is_none() {
                let each: Axes = SmallVec::from_iter([axis.map(|axis| axis as u8)]);
                for (at, input) in inputs.iter().enumerate().skip(1) {
                    let rank = input.shape().len();
                    signature.inputs[at] = if rank == 1 { each.clone() } else { mixed(rank) };
                }
            }
            signature
        }
        Op::DynamicQuantize { range: DynamicRange::Rows, .. } => {
            same(&but(made, |axis| axis + 1 == made), inputs, outputs)
        }
        // Parts that are the calls are looked at where the graph of one call is cut.
        Op::DynamicQuantize {
            range: DynamicRange::Tensor | DynamicRange::Parts { .. }, ..
        } => inseparable(inputs, outputs),
    }
}

/// The axes of a product: those before the last two, then rows; the columns of both sides; none for the axis that is summed over.
fn product_axes(made: usize) -> (Axes, Axes, Axes) {
    let columns = made.saturating_sub(1);
    let a = but(made, |axis| axis == columns);
    let mut b = but(made, |axis| axis + 2 == made);
    if let Some(last) = b.last_mut() {
        *last = Some(columns as u8);
    }
    (a, b, numbered(made))
}

/// A product, and what is added to it.
fn product(inputs: &[TensorSpec], outputs: &[TensorSpec], made: usize) -> Signature {
    let (a, b, out) = product_axes(made);
    let mut signature = same(&out, inputs, outputs);
    signature.inputs[0] = aligned(&a, inputs[0].shape().len());
    signature.inputs[1] = aligned(&b, inputs[1].shape().len());
    signature
}

fn integers(
    inputs: &[TensorSpec],
    outputs: &[TensorSpec],
    made: usize,
    [a_zero, b_zero]: [bool; 2],
    rescale: Option<&Rescale>,
) -> Signature {
    let mut signature = product(inputs, outputs, made);
    // A number for each row, as a vector or a column.
    let rows = |rank: usize| match rank {
        1 => SmallVec::from_iter([made.checked_sub(2).map(|axis| axis as u8)]),
        rank => aligned(&but(made, |axis| axis + 1 == made), rank),
    };
    let columns = |rank: usize| aligned(&but(made, |axis| axis + 2 == made), rank);
    let mut at = 2;
    for pair in [[a_zero, b_zero], [rescale.is_some(); 2]] {
        for (given, is_rows) in pair.into_iter().zip([true, false]) {
            if given {
                let rank = inputs[at].shape().len();
                signature.inputs[at] = if is_rows { rows(rank) } else { columns(rank) };
                at += 1;
            }
        }
    }
    let Some(rescale) = rescale else { return signature };
    // Bias and residual broadcast to the product; scale and zero point of the result are one number each.
    at += usize::from(rescale.bias) + usize::from(rescale.residual);
    for (axes, input) in signature.inputs.iter_mut().zip(inputs).skip(at) {
        *axes = mixed(input.shape().len());
    }
    signature
}

fn gather(axis: usize, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Signature {
    let (source, indices) = (inputs[0].shape().len(), inputs[1].shape().len());
    let mut from = Axes::new();
    for at in 0..source {
        let number = if at < axis { at } else { at + indices - usize::from(at > axis) };
        from.push((at != axis).then_some(number as u8));
    }
    Signature {
        inputs: SmallVec::from_iter([
            from,
            (0..indices).map(|at| Some((axis + at) as u8)).collect(),
        ]),
        outputs: outputs.iter().map(|output| numbered(output.shape().len())).collect(),
    }
}

fn gather_nd(batch: usize, inputs: &[TensorSpec]) -> Signature {
    let (source, indices) = (inputs[0].shape(), inputs[1].shape());
    let tuple = indices.last().copied().unwrap_or(0);
    let leading = indices.len().saturating_sub(1);
    let from = (0..source.len()).map(|axis| match axis {
        axis if axis < batch => Some(axis as u8),
        axis if axis < batch + tuple => None,
        axis => Some((leading + axis - batch - tuple) as u8),
    });
    let made = leading + source.len().saturating_sub(batch + tuple);
    Signature {
        inputs: SmallVec::from_iter([from.collect(), but(indices.len(), |axis| axis == leading)]),
        outputs: SmallVec::from_iter([numbered(made)]),
    }
}

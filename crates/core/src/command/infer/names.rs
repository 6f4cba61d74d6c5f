//! The names of operands.

use smallvec::{SmallVec, smallvec};

use crate::DType;
use crate::command::chain::INPUT_NAMES;
use crate::command::{Epilogue, Op, RecurrentCell, Rescale};

/// Names of the operands that are given, in order.
pub type Names = SmallVec<[&'static str; 8]>;

/// The first names, followed by the optional ones whose flag is set.
fn with(first: &[&'static str], optional: &[(bool, &'static str)]) -> Names {
    let given = optional.iter().filter(|(given, _)| *given).map(|(_, name)| *name);
    first.iter().copied().chain(given).collect()
}

fn sums(epilogue: &Epilogue) -> [(bool, &'static str); 2] {
    [(epilogue.bias, "bias"), (epilogue.residual, "residual")]
}

/// The operands of a rescaling, after the scales.
fn extras(rescale: Option<&Rescale>) -> [(bool, &'static str); 4] {
    let given = |says: fn(&Rescale) -> bool| rescale.is_some_and(says);
    [
        (given(|rescale| rescale.bias), "bias"),
        (given(|rescale| rescale.residual), "residual"),
        (given(Rescale::is_byte), "dst_scale"),
        (given(|rescale| rescale.zero), "dst_zero"),
    ]
}

/// The number of operands of a rescaling, with the scales.
fn count(rescale: Option<&Rescale>) -> usize {
    let extras = extras(rescale).into_iter().filter(|(given, _)| *given).count();
    2 * usize::from(rescale.is_some()) + extras
}

impl Op {
    /// The names of the outputs, as [`Op`] lists them.
    pub fn output_names(&self) -> Names {
        match self {
            Op::PackWeights { .. } => smallvec!["packed"],
            Op::Pool { params } => with(&["dst"], &[(params.indices, "indices")]),
            Op::TopK { .. } => smallvec!["values", "indices"],
            Op::NonZero => smallvec!["indices", "count"],
            Op::Compress { .. } => smallvec!["dst", "count"],
            Op::Unique { .. } => smallvec!["values", "first", "inverse", "counts", "count"],
            Op::NonMaxSuppression { .. } => smallvec!["selected", "count"],
            Op::LayerNorm { moments, .. } => {
                with(&["dst"], &[(*moments, "mean"), (*moments, "rstd")])
            }
            Op::DynamicQuantize { dtype, .. } => {
                with(&["dst", "scale"], &[(*dtype == DType::U8, "zero")])
            }
            Op::Recurrent { params } => {
                with(&["sequence", "hidden"], &[(params.cell == RecurrentCell::Lstm, "cell")])
            }
            Op::Download { .. } => smallvec![],
            Op::Fill { .. }
            | Op::Iota { .. }
            | Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Where
            | Op::Clip { .. }
            | Op::Chain { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::RmsNorm { .. }
            | Op::GroupNorm { .. }
            | Op::MatMul { .. }
            | Op::MatMulPacked { .. }
            | Op::MatMulBlocks { .. }
            | Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::ScatterElements { .. }
            | Op::ScatterNd { .. }
            | Op::CacheWrite { .. }
            | Op::Rope { .. }
            | Op::Embedding
            | Op::Resize { .. }
            | Op::Pad { .. }
            | Op::Reverse { .. }
            | Op::DeformConv { .. }
            | Op::GridSample { .. }
            | Op::RoiAlign { .. }
            | Op::Attention { .. }
            | Op::Dft { .. }
            | Op::Stft { .. }
            | Op::Quantize { .. }
            | Op::Dequantize { .. }
            | Op::MatMulInteger { .. }
            | Op::ConvInteger { .. }
            | Op::Random { .. }
            | Op::Upload { .. }
            | Op::Timestamp => smallvec!["dst"],
        }
    }

    /// The names of the inputs that the parameters ask for, as [`Op`] lists them.
    pub fn input_names(&self) -> Names {
        match self {
            Op::Fill { .. }
            | Op::Iota { .. }
            | Op::Random { .. }
            | Op::Upload { .. }
            | Op::Timestamp => smallvec![],
            Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Clip { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::Pool { .. }
            | Op::TopK { .. }
            | Op::DynamicQuantize { .. }
            | Op::Resize { .. }
            | Op::Pad { .. }
            | Op::Dft { .. }
            | Op::NonZero
            | Op::Unique { .. }
            | Op::Download { .. } => smallvec!["src"],
            Op::Reverse { batch_axis, .. } => with(&["src"], &[(batch_axis.is_some(), "lengths")]),
            Op::Compress { .. } => smallvec!["src", "condition"],
            Op::NonMaxSuppression { .. } => smallvec!["boxes", "scores"],
            Op::GridSample { .. } => smallvec!["src", "grid"],
            Op::RoiAlign { .. } => smallvec!["src", "rois", "batches"],
            Op::DeformConv { params } => {
                with(&["src", "weight", "offset"], &[(params.bias, "bias"), (params.mask, "mask")])
            }
            Op::Binary { .. } => smallvec!["a", "b"],
            Op::Where => smallvec!["condition", "a", "b"],
            Op::Chain { chain } => INPUT_NAMES[..chain.inputs().len()].iter().copied().collect(),
            Op::LayerNorm { weight, bias, .. } | Op::GroupNorm { weight, bias, .. } => {
                with(&["src"], &[(*weight, "weight"), (*bias, "bias")])
            }
            Op::RmsNorm { weight, .. } => with(&["src"], &[(*weight, "weight")]),
            Op::MatMul { epilogue } => with(&["a", "b"], &sums(epilogue)),
            Op::PackWeights { .. } => smallvec!["weights"],
            Op::MatMulPacked { epilogue, .. } => with(&["a", "packed"], &sums(epilogue)),
            Op::MatMulBlocks { zeros, epilogue, .. } => {
                let [bias, residual] = sums(epilogue);
                with(&["a", "weights", "scales"], &[(*zeros, "zeros"), bias, residual])
            }
            Op::Conv { epilogue, .. } => with(&["src", "weight"], &sums(epilogue)),
            Op::ConvTranspose { epilogue, .. } => {
                with(&["src", "weight"], &[(epilogue.bias, "bias")])
            }
            Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => {
                smallvec!["src", "indices"]
            }
            Op::ScatterElements { .. } | Op::ScatterNd { .. } => {
                smallvec!["src", "indices", "updates"]
            }
            Op::CacheWrite { positions, .. } => {
                with(&["cache", "update"], &[(*positions, "positions")])
            }
            Op::Rope { positions, .. } => {
                with(&["src", "cos", "sin"], &[(*positions, "positions")])
            }
            Op::Embedding => smallvec!["table", "ids"],
            Op::Attention { params } => with(
                &["query", "key", "value"],
                &[(params.mask, "mask"), (params.lengths, "lengths")],
            ),
            Op::Recurrent { params } => with(
                &["src", "w_input", "w_hidden"],
                &[
                    (params.bias, "bias"),
                    (params.initial_hidden, "hidden_0"),
                    (params.initial_cell, "cell_0"),
                    (params.lengths, "lengths"),
                    (params.variant.peepholes, "peepholes"),
                    (params.variant.quantized, "input_scale"),
                    (params.variant.quantized, "hidden_scale"),
                    (params.variant.zeros, "input_zero"),
                    (params.variant.zeros, "hidden_zero"),
                ],
            ),
            Op::Stft { window, .. } => with(&["signal"], &[(*window, "window")]),
            Op::Quantize { zero, .. } | Op::Dequantize { zero, .. } => {
                with(&["src", "scale"], &[(*zero, "zero")])
            }
            Op::MatMulInteger { a_zero, b_zero, rescale } => {
                let scales = ["a_scale", "b_scale"].map(|name| (rescale.is_some(), name));
                let zeros = [(*a_zero, "a_zero"), (*b_zero, "b_zero")];
                with(&["a", "b"], &[&zeros[..], &scales, &extras(rescale.as_ref())].concat())
            }
            Op::ConvInteger { src_zero, weight_zero, rescale, .. } => {
                let scales = ["src_scale", "weight_scale"].map(|name| (rescale.is_some(), name));
                let zeros = [(*src_zero, "src_zero"), (*weight_zero, "weight_zero")];
                with(&["src", "weight"], &[&zeros[..], &scales, &extras(rescale.as_ref())].concat())
            }
        }
    }

    /// The numbers of outputs and inputs. Every Command is counted, so this builds no list of names.
    pub(super) fn operand_counts(&self) -> (usize, usize) {
        let epilogue =
            |epilogue: &Epilogue| usize::from(epilogue.bias) + usize::from(epilogue.residual);
        match self {
            Op::Fill { .. }
            | Op::Iota { .. }
            | Op::Random { .. }
            | Op::Upload { .. }
            | Op::Timestamp => (1, 0),
            Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Clip { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::PackWeights { .. }
            | Op::Resize { .. }
            | Op::Pad { .. }
            | Op::Dft { .. } => (1, 1),
            Op::Reverse { batch_axis, .. } => (1, 1 + usize::from(batch_axis.is_some())),
            Op::Binary { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::GridSample { .. }
            | Op::Embedding => (1, 2),
            Op::Where | Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::RoiAlign { .. } => {
                (1, 3)
            }
            Op::CacheWrite { positions, .. } => (1, 2 + usize::from(*positions)),
            Op::Rope { positions, .. } => (1, 3 + usize::from(*positions)),
            Op::Chain { chain } => (1, chain.inputs().len()),
            Op::LayerNorm { weight, bias, moments, .. } => {
                (1 + 2 * usize::from(*moments), 1 + usize::from(*weight) + usize::from(*bias))
            }
            Op::GroupNorm { weight, bias, .. } => {
                (1, 1 + usize::from(*weight) + usize::from(*bias))
            }
            Op::RmsNorm { weight, .. } => (1, 1 + usize::from(*weight)),
            Op::MatMul { epilogue: sums } | Op::MatMulPacked { epilogue: sums, .. } => {
                (1, 2 + epilogue(sums))
            }
            Op::MatMulBlocks { zeros, epilogue: sums, .. } => {
                (1, 3 + usize::from(*zeros) + epilogue(sums))
            }
            Op::Conv { epilogue: sums, .. } => (1, 2 + epilogue(sums)),
            Op::ConvTranspose { epilogue, .. } => (1, 2 + usize::from(epilogue.bias)),
            Op::DeformConv { params } => {
                (1, 3 + usize::from(params.bias) + usize::from(params.mask))
            }
            Op::Pool { params } => (1 + usize::from(params.indices), 1),
            Op::TopK { .. } | Op::NonZero => (2, 1),
            Op::Compress { .. } | Op::NonMaxSuppression { .. } => (2, 2),
            Op::Unique { .. } => (5, 1),
            Op::Attention { params } => {
                (1, 3 + usize::from(params.mask) + usize::from(params.lengths))
            }
            Op::DynamicQuantize { dtype, .. } => (2 + usize::from(*dtype == DType::U8), 1),
            Op::Recurrent { params } => {
                let flags = [
                    params.bias,
                    params.initial_hidden,
                    params.initial_cell,
                    params.lengths,
                    params.variant.peepholes,
                    params.variant.quantized,
                    params.variant.quantized,
                    params.variant.zeros,
                    params.variant.zeros,
                ];
                let optional = flags.into_iter().map(usize::from).sum::<usize>();
                (2 + usize::from(params.cell == RecurrentCell::Lstm), 3 + optional)
            }
            Op::Stft { window, .. } => (1, 1 + usize::from(*window)),
            Op::Quantize { zero, .. } | Op::Dequantize { zero, .. } => (1, 2 + usize::from(*zero)),
            Op::MatMulInteger { a_zero, b_zero, rescale } => {
                (1, 2 + usize::from(*a_zero) + usize::from(*b_zero) + count(rescale.as_ref()))
            }
            Op::ConvInteger { src_zero, weight_zero, rescale, .. } => {
                let zeros = usize::from(*src_zero) + usize::from(*weight_zero);
                (1, 2 + zeros + count(rescale.as_ref()))
            }
            Op::Download { .. } => (0, 1),
        }
    }
}

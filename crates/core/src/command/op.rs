//! The closed set of operations.

use super::{
    Activation, AttentionParams, Axes, BinaryOp, Chain, ConvParams, DeformConvParams, Distribution,
    Epilogue, GridMode, GridPadding, HostBytes, IotaParams, PadParams, PoolParams, RecurrentParams,
    ReduceOp, Rescale, ResizeParams, RoiAlignParams, ScatterReduction, TensorSpec, UnaryOp,
};
use crate::{DType, Scalar};

/// What a Command computes: all its parameters, and no operands. Operands are listed as `outputs ← inputs`;
/// `[x]` is optional, and a parameter says whether it is given.
///
/// [`infer`](Op::infer) says what an operation makes of its inputs, and [`Command::new`](super::Command::new)
/// joins it with operands. The set is closed: whoever matches on it, a backend above all, has an arm for
/// every operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// `dst ←`: every element gets one value.
    Fill {
        /// The value, converted to the element type of `dst`.
        value: Scalar,
        /// What `dst` is.
        spec: TensorSpec,
    },
    /// `dst ←`: `start + i · step`, where `i` is the index along an axis. Integers wrap around.
    Iota {
        /// Where it starts, how far it steps, and what `dst` is.
        params: Box<IotaParams>,
    },
    /// `dst ← src`: copies between any two layouts of one shape, converting the element type.
    Copy {
        /// The element type of `dst`.
        dtype: DType,
        /// Whether numbers beyond the largest of a floating-point type that is only stored become that, and
        /// not infinity or NaN. Without meaning for other types.
        saturate: bool,
    },
    /// `dst ← src`: one function of each element.
    Unary {
        /// The function.
        op: UnaryOp,
    },
    /// `dst ← a, b`: one function of two elements; inputs are already broadcast to `dst`.
    Binary {
        /// The function.
        op: BinaryOp,
    },
    /// `dst ← condition, a, b`: `a` where the condition holds, else `b`.
    Where,
    /// `dst ← src`: limits each element to a range.
    Clip {
        /// The lower limit.
        min: Option<Scalar>,
        /// The upper limit.
        max: Option<Scalar>,
    },
    /// `dst ← inputs…`: several elementwise operations in one pass; inputs are already broadcast to `dst`.
    Chain {
        /// The steps.
        chain: Chain,
    },
    /// `dst ← src`: combines all elements along some axes, which have size 1 in `dst`.
    Reduce {
        /// How elements are combined.
        op: ReduceOp,
        /// The axes that vanish.
        axes: Axes,
    },
    /// `dst ← src`: running sum or product along an axis.
    CumSum {
        /// The axis.
        axis: u8,
        /// Leave out the element itself.
        exclusive: bool,
        /// Run from the end.
        reverse: bool,
        /// Multiply rather than add.
        product: bool,
    },
    /// `dst ← src`: softmax, or its logarithm, along an axis.
    Softmax {
        /// The axis.
        axis: u8,
        /// Give the logarithm.
        log: bool,
    },
    /// `dst ← src, [weight], [bias]`: normalizes over the last `axes` axes, which weight and bias are already
    /// broadcast to.
    LayerNorm {
        /// How many trailing axes are normalized over.
        axes: u8,
        /// Added to the variance.
        epsilon: f32,
        /// Whether `weight` is given.
        weight: bool,
        /// Whether `bias` is given.
        bias: bool,
    },
    /// `dst ← src, [weight]`: divides by the root of the mean square over the last `axes` axes, which the weight
    /// is already broadcast to.
    RmsNorm {
        /// How many trailing axes are normalized over.
        axes: u8,
        /// Added to the mean square.
        epsilon: f32,
        /// Whether `weight` is given.
        weight: bool,
    },
    /// `dst ← src, [weight], [bias]`: normalizes groups of channels (axis 1); instance
    /// normalization is one channel per group.
    GroupNorm {
        /// Number of groups.
        groups: u32,
        /// Added to the variance.
        epsilon: f32,
        /// Whether `weight` is given.
        weight: bool,
        /// Whether `bias` is given.
        bias: bool,
    },
    /// `dst ← a, b, [bias], [residual]`: batched matrix product with an epilogue.
    MatMul {
        /// What is done to each element of the product before it is stored.
        epilogue: Epilogue,
    },
    /// `packed ← weights`: weights in the order that this device's matrix products read them.
    PackWeights {
        /// How many bytes that takes, which is the device's to say.
        bytes: usize,
    },
    /// `dst ← a, packed, [bias], [residual]`: matrix product with weights packed before.
    MatMulPacked {
        /// Columns of the weights that were packed.
        columns: usize,
        /// What is done to each element of the product before it is stored.
        epilogue: Epilogue,
    },
    /// `dst ← a, weights, scales, [zeros], [bias], [residual]`: matrix product with weights of few bits, whose
    /// blocks along k have scales of their own.
    ///
    /// | operand | shape |
    /// |---|---|
    /// | `a` | `[…, m, k]` |
    /// | `weights` | `[n, blocks, block · bits / 8]` of `u8`, dense: a column's weights in order, low bits first |
    /// | `scales` | `[n, blocks]` of the type of `a` |
    /// | `zeros` | `[n, blocks]` of the type of `a`; or `[n, ⌈blocks · bits / 8⌉]` of `u8`, packed as weights are |
    ///
    /// There are `⌈k / block⌉` blocks; what the last has beyond `k` does not count. Without `zeros` the zero
    /// point is the middle of the range, `2^(bits - 1)`.
    MatMulBlocks {
        /// Bits of a weight: 2, 4 or 8.
        bits: u8,
        /// Weights of a block: a power of two from 16 to 256.
        block: u16,
        /// Whether `zeros` is given.
        zeros: bool,
        /// What is done to each element of the product before it is stored.
        epilogue: Epilogue,
    },
    /// `dst ← src, weight, [bias], [residual]`: convolution over 1 to 3 spatial axes. `src` is
    /// `[batch, channels, spatial…]`, `weight` is `[outputs, channels / groups, kernel…]`, `dst` is
    /// `[batch, outputs, spatial…]`; bias and residual are already broadcast to `dst`.
    Conv {
        /// Geometry.
        params: Box<ConvParams>,
        /// What is done to each element before it is stored.
        epilogue: Epilogue,
    },
    /// `dst ← src, weight, [bias]`: transposed convolution over 1 to 3 spatial axes. `weight` is
    /// `[channels, outputs / groups, kernel…]`; the bias is already broadcast to `dst`.
    ConvTranspose {
        /// Geometry.
        params: Box<ConvParams>,
        /// What is done to each element before it is stored.
        epilogue: Epilogue,
    },
    /// `dst, [indices] ← src`: pooling over 1 to 3 spatial axes.
    Pool {
        /// Geometry and kind.
        params: Box<PoolParams>,
    },
    /// `dst ← src, indices`: whole slices along an axis.
    Gather {
        /// The axis.
        axis: u8,
    },
    /// `dst ← src, indices`: single elements along an axis.
    GatherElements {
        /// The axis.
        axis: u8,
    },
    /// `dst ← src, indices`: slices by index tuples.
    GatherNd {
        /// Leading axes that both share.
        batch_axes: u8,
    },
    /// `dst ← src, indices, updates`: `src` with single elements along an axis replaced.
    ScatterElements {
        /// The axis.
        axis: u8,
        /// How an update meets the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← src, indices, updates`: `src` with slices replaced.
    ScatterNd {
        /// How an update meets the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← cache, update, [positions]`: `cache` with a part of an axis replaced: of each batch, which is the
    /// first axis, by `update` from a position on. `dst` is usually `cache` itself, and then nothing but the
    /// update is moved.
    CacheWrite {
        /// The axis; not the first.
        axis: u8,
        /// Beyond the end of the axis its beginning follows. Else a position from which the update does not
        /// fit is a fault.
        circular: bool,
        /// Whether `positions` are given: `[batch]`, `i32` or `i64`; else all are 0.
        positions: bool,
    },
    /// `dst ← src, cos, sin, [positions]`: rotary embedding of `[batch, heads, length, size]`. The first elements
    /// of each row, twice as many as a row of `cos` and `sin` has, are taken in pairs `(x, y)`, which become
    /// `(x · cos - y · sin, y · cos + x · sin)`; the others stay. `dst` may be `src`.
    ///
    /// `cos` and `sin` are `[most, pairs]` where `positions`, `[batch, length]`, say which of their rows is meant,
    /// and `[batch, length, pairs]` without.
    Rope {
        /// A pair are neighbors; else the one is in the first half of what is rotated, the other in the second.
        interleaved: bool,
        /// Whether `positions` are given.
        positions: bool,
    },
    /// `dst ← table, ids`: rows of a table.
    Embedding,
    /// `values, indices ← src`: the largest or smallest elements along an axis.
    TopK {
        /// The axis.
        axis: u8,
        /// How many; at most the size of the axis.
        k: usize,
        /// Largest rather than smallest.
        largest: bool,
        /// Whether they come from the best on, else in the order of their indices.
        sorted: bool,
    },
    /// `dst ← src`: interpolation.
    Resize {
        /// Modes and scales.
        params: Box<ResizeParams>,
    },
    /// `dst ← src`: padding.
    Pad {
        /// Widths and mode.
        params: Box<PadParams>,
    },
    /// `dst ← src, [lengths]`: elements in the opposite order along some axes. With `lengths`, one for each
    /// index of the batch axis, only so many elements from the first on are reversed, and the rest stays.
    Reverse {
        /// The axes; one that is not the batch axis where `lengths` is given.
        axes: Axes,
        /// The axis that `lengths` belongs to, or none where it is not given.
        batch_axis: Option<u8>,
    },
    /// `indices, count ← src`: where elements are other than zero, in row-major order. `indices` is `i64` of
    /// shape `[rank, elements]`, of which the first `count` columns are found; the others are 0.
    NonZero,
    /// `dst, count ← src, condition`: the slices along an axis, or the elements in row-major order, whose condition
    /// holds. `dst` has room for as many as there are conditions; behind the first `count` it is 0.
    Compress {
        /// The axis, or none for the elements of a flat `src`.
        axis: Option<u8>,
    },
    /// `values, first, inverse, counts, count ← src`: the different slices along an axis, or elements in row-major
    /// order. NaN equals itself, and zeros are equal.
    ///
    /// For each of the `count` different ones, `values` has the first of its kind, `first` the index of that and
    /// `counts` how many there are; behind them all three are 0. `inverse` has, for each of `src`, which one it is.
    Unique {
        /// The axis, or none for the elements of a flat `src`.
        axis: Option<u8>,
        /// In rising order (NaN last, slices by their first difference), else in the order of their first place.
        sorted: bool,
    },
    /// `selected, count ← boxes, scores`: for every batch and class the boxes of the best scores, without those that
    /// overlap a better one. `boxes` is `[batch, boxes, 4]` and `scores` `[batch, classes, boxes]`, both `f32`.
    ///
    /// `selected` is `i64` of shape `[most, 3]`; its first `count` rows are batch, class and box, from the best score
    /// on within a class, the first box of equal ones; the others are 0. A score that is NaN is never selected.
    NonMaxSuppression {
        /// Boxes that are selected for a batch and class at most.
        most: usize,
        /// Boxes that share more than this part of their union overlap.
        overlap: f32,
        /// Only scores above this are looked at.
        score: Option<f32>,
        /// A box is center x, center y, width and height, else y, x of two opposite corners.
        centered: bool,
    },
    /// `dst ← src, weight, offset, [bias], [mask]`: a convolution over two axes, of which every tap is moved by an
    /// offset and multiplied by a mask.
    DeformConv {
        /// The window, its groups, and what is given.
        params: Box<DeformConvParams>,
    },
    /// `dst ← src, grid`: elements of `[batch, channels, places…]` at the places that `[batch, outputs…, axes]`
    /// names.
    GridSample {
        /// What is found between elements.
        mode: GridMode,
        /// What there is outside.
        padding: GridPadding,
        /// Whether -1 and 1 are the middles of the outermost elements, and not their outer edges.
        align_corners: bool,
    },
    /// `dst ← src, rois, batches`: regions of `[batch, channels, height, width]`, each sampled to the same size. A
    /// region is `[x, y, x, y]`, two opposite corners.
    RoiAlign {
        /// Size, samples and scale.
        params: RoiAlignParams,
    },
    /// `dst ← query, key, value, [mask], [lengths]`: scaled dot-product attention; the mask is already
    /// broadcast to `[batch, heads, queries, keys]`. Of each batch keys at or beyond its length are not seen,
    /// and may hold anything. A query that sees no key gives zeros.
    Attention {
        /// Scale, and which keys are seen.
        params: AttentionParams,
    },
    /// `sequence, hidden, [cell] ← src, w_input, w_hidden, [bias], [hidden_0], [cell_0], [lengths], [peepholes],
    /// [input_scale, hidden_scale], [input_zero, hidden_zero]`: a recurrent layer over a whole sequence. Only an
    /// LSTM has cell states. The last five are for a [variant](super::RecurrentVariant) of the layer.
    ///
    /// | operand | shape |
    /// |---|---|
    /// | `src` | `[time, batch, input]` |
    /// | `w_input` | `[directions, gates · hidden, input]` |
    /// | `w_hidden` | `[directions, gates · hidden, hidden]` |
    /// | `bias` | `[directions, 2, gates · hidden]`: that of the input, then that of the hidden state |
    /// | `hidden_0`, `cell_0`, `hidden`, `cell` | `[directions, batch, hidden]` |
    /// | `lengths` | `[batch]`, `i32` or `i64`, limited to `0 ..= time` |
    /// | `sequence` | `[time, directions, batch, hidden]` |
    ///
    /// Rows of the weights are ordered by gate as in ONNX: input, output, forget, cell (`iofc`) for an
    /// LSTM; update, reset, hidden (`zrh`) for a GRU. PyTorch's LSTM has `ifgo` (its `g` is the cell
    /// gate) and its GRU `rzn` (its `n` is the hidden gate): permute the blocks of `hidden` rows of
    /// both weights and biases. Beyond its length a sequence gives zeros, and `hidden` and `cell` are
    /// those of its last step. The reverse direction starts at the last step of each sequence.
    Recurrent {
        /// Kind and direction.
        params: Box<RecurrentParams>,
    },
    /// `dst ← src`: discrete Fourier transform along an axis; the last axis holds real and imaginary,
    /// or has size 1 where numbers are real.
    Dft {
        /// The axis.
        axis: u8,
        /// The inverse transform.
        inverse: bool,
        /// Only the non-redundant half: of the result, or of the input of an inverse transform.
        onesided: bool,
        /// The length of the transform: the size of the axis, but for the input of an inverse transform of
        /// which only half is there.
        length: usize,
    },
    /// `dst ← signal, [window]`: short-time Fourier transform of `[batch, samples, 1 or 2]` to
    /// `[batch, frames, bins, 2]`.
    Stft {
        /// Samples per frame.
        frame: u32,
        /// Samples between frames.
        hop: u32,
        /// Only the non-redundant half.
        onesided: bool,
        /// Whether `window` is given.
        window: bool,
    },
    /// `dst ← src, scale, [zero]`: `src / scale + zero` to 8-bit or 16-bit integers, halves to even, saturated.
    /// Scale and zero are already broadcast to `dst`, but for blocks, whose axis then has that many fewer.
    Quantize {
        /// The axis of per-channel scales, or none for one scale.
        axis: Option<u8>,
        /// The element type of `dst`.
        dtype: DType,
        /// Whether `zero` is given.
        zero: bool,
        /// How many neighbors along the axis share a scale; the last block may be shorter.
        block: Option<u32>,
    },
    /// `dst ← src, scale, [zero]`: `(src - zero) · scale` from 8-bit, 16-bit or 32-bit integers. Scale and zero
    /// are as for `Quantize`.
    Dequantize {
        /// The axis of per-channel scales, or none for one scale.
        axis: Option<u8>,
        /// The element type of `dst`.
        dtype: DType,
        /// Whether `zero` is given.
        zero: bool,
        /// How many neighbors along the axis share a scale; the last block may be shorter.
        block: Option<u32>,
    },
    /// `dst, scale, [zero] ← src`: 8-bit integers, with the scale that takes in all of `src`, or one for each
    /// row. `u8` has a zero point, and its range is stretched to hold 0; `i8` is symmetric and has none.
    DynamicQuantize {
        /// Each row along the last axis by itself.
        rows: bool,
        /// The element type of `dst`.
        dtype: DType,
    },
    /// `dst ← a, b, [a_zero], [b_zero], [a_scale, b_scale, [bias], [residual], [dst_scale, [dst_zero]]]`: 8-bit
    /// matrix product with 32-bit sums, which wrap around; or what is made of these sums. Zero points and
    /// scales are already broadcast: to `a` without its last axis, and to `b` without its last but one,
    /// with size 1 on these.
    MatMulInteger {
        /// Whether `a_zero` is given.
        a_zero: bool,
        /// Whether `b_zero` is given.
        b_zero: bool,
        /// What is made of the sums, and whether there are scales. Else `dst` has the sums, as `i32`.
        rescale: Option<Rescale>,
    },
    /// `dst ← src, weight, [src_zero], [weight_zero], [src_scale, weight_scale, [bias], [residual], [dst_scale,
    /// [dst_zero]]]`: 8-bit convolution with 32-bit sums, which wrap around; or what is made of these sums.
    /// Zero point and scale are one number for `src`, and one per output channel for `weight`; padding counts
    /// as zero.
    ConvInteger {
        /// Geometry.
        params: Box<ConvParams>,
        /// Whether `src_zero` is given.
        src_zero: bool,
        /// Whether `weight_zero` is given.
        weight_zero: bool,
        /// What is made of the sums, and whether there are scales. Else `dst` has the sums, as `i32`.
        rescale: Option<Rescale>,
    },
    /// `dst ←`: random numbers, a function of seed, offset and element index alone.
    Random {
        /// The distribution.
        distribution: Distribution,
        /// The seed.
        seed: u64,
        /// Where in the sequence of the seed the first element lies.
        offset: u64,
        /// What `dst` is.
        spec: TensorSpec,
    },
    /// `dst ←`: bytes of the host, dense in row-major order.
    Upload {
        /// The bytes.
        source: HostBytes,
        /// What `dst` is.
        spec: TensorSpec,
    },
    /// `← src`: dense bytes for the host.
    Download {
        /// Where they go.
        target: HostBytes,
    },
    /// `dst ←`: the device's clock in nanoseconds, as one `i64`.
    Timestamp,
}

macro_rules! kinds {
    ($($kind:ident => $name:literal),* $(,)?) => {
        /// The kind of an [`Op`], without its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum OpKind { $($kind),* }

        impl OpKind {
            /// Every kind.
            pub const ALL: &[OpKind] = &[$(OpKind::$kind),*];

            /// The name used in errors, traces and counters.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$kind => $name),* }
            }
        }

        impl Op {
            /// The kind of operation.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$kind { .. } => OpKind::$kind),* }
            }
        }
    };
}

kinds! {
    Fill => "fill", Iota => "iota", Copy => "copy", Unary => "unary", Binary => "binary", Where => "where",
    Clip => "clip", Chain => "chain", Reduce => "reduce", CumSum => "cumsum", Softmax => "softmax",
    LayerNorm => "layer_norm", RmsNorm => "rms_norm", GroupNorm => "group_norm",
    MatMul => "matmul", Conv => "conv", ConvTranspose => "conv_transpose", Pool => "pool",
    Gather => "gather", GatherElements => "gather_elements", GatherNd => "gather_nd",
    ScatterElements => "scatter_elements", ScatterNd => "scatter_nd", Embedding => "embedding",
    CacheWrite => "cache_write", Rope => "rope",
    TopK => "top_k", Resize => "resize", Pad => "pad", Reverse => "reverse", GridSample => "grid_sample",
    RoiAlign => "roi_align", DeformConv => "deform_conv",
    NonZero => "nonzero", Compress => "compress", Unique => "unique",
    NonMaxSuppression => "non_max_suppression", Attention => "attention",
    Recurrent => "recurrent", Dft => "dft", Stft => "stft", Quantize => "quantize",
    Dequantize => "dequantize", DynamicQuantize => "dynamic_quantize",
    MatMulInteger => "matmul_integer", ConvInteger => "conv_integer", PackWeights => "pack_weights",
    MatMulPacked => "matmul_packed", MatMulBlocks => "matmul_blocks",
    Random => "random", Upload => "upload", Download => "download", Timestamp => "timestamp",
}

impl Op {
    /// The name used in errors, traces and counters.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The output that says how much of the others is valid, where only the data knows: one `i64`. Sizes of the
    /// others are what there may be at most, and what is not valid is 0.
    pub fn count_output(&self) -> Option<usize> {
        match self {
            Op::NonZero | Op::Compress { .. } | Op::NonMaxSuppression { .. } => Some(1),
            Op::Unique { .. } => Some(4),
            _ => None,
        }
    }

    /// The activation at the end of the operation, if it has one.
    pub fn activation(&self) -> Activation {
        match self {
            Op::MatMul { epilogue }
            | Op::MatMulPacked { epilogue, .. }
            | Op::MatMulBlocks { epilogue, .. }
            | Op::Conv { epilogue, .. }
            | Op::ConvTranspose { epilogue, .. } => epilogue.activation,
            Op::MatMulInteger { rescale: Some(rescale), .. }
            | Op::ConvInteger { rescale: Some(rescale), .. } => rescale.activation,
            _ => Activation::None,
        }
    }
}

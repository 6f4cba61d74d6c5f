//! The closed set of operations.

use super::{
    AttentionParams, Axes, BinaryOp, Chain, ConvParams, DeformConvParams, Distribution,
    DynamicRange, Epilogue, GridMode, GridPadding, HostBytes, IotaParams, PadParams, PoolParams,
    RecurrentParams, ReduceOp, Rescale, ResizeParams, RoiAlignParams, ScatterReduction, TensorSpec,
    UnaryOp,
};
use crate::{DType, Scalar};

/// What a Command computes: all its parameters, and no operands.
///
/// The operands of each operation are listed as `outputs ← inputs`. An operand in brackets, `[x]`, is optional; a
/// parameter says whether it is given.
///
/// [`infer`](Op::infer) gives the outputs of an operation for its inputs, and [`Command::new`](super::Command::new)
/// joins it with operands. The set is closed: a `match` over it, in a backend above all, has an arm for every
/// operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// `dst ←`: every element gets one value.
    Fill {
        /// The value, converted to the element type of `dst`.
        value: Scalar,
        /// The type and shape of `dst`.
        spec: TensorSpec,
    },
    /// `dst ←`: `start + i · step`, where `i` is the index along an axis. Integers wrap around.
    Iota {
        /// Start, step and axis, and the type and shape of `dst`.
        params: Box<IotaParams>,
    },
    /// `dst ← src`: copies between any two layouts of the same shape, and converts the element type.
    Copy {
        /// The element type of `dst`.
        dtype: DType,
        /// Only for storage-only floating-point types: whether a number beyond their largest value becomes that
        /// value. If not, it becomes infinity or NaN.
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
    /// `dst ← condition, a, b`: `a` where the condition is true, else `b`.
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
        /// The axes that are combined.
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
        /// The logarithm of the softmax.
        log: bool,
    },
    /// `dst, [mean, rstd] ← src, [weight], [bias]`: normalizes over the last `axes` axes. Weight and bias are already
    /// broadcast to those axes. `rstd` is `1 / sqrt(variance + epsilon)`. `mean` and `rstd` are always `f32`, and
    /// their last `axes` axes have size 1.
    LayerNorm {
        /// How many trailing axes are normalized over.
        axes: u8,
        /// Added to the variance.
        epsilon: f32,
        /// Whether `weight` is given.
        weight: bool,
        /// Whether `bias` is given.
        bias: bool,
        /// Whether `mean` and `rstd` are given.
        moments: bool,
    },
    /// `dst ← src, [weight]`: divides by the root of the mean square over the last `axes` axes. The weight is already
    /// broadcast to those axes.
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
    /// `packed ← weights`: packs weights into the order in which this device's matrix products read them.
    PackWeights {
        /// The size of `packed`, as the device gives it.
        bytes: usize,
    },
    /// `dst ← a, packed, [bias], [residual]`: matrix product with weights that were packed before.
    MatMulPacked {
        /// Columns of the weights that were packed.
        columns: usize,
        /// What is done to each element of the product before it is stored.
        epilogue: Epilogue,
    },
    /// `dst ← a, weights, scales, [zeros], [bias], [residual]`: matrix product with weights of 2, 4 or 8 bits, in
    /// blocks along k. Each block has its own scale.
    ///
    /// | operand | shape |
    /// |---|---|
    /// | `a` | `[…, m, k]` |
    /// | `weights` | `[n, blocks, block · bits / 8]` of `u8`, dense: a column's weights in order, low bits first |
    /// | `scales` | `[n, blocks]` of the type of `a` |
    /// | `zeros` | `[n, blocks]` of the type of `a`; or `[n, ⌈blocks · bits / 8⌉]` of `u8`, packed as weights are |
    ///
    /// There are `⌈k / block⌉` blocks. Weights of the last block beyond `k` are ignored. Without `zeros`, the zero
    /// point is the middle of the range, `2^(bits - 1)`.
    MatMulBlocks {
        /// Bits of a weight: 2, 4 or 8.
        bits: u8,
        /// Weights in a block: a power of two from 16 to 256.
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
        /// How an update is combined with the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← src, indices, updates`: `src` with slices replaced.
    ScatterNd {
        /// How an update is combined with the old value.
        reduction: ScatterReduction,
    },
    /// `dst ← cache, update, [positions]`: `cache` with a part of an axis replaced by `update`, for each batch (the
    /// first axis) from its own position on. `dst` is usually `cache` itself; then only the update is moved.
    CacheWrite {
        /// The axis; not the first.
        axis: u8,
        /// Whether an update that reaches the end of the axis continues at the beginning. If not, an update that does
        /// not fit is a fault.
        circular: bool,
        /// Whether `positions` are given: `[batch]` of `i32` or `i64`. If not, all positions are 0.
        positions: bool,
    },
    /// `dst ← src, cos, sin, [positions]`: rotary embedding of `[batch, heads, length, size]`. `dst` may be `src`.
    ///
    /// A row of `cos` and `sin` has one number for each pair of elements. The first `2 · pairs` elements of a row of
    /// `src` are taken in pairs `(x, y)`, and each pair becomes `(x · cos - y · sin, y · cos + x · sin)`. The other
    /// elements stay.
    ///
    /// With `positions`, `cos` and `sin` are `[max_positions, pairs]`, and `positions`, `[batch, length]`, selects
    /// their rows. Without, they are `[batch, length, pairs]`.
    Rope {
        /// Whether the elements of a pair are neighbors. If not, the first is in the first half of what is rotated
        /// and the second is in the second half.
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
        /// How many elements; at most the size of the axis.
        k: usize,
        /// Largest rather than smallest.
        largest: bool,
        /// Whether the best element comes first. If not, elements are in the order of their indices.
        sorted: bool,
    },
    /// `dst ← src`: interpolation.
    ///
    /// Integers are interpolated in floating point, `f32` or better, and the fraction is cut off, as in ONNX Runtime.
    /// Values beyond the range of the type saturate. A value whose distance from an integer is below a 2²⁰th of the
    /// value counts as that integer, so that rounding errors do not change a constant input.
    Resize {
        /// Modes and scales.
        params: Box<ResizeParams>,
    },
    /// `dst ← src`: padding.
    Pad {
        /// Widths and mode.
        params: Box<PadParams>,
    },
    /// `dst ← src, [lengths]`: reverses the order of elements along some axes. `lengths` has one number for each
    /// index of the batch axis: only that many elements are reversed, counted from the first, and the rest stays.
    Reverse {
        /// The axes. With `lengths` there is exactly one, and it is not the batch axis.
        axes: Axes,
        /// The axis that `lengths` belongs to; `None` if `lengths` is not given.
        batch_axis: Option<u8>,
    },
    /// `indices, count ← src`: the coordinates of nonzero elements, in row-major order. `indices` is `i64` of shape
    /// `[rank, elements]`. Its first `count` columns are valid; the others are 0.
    NonZero,
    /// `dst, count ← src, condition`: the slices along an axis whose condition is true, or the elements in row-major
    /// order. `dst` has room for as many as there are conditions; after the first `count` it is 0.
    Compress {
        /// The axis; `None` for the elements of a flat `src`.
        axis: Option<u8>,
    },
    /// `values, first, inverse, counts, count ← src`: the distinct slices along an axis, or the distinct elements in
    /// row-major order. NaN equals NaN, and 0 equals -0.
    ///
    /// The first `count` entries of three outputs are valid and the others are 0: `values` has each distinct slice,
    /// `first` has the index where it first occurs, `counts` says how often it occurs. `inverse` has, for each slice
    /// of `src`, its index in `values`.
    Unique {
        /// The axis; `None` for the elements of a flat `src`.
        axis: Option<u8>,
        /// Whether `values` are in ascending order: NaN last, slices by their first difference. If not, they are in
        /// the order in which they first occur.
        sorted: bool,
    },
    /// `selected, count ← boxes, scores`: for every batch and class, the boxes with the best scores, without those
    /// that overlap a better one. `boxes` is `[batch, boxes, 4]` and `scores` is `[batch, classes, boxes]`, both
    /// `f32`.
    ///
    /// `selected` is `i64` of shape `[batch · classes · min(boxes, most), 3]`. Its first `count` rows are batch, class and box; the others are 0.
    /// Within a class the best score comes first; of equal scores, the box with the lower index. A box whose score is
    /// NaN is never selected.
    NonMaxSuppression {
        /// How many boxes are selected at most for each batch and class.
        most: usize,
        /// Two boxes overlap if their intersection over union is above this.
        overlap: f32,
        /// Boxes whose score is not above this are ignored.
        score: Option<f32>,
        /// Whether a box is center x, center y, width and height. If not, it is y and x of two opposite corners.
        centered: bool,
    },
    /// `dst ← src, weight, offset, [bias], [mask]`: deformable convolution over two axes. Each tap is moved by an
    /// offset and multiplied by a mask.
    DeformConv {
        /// Geometry, groups, and which operands are given.
        params: Box<DeformConvParams>,
    },
    /// `dst ← src, grid`: samples `[batch, channels, spatial…]` at the positions in `[batch, outputs…, axes]`.
    GridSample {
        /// How values between elements are interpolated.
        mode: GridMode,
        /// The values outside of the input.
        padding: GridPadding,
        /// Whether -1 and 1 are the centers of the outermost elements. If not, they are their outer edges.
        align_corners: bool,
    },
    /// `dst ← src, rois, batches`: regions of `[batch, channels, height, width]`, each resampled to the same size. A
    /// region is `[x, y, x, y]`: two opposite corners.
    RoiAlign {
        /// Size, samples and scale.
        params: RoiAlignParams,
    },
    /// `dst ← query, key, value, [mask], [lengths]`: scaled dot-product attention. The mask is already broadcast to
    /// `[batch, heads, queries, keys]`. Keys at or beyond the length of their batch are not seen, and may hold
    /// anything. A query that sees no key gives zeros.
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
    /// | `bias` | `[directions, 2, gates · hidden]`: first the bias of the input, then the bias of the hidden state |
    /// | `hidden_0`, `cell_0`, `hidden`, `cell` | `[directions, batch, hidden]` |
    /// | `lengths` | `[batch]`, `i32` or `i64`, limited to `0 ..= time` |
    /// | `sequence` | `[time, directions, batch, hidden]` |
    ///
    /// Rows of the weights are ordered by gate as in ONNX: input, output, forget, cell (`iofc`) for an LSTM; update,
    /// reset, hidden (`zrh`) for a GRU. PyTorch's LSTM has `ifgo` (its `g` is the cell gate) and its GRU has `rzn`
    /// (its `n` is the hidden gate). To convert, permute the blocks of `hidden` rows of weights and biases.
    ///
    /// Beyond its length a sequence gives zeros, and `hidden` and `cell` are those of its last step. The reverse
    /// direction starts at the last step of each sequence.
    Recurrent {
        /// Kind and direction.
        params: Box<RecurrentParams>,
    },
    /// `dst ← src`: discrete Fourier transform along an axis. The last axis holds real and imaginary parts; for real
    /// numbers it has size 1.
    Dft {
        /// The axis.
        axis: u8,
        /// The inverse transform.
        inverse: bool,
        /// Only the non-redundant half: of the output, or of the input if the transform is inverse.
        onesided: bool,
        /// The length of the transform. It is the size of the axis, except for a one-sided inverse, whose input has
        /// only half of it.
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
    /// `dst ← src, scale, [zero]`: `src / scale + zero`, rounded to integers of 8 or 16 bits or to 4-bit numbers,
    /// with halves to even, and saturated. Scale and zero are already broadcast to `dst`, with two exceptions: with
    /// blocks, their axis has one element per block; and zeros of 4 bits are not broadcast.
    Quantize {
        /// The axis of per-channel scales; `None` if there is one scale.
        axis: Option<u8>,
        /// The element type of `dst`.
        dtype: DType,
        /// Whether `zero` is given.
        zero: bool,
        /// How many neighbors along the axis share a scale; the last block may be shorter.
        block: Option<u32>,
    },
    /// `dst ← src, scale, [zero]`: `(src - zero) · scale`, from integers of 8, 16 or 32 bits or from 4-bit numbers.
    /// Scale and zero are as for `Quantize`.
    Dequantize {
        /// The axis of per-channel scales; `None` if there is one scale.
        axis: Option<u8>,
        /// The element type of `dst`.
        dtype: DType,
        /// Whether `zero` is given.
        zero: bool,
        /// How many neighbors along the axis share a scale; the last block may be shorter.
        block: Option<u32>,
    },
    /// `dst, scale, [zero] ← src`: quantizes to 8 bits, with a scale computed from the range of `src`, of each row or of each
    /// part. `u8` has a zero point, and its range always includes 0. `i8` is symmetric and has no zero point.
    DynamicQuantize {
        /// Which elements share a scale.
        range: DynamicRange,
        /// The element type of `dst`.
        dtype: DType,
    },
    /// `dst ← a, b, [a_zero], [b_zero], [a_scale, b_scale, [bias], [residual], [dst_scale, [dst_zero]]]`: matrix
    /// product of 8-bit integers. Sums have 32 bits and wrap around; `dst` has the sums, or what `rescale` makes of
    /// them. Zero points and scales are already broadcast: to `a` with size 1 on its last axis, and to `b` with size
    /// 1 on its last axis but one.
    MatMulInteger {
        /// Whether `a_zero` is given.
        a_zero: bool,
        /// Whether `b_zero` is given.
        b_zero: bool,
        /// How sums are rescaled, and which operands that takes. If `None`, `dst` has the sums as `i32`.
        rescale: Option<Rescale>,
    },
    /// `dst ← src, weight, [src_zero], [weight_zero], [src_scale, weight_scale, [bias], [residual], [dst_scale,
    /// [dst_zero]]]`: convolution of 8-bit integers. Sums have 32 bits and wrap around; `dst` has the sums, or what
    /// `rescale` makes of them. `src` has one zero point and one scale; `weight` has one of each per output channel.
    /// Padding counts as zero.
    ConvInteger {
        /// Geometry.
        params: Box<ConvParams>,
        /// Whether `src_zero` is given.
        src_zero: bool,
        /// Whether `weight_zero` is given.
        weight_zero: bool,
        /// How sums are rescaled, and which operands that takes. If `None`, `dst` has the sums as `i32`.
        rescale: Option<Rescale>,
    },
    /// `dst ←`: random numbers that depend on seed, offset and element index alone.
    Random {
        /// The distribution.
        distribution: Distribution,
        /// The seed.
        seed: u64,
        /// The position of the first element in the sequence of the seed.
        offset: u64,
        /// The type and shape of `dst`.
        spec: TensorSpec,
    },
    /// `dst ←`: copies bytes of the host, dense in row-major order.
    Upload {
        /// The bytes.
        source: HostBytes,
        /// The type and shape of `dst`.
        spec: TensorSpec,
    },
    /// `← src`: copies elements to the host, dense in row-major order.
    Download {
        /// Where they go.
        target: HostBytes,
    },
    /// `dst ←`: the device's clock in nanoseconds, as one `i64`.
    Timestamp,
}

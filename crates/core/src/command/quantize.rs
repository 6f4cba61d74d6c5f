//! Quantization and dequantization.

use smallvec::{SmallVec, smallvec};

use super::check::small;
use super::{BufferLike, Command, DynamicQuantizeOperands, Op, Operand, QuantizeOperands};
use crate::{DType, Layout, MAX_RANK, Result};

/// Which elements share a scale that is computed from their range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynamicRange {
    /// All elements of the tensor; scale and zero point have the shape `[]`.
    Tensor,
    /// Those of a row along the last axis; scales have the shape of the tensor with a last axis of size 1.
    Rows,
    /// Those of a part, of which an axis has so many, one behind the other and of equal size; scales have the shape `[parts]`. Each
    /// part is quantized as a tensor of its own would be.
    Parts {
        /// The axis.
        axis: u8,
        /// How many parts; the size of the axis is a multiple.
        parts: u32,
    },
}

/// The operands of a conversion without blocks: every element has its own scale by broadcasting.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct QuantizePart<B> {
    pub dst: Operand<B>,
    pub src: Operand<B>,
    pub scale: Operand<B>,
    pub zero: Option<Operand<B>>,
}

impl<B: Copy> QuantizeOperands<'_, B> {
    /// The conversion as one or two conversions without blocks, for backends. The first has all whole blocks, with
    /// one axis more; the second has the shorter blocks at the end. All operands of a part have the same shape. A
    /// conversion without elements has no parts.
    pub fn parts(&self, op: &Op) -> SmallVec<[QuantizePart<B>; 2]> {
        let all = [Some(self.dst), Some(self.src), Some(self.scale), self.zero];
        let (Op::Quantize { axis, block, .. } | Op::Dequantize { axis, block, .. }) = op else {
            return SmallVec::new();
        };
        let layout = &self.dst.layout;
        if layout.is_empty() {
            return SmallVec::new();
        }
        let (Some(axis), Some(block)) = (axis.map(usize::from), block.map(|block| block as usize))
        else {
            return smallvec![part(all.map(Option::<&_>::copied))];
        };
        let size = layout.shape()[axis];
        let (whole, rest) = (size / block, size % block);
        let mut parts = SmallVec::new();
        if whole > 0 {
            parts.push(part(each(all, |data, layout| {
                let stride = layout.strides()[axis];
                let steps = if data { [stride * block, stride] } else { [stride, 0] };
                replaced(layout, axis, &[whole, block], &steps, 0)
            })));
        }
        if rest > 0 {
            parts.push(part(each(all, |data, layout| {
                let stride = layout.strides()[axis];
                let (step, skipped) = if data { (stride, whole * block) } else { (0, whole) };
                replaced(layout, axis, &[rest], &[step], skipped * stride)
            })));
        }
        parts
    }
}

/// Output, source, scale and zero point with changed layouts. `change` gets true for the first two, which are data.
fn each<B: Copy>(
    operands: [Option<&Operand<B>>; 4],
    change: impl Fn(bool, &Layout) -> Layout,
) -> [Option<Operand<B>>; 4] {
    let mut index = 0;
    operands.map(|operand| {
        index += 1;
        operand.map(|operand| Operand::new(operand.buffer, change(index <= 2, &operand.layout)))
    })
}

/// A layout in which one axis is replaced by others, beginning `skipped` elements later.
fn replaced(
    layout: &Layout,
    axis: usize,
    sizes: &[usize],
    steps: &[usize],
    skipped: usize,
) -> Layout {
    let with = |all: &[usize], new: &[usize]| -> SmallVec<[usize; MAX_RANK]> {
        all[..axis].iter().chain(new).chain(&all[axis + 1..]).copied().collect()
    };
    let (shape, strides) = (with(layout.shape(), sizes), with(layout.strides(), steps));
    let replaced = Layout::strided(layout.dtype(), &shape, &strides, layout.offset() + skipped);
    replaced.expect("it has elements of a layout only, and room for one more axis")
}

fn part<B>([dst, src, scale, zero]: [Option<Operand<B>>; 4]) -> QuantizePart<B> {
    let [dst, src, scale] = [dst, src, scale].map(|operand| operand.expect("always given"));
    QuantizePart { dst, src, scale, zero }
}

/// The axes of a dynamic quantization, the outermost first: sizes, and strides of the operands.
#[derive(Clone, Debug)]
pub struct DynamicAxes {
    /// The axes of the scales, with strides of integers, source, scales and zero points.
    pub scales: SmallVec<[(usize, [usize; 4]); MAX_RANK]>,
    /// The axes of the elements that share a scale, with strides of integers and source.
    pub elements: SmallVec<[(usize, [usize; 2]); MAX_RANK]>,
}

impl<B> DynamicQuantizeOperands<'_, B> {
    /// The axes of the scales, and those of what shares one, for backends.
    pub fn axes(&self, range: DynamicRange) -> DynamicAxes {
        let layouts = [self.dst, self.src, self.scale, self.zero.unwrap_or(self.scale)]
            .map(|operand| &operand.layout);
        let shape = self.src.layout.shape();
        let strides = |axis: usize| [layouts[0].strides()[axis], layouts[1].strides()[axis]];
        let all = || (0..shape.len()).map(|axis| (shape[axis], strides(axis)));
        match range {
            DynamicRange::Tensor => {
                DynamicAxes { scales: SmallVec::new(), elements: all().collect() }
            }
            DynamicRange::Rows => {
                let last = shape.len() - 1;
                let each = |axis: usize| layouts.map(|layout| layout.strides()[axis]);
                DynamicAxes {
                    scales: (0..last).map(|axis| (shape[axis], each(axis))).collect(),
                    elements: smallvec![(shape[last], strides(last))],
                }
            }
            DynamicRange::Parts { axis, parts } => {
                let (axis, parts) = (usize::from(axis), parts as usize);
                let size = shape[axis] / parts;
                // Strides of a layout without elements may be anything.
                let [dst, src] = strides(axis).map(|stride| stride.saturating_mul(size));
                let each = [dst, src, layouts[2].strides()[0], layouts[3].strides()[0]];
                let mut elements: SmallVec<[(usize, [usize; 2]); MAX_RANK]> = all().collect();
                elements[axis].0 = size;
                DynamicAxes { scales: smallvec![(parts, each)], elements }
            }
        }
    }
}

impl<B: BufferLike> Command<B> {
    /// `dst = src / scale + zero`, rounded with halves to even and saturated.
    ///
    /// `src` is floating point, and `dst` is `u8`, `i8`, `u16`, `i16`, `u4`, `i4` or `f4e2m1`. `scale` is `f32`,
    /// `f16` or `bf16`. `zero` has the type of `dst`; if absent, it is 0. Both have one element, or one for each
    /// index of `axis`.
    ///
    /// The quotient is rounded to `f32` (`f64` if `src` is `f64`), then to an integer, and then the zero point is
    /// added. NaN becomes the zero point. For `f4e2m1` the quotient is not rounded to an integer: only the sum is
    /// rounded.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, an axis that does not exist, or operands that do not fit
    /// their buffers or overlap.
    pub fn quantize(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: Option<usize>,
    ) -> Result<Self> {
        Self::scaled(dst, [src, scale], zero, |dtype, zero| {
            let axis = axis.map(small);
            Op::Quantize { axis, dtype, zero, block: None }
        })
    }

    /// `dst = (src - zero) · scale`.
    ///
    /// `src` is `u8`, `i8`, `u16`, `i16`, `i32`, `u4`, `i4` or `f4e2m1`, and `dst` is floating point. `scale` and
    /// `zero` are as for [`quantize`](Self::quantize), but `zero` has the type of `src`. The difference is exact.
    ///
    /// # Errors
    ///
    /// As for [`quantize`](Self::quantize).
    pub fn dequantize(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: Option<usize>,
    ) -> Result<Self> {
        Self::scaled(dst, [src, scale], zero, |dtype, zero| {
            let axis = axis.map(small);
            Op::Dequantize { axis, dtype, zero, block: None }
        })
    }

    /// As [`quantize`](Self::quantize), with one scale and zero point for each block of `block` neighbors along an
    /// axis.
    ///
    /// `scale` and `zero` have the shape of `src`, except that this axis has size `⌈size / block⌉`. The last block
    /// may be shorter.
    ///
    /// # Errors
    ///
    /// As for [`quantize`](Self::quantize), or a rank of [`MAX_RANK`]: blocks take one more axis.
    pub fn quantize_blocks(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: usize,
        block: u32,
    ) -> Result<Self> {
        Self::scaled(dst, [src, scale], zero, |dtype, zero| {
            let axis = Some(small(axis));
            Op::Quantize { axis, dtype, zero, block: Some(block) }
        })
    }

    /// As [`dequantize`](Self::dequantize), with scales and zero points as for
    /// [`quantize_blocks`](Self::quantize_blocks).
    ///
    /// # Errors
    ///
    /// As for [`quantize_blocks`](Self::quantize_blocks).
    pub fn dequantize_blocks(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: usize,
        block: u32,
    ) -> Result<Self> {
        Self::scaled(dst, [src, scale], zero, |dtype, zero| {
            let axis = Some(small(axis));
            Op::Dequantize { axis, dtype, zero, block: Some(block) }
        })
    }

    /// Quantize or dequantize, with or without a zero point.
    fn scaled(
        dst: Operand<B>,
        inputs: [Operand<B>; 2],
        zero: Option<Operand<B>>,
        op: impl FnOnce(DType, bool) -> Op,
    ) -> Result<Self> {
        let op = op(dst.layout.dtype(), zero.is_some());
        Self::new(op, [dst], inputs.into_iter().chain(zero))
    }

    /// Quantizes `src` to 8-bit integers, with a scale computed from the range of `src`, or from that of each row or
    /// part. For a whole tensor this is ONNX's DynamicQuantizeLinear in one Command.
    ///
    /// `src` is `f32`, `f16` or `bf16`. `scale` is `f32` and has the shape that [`DynamicRange`] says.
    ///
    /// For `u8`, the range is extended to include 0; `scale` is `(max - min) / 255`, and `zero`, of the shape of
    /// `scale`, is `-min / scale`. For `i8`, `scale` is `max |src| / 127`, and there is no `zero`. Elements are then
    /// quantized as by [`quantize`](Self::quantize).
    ///
    /// If all elements are 0, or there are none, `scale` is 1. NaN does not count for the range and becomes the zero
    /// point. If the range is beyond `f32`, the scale is infinite and every element becomes the zero point.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, rows of a `src` without axes, an axis that does not exist or has no such parts, or
    /// operands that do not fit their buffers or overlap.
    pub fn dynamic_quantize(
        dst: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        src: Operand<B>,
        range: DynamicRange,
    ) -> Result<Self> {
        let op = Op::DynamicQuantize { range, dtype: dst.layout.dtype() };
        Self::new(op, [dst, scale].into_iter().chain(zero), [src])
    }
}

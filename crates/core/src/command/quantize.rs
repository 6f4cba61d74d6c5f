//! Conversion to and from integers with a scale.

use smallvec::{SmallVec, smallvec};

use super::check::small;
use super::{BufferLike, Command, Op, Operand, QuantizeOperands};
use crate::{Layout, MAX_RANK, Result};

/// The operands of a conversion whose scales have been repeated over all that share one.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct QuantizePart<B> {
    pub dst: Operand<B>,
    pub src: Operand<B>,
    pub scale: Operand<B>,
    pub zero: Option<Operand<B>>,
}

impl<B: Copy> QuantizeOperands<'_, B> {
    /// The conversion as one or two without blocks, for backends: all whole blocks, with one more axis, and the
    /// short ones behind them. All operands of a part have one shape; what has no elements has no parts.
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

/// Output, source, scale and zero point with other layouts; the first two are data.
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

/// A layout with other axes in the place of one, some elements further on.
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

impl<B: BufferLike> Command<B> {
    /// `dst = src / scale + zero`, rounded with halves to even and saturated.
    ///
    /// `src` is floating point, `dst` is `u8`, `i8`, `u16` or `i16`. `scale` is `f32`, `f16` or `bf16`, and `zero`, which
    /// counts as 0 where it is absent, has the type of `dst`; both have one element, or with an axis one for each
    /// index of that axis. The quotient is rounded, to `f32` (`f64` for an input of `f64`) and then to
    /// an integer, before the zero point is added. NaN becomes the zero point.
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
        let (axis, dtype) = (axis.map(small), dst.layout.dtype());
        let op = Op::Quantize { axis, dtype, zero: zero.is_some(), block: None };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
    }

    /// `dst = (src - zero) · scale`.
    ///
    /// `src` is `u8`, `i8`, `u16`, `i16` or `i32`, `dst` is floating point. `scale` and `zero` are as for
    /// [`quantize`](Self::quantize), with `zero` of the type of `src`. The difference is exact.
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
        let (axis, dtype) = (axis.map(small), dst.layout.dtype());
        let op = Op::Dequantize { axis, dtype, zero: zero.is_some(), block: None };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
    }

    /// As [`quantize`](Self::quantize), with a scale and a zero point for every `block` neighbors along an axis.
    ///
    /// `scale` and `zero` have the shape of `src`, with `⌈size / block⌉` in place of the size of that axis: the
    /// last block may be shorter.
    ///
    /// # Errors
    ///
    /// As for [`quantize`](Self::quantize), or more axes than one fewer than a layout can have.
    pub fn quantize_blocks(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: usize,
        block: u32,
    ) -> Result<Self> {
        let (axis, dtype, has_zero) = (Some(small(axis)), dst.layout.dtype(), zero.is_some());
        let op = Op::Quantize { axis, dtype, zero: has_zero, block: Some(block) };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
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
        let (axis, dtype, has_zero) = (Some(small(axis)), dst.layout.dtype(), zero.is_some());
        let op = Op::Dequantize { axis, dtype, zero: has_zero, block: Some(block) };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
    }

    /// Eight-bit integers of `src`, with the scale that takes all of it in, or one for each row along the last
    /// axis: ONNX's DynamicQuantizeLinear in one Command.
    ///
    /// `src` is `f32`, `f16` or `bf16`, and `scale` is `f32`: one element (`[]`), or with `rows` the shape of
    /// `src` with a last axis of size 1, which [`matmul_integer`](Self::matmul_integer) takes for a zero point.
    /// To `u8` the range is stretched to hold 0, `scale = (max - min) / 255`, and `zero`, of the shape of
    /// `scale`, is `-min / scale`. To `i8`, `scale = max |src| / 127`, and `zero` is absent. Elements are then
    /// those of [`quantize`](Self::quantize).
    ///
    /// Where all is 0, or nothing is there, `scale` is 1. NaN does not count for the range, and becomes the zero
    /// point. A range beyond `f32` has an infinite scale, and every element becomes the zero point.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, rows of a `src` without axes, or operands that do not fit their
    /// buffers or overlap.
    pub fn dynamic_quantize(
        dst: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        src: Operand<B>,
        rows: bool,
    ) -> Result<Self> {
        let op = Op::DynamicQuantize { rows, dtype: dst.layout.dtype() };
        Self::new(op, [dst, scale].into_iter().chain(zero), [src])
    }
}

//! Pooling.

use super::check::Check;
use super::{BufferLike, Command, InPlace, MAX_SPATIAL, Op, Operand, PoolKind, PoolParams};
use crate::{DType, Result};

impl<B: BufferLike> Command<B> {
    /// Pooling of `[batch, channels, …]` over 1 to 3 spatial axes.
    ///
    /// The output's size is the caller's choice between the two rules: the windows that fit in the
    /// padded input, or one more where that last window begins inside the input or the padding before
    /// it (ONNX's and PyTorch's `ceil_mode`). Taps beyond the padding after the input are left out, and
    /// not counted by a mean that includes padding.
    ///
    /// The largest element may come with its place, as an index in the row-major order of the spatial
    /// axes of its own channel. The first of equal elements counts, and NaN is largest. (ONNX counts
    /// through the whole input: add `(batch · channels + channel) · size`.)
    ///
    /// # Errors
    ///
    /// A mean of integers or with indices, `bool`, sizes or types that do not match, a window, step or
    /// distance of 0, a window without an element, or operands that do not fit their buffers or
    /// overlap.
    pub fn pool(
        dst: Operand<B>,
        indices: Option<Operand<B>>,
        src: Operand<B>,
        params: PoolParams,
    ) -> Result<Self> {
        let check = Check("pool");
        check.same_dtype(&dst.layout, &src.layout)?;
        match params.kind {
            PoolKind::Max => check.number(&src.layout)?,
            PoolKind::Average { .. } => {
                check.float(&src.layout)?;
                check.that(indices.is_none(), || "only the largest element has a place".into())?;
            }
        }
        if let Some(indices) = &indices {
            check.dtype(&indices.layout, DType::I64)?;
            check.same_shape(&indices.layout, &dst.layout)?;
        }
        let spatial = usize::from(params.spatial);
        let (from, to) = (src.layout.shape(), dst.layout.shape());
        let ranks = (1..=MAX_SPATIAL).contains(&spatial)
            && from.len() == spatial + 2
            && to.len() == spatial + 2;
        check.that(ranks && from[..2] == to[..2], || {
            format!("output {to:?} for input {from:?} with {spatial} spatial axes")
        })?;
        for axis in 0..spatial {
            let window = Window::new(&params, axis);
            let (from, to) = (from[axis + 2], to[axis + 2]);
            let whole = window.kernel > 0 && window.stride > 0 && window.dilation > 0;
            check.that(whole, || format!("{window:?} has a size, step or distance of 0"))?;
            let (floor, ceil) = window.sizes(from as u64);
            check.that(to as u64 == floor || to as u64 == ceil, || {
                format!(
                    "{to} windows on a spatial axis of {from}: {window:?} gives {floor} or {ceil}"
                )
            })?;
            let windows = if dst.layout.is_empty() { 0 } else { to as u64 };
            if let Some(at) = (0..windows).find(|&at| !window.has_element(at, from as u64)) {
                return check.fail(format!(
                    "window {at} on a spatial axis of {from} has no element: {window:?}"
                ));
            }
        }
        let op = Op::Pool { params: Box::new(params) };
        Self::assemble(op, std::iter::once(dst).chain(indices), [src], InPlace::No)
    }
}

/// The window along one axis. No product of two of these numbers and a size overflows 128 bits, and
/// sizes that could overflow 64 bits do not fit memory.
#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: u64,
    stride: u64,
    dilation: u64,
    before: u64,
    after: u64,
}

impl Window {
    fn new(params: &PoolParams, axis: usize) -> Self {
        Window {
            kernel: params.kernel[axis].into(),
            stride: params.stride[axis].into(),
            dilation: params.dilation[axis].into(),
            before: params.pad_before[axis].into(),
            after: params.pad_after[axis].into(),
        }
    }

    /// The numbers of windows that the two rules give for an input of this size.
    fn sizes(&self, size: u64) -> (u64, u64) {
        let padded = size + self.before + self.after;
        let reach = self.dilation * (self.kernel - 1) + 1;
        let Some(room) = padded.checked_sub(reach) else { return (0, 0) };
        let (floor, ceil) = (room / self.stride + 1, room.div_ceil(self.stride) + 1);
        // The window that is one more must begin before the padding after the input.
        let late = (ceil - 1).saturating_mul(self.stride) >= size + self.before;
        (floor, if late { floor } else { ceil })
    }

    /// Whether a tap of the window at this place lies inside the input.
    fn has_element(&self, at: u64, size: u64) -> bool {
        let start = at * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let place = start + first * self.dilation;
        first < self.kernel && place < size + self.before
    }
}

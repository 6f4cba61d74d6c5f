//! The outputs of an operation for its inputs: the one place where shapes and element types are derived.
//!
//! Each rule is written once, over a [`Fit`]. Called from [`Op::infer`], rules derive the outputs. Called from
//! [`Command::new`], they compare outputs that are given, and broadcast inputs.

mod attention;
mod blocks;
mod cache;
mod compact;
mod elementwise;
mod fit;
mod fourier;
mod index;
mod names;
mod norm;
mod product;
mod quantize;
mod rearrange;
mod recurrent;
mod reduce;
mod rescale;
mod sample;
mod source;
mod window;

use fit::{Fit, Shape};
pub use names::Names;

use smallvec::SmallVec;

use super::{BufferLike, Command, Op, Operand};
use crate::{Error, Layout, Result};

/// The outputs of an operation, as [`Op::infer`] gives them.
pub type Outputs = SmallVec<[Layout; 1]>;

impl Op {
    /// The element type and shape of every output for these inputs, as dense layouts. Sizes never depend on values.
    /// If the data decides on the number of results, outputs have room for the largest number, and one of them
    /// ([`count_output`](Op::count_output)) says how many there are.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`](crate::Error::Mismatch) names the operand or parameter that does not fit.
    ///
    /// # Example
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{Epilogue, Op};
    /// use millstream::memory::Layout;
    /// use millstream::DType;
    ///
    /// let matrix = |shape: &[usize]| Layout::contiguous(DType::F32, shape).unwrap();
    /// let product = Op::MatMul { epilogue: Epilogue::default() };
    /// let outputs = product.infer(&[&matrix(&[7, 2, 3]), &matrix(&[3, 5])]).unwrap();
    /// assert_eq!(outputs[0].shape(), [7, 2, 5]);
    ///
    /// let error = product.infer(&[&matrix(&[2, 3]), &matrix(&[4, 5])]).unwrap_err();
    /// assert_eq!(error.to_string(), "matmul: b is f32[4, 5], expected 3 rows, to fit a of shape [2, 3]");
    /// ```
    pub fn infer(&self, inputs: &[&Layout]) -> Result<Outputs> {
        let mut outputs = Outputs::new();
        self.fit(&mut Fit::<()>::infer(self, inputs, &mut outputs))?;
        Ok(outputs)
    }

    /// The rules of every operation.
    fn fit<B>(&self, fit: &mut Fit<'_, B>) -> Result<()> {
        fit.count()?;
        // These check storage-only types themselves.
        let stores = matches!(self, Op::Copy { .. } | Op::Download { .. } | Op::Quantize { .. });
        if !stores && !matches!(self, Op::Dequantize { .. }) {
            fit.wants_computed()?;
        }
        match self {
            Op::Fill { spec, value: _ } => source::fill(fit, spec),
            Op::Iota { params } => source::iota(fit, params),
            Op::Copy { dtype, saturate: _ } => elementwise::copy(fit, *dtype),
            Op::Unary { op } => elementwise::unary(fit, *op),
            Op::Binary { op } => elementwise::binary(fit, *op),
            Op::Where => elementwise::choose(fit),
            Op::Clip { min, max } => elementwise::clip(fit, *min, *max),
            Op::Chain { chain } => elementwise::chain(fit, chain),
            Op::Reduce { op, axes } => reduce::reduce(fit, *op, *axes),
            Op::CumSum { axis, exclusive: _, reverse: _, product: _ } => reduce::cumsum(fit, *axis),
            Op::Softmax { axis, log: _ } => reduce::softmax(fit, *axis),
            Op::LayerNorm { axes, epsilon, weight: _, bias: _, moments } => {
                norm::trailing(fit, *axes, *epsilon, *moments)
            }
            Op::RmsNorm { axes, epsilon, weight: _ } => norm::trailing(fit, *axes, *epsilon, false),
            Op::GroupNorm { groups, epsilon, weight: _, bias: _ } => {
                norm::groups(fit, *groups, *epsilon)
            }
            Op::MatMul { epilogue } => product::matmul(fit, epilogue),
            Op::PackWeights { bytes } => product::pack(fit, *bytes),
            Op::MatMulPacked { columns, epilogue: _ } => product::packed(fit, *columns),
            Op::MatMulBlocks { bits, block, zeros, epilogue: _ } => {
                blocks::matmul(fit, *bits, *block, *zeros)
            }
            Op::Conv { params, epilogue } => window::conv(fit, params, epilogue.bias),
            Op::ConvTranspose { params, epilogue } => {
                window::conv_transpose(fit, params, epilogue.bias)
            }
            Op::Pool { params } => window::pool(fit, params),
            Op::Gather { axis } => index::gather(fit, usize::from(*axis)),
            Op::GatherElements { axis } => index::gather_elements(fit, *axis),
            Op::GatherNd { batch_axes } => index::gather_nd(fit, *batch_axes),
            Op::ScatterElements { axis, reduction } => {
                index::scatter_elements(fit, *axis, *reduction)
            }
            Op::ScatterNd { reduction } => index::scatter_nd(fit, *reduction),
            Op::CacheWrite { axis, circular: _, positions } => {
                cache::write(fit, usize::from(*axis), *positions)
            }
            Op::Rope { interleaved: _, positions } => cache::rope(fit, *positions),
            Op::Embedding => index::embedding(fit),
            Op::TopK { axis, k, largest: _, sorted: _ } => rearrange::top_k(fit, *axis, *k),
            Op::Resize { params } => rearrange::resize(fit, params),
            Op::Pad { params } => rearrange::pad(fit, params),
            Op::Reverse { axes, batch_axis } => rearrange::reverse(fit, *axes, *batch_axis),
            Op::NonZero => compact::nonzero(fit),
            Op::Compress { axis } => compact::compress(fit, *axis),
            Op::Unique { axis, sorted: _ } => compact::unique(fit, *axis),
            Op::NonMaxSuppression { most, overlap, score, centered: _ } => {
                compact::suppress(fit, *most, *overlap, *score)
            }
            Op::DeformConv { params } => window::deform_conv(fit, params),
            Op::GridSample { mode: _, padding: _, align_corners: _ } => sample::grid_sample(fit),
            Op::RoiAlign { params } => sample::roi_align(fit, *params),
            Op::Attention { params } => attention::attention(fit, params),
            Op::Recurrent { params } => recurrent::recurrent(fit, params),
            Op::Dft { axis, inverse, onesided, length } => {
                fourier::dft(fit, *axis, *inverse, *onesided, *length)
            }
            Op::Stft { frame, hop, onesided, window: _ } => {
                fourier::stft(fit, *frame, *hop, *onesided)
            }
            Op::Quantize { axis, dtype, zero: _, block } => {
                quantize::quantize(fit, (*axis, *block), *dtype)
            }
            Op::Dequantize { axis, dtype, zero: _, block } => {
                quantize::dequantize(fit, (*axis, *block), *dtype)
            }
            Op::DynamicQuantize { range, dtype } => quantize::dynamic(fit, *range, *dtype),
            Op::MatMulInteger { a_zero, b_zero, rescale } => {
                product::matmul_integer(fit, [*a_zero, *b_zero], rescale.as_ref())
            }
            Op::ConvInteger { params, src_zero, weight_zero, rescale } => {
                window::conv_integer(fit, params, [*src_zero, *weight_zero], rescale.as_ref())
            }
            Op::Random { distribution, spec, seed: _, offset: _ } => {
                source::random(fit, *distribution, spec)
            }
            Op::Upload { source, spec } => source::upload(fit, source, spec),
            Op::Download { target } => source::download(fit, target),
            Op::Timestamp => source::timestamp(fit),
        }
    }
}

impl<B: BufferLike> Command<B> {
    /// An operation with its operands: outputs, then inputs in the order of [`Op`]. Optional inputs that are absent
    /// leave no gap. Every other constructor ends here.
    ///
    /// Inputs broadcast where the operation allows it: a bias, a mask, the operands of elementwise operations.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`](crate::Error::Mismatch) as from [`Op::infer`], or for an output that does not match the
    /// operation; [`Error::Invalid`](crate::Error::Invalid) for operands that do not fit their buffers or overlap.
    #[inline]
    pub fn new(
        op: Op,
        outputs: impl IntoIterator<Item = Operand<B>>,
        inputs: impl IntoIterator<Item = Operand<B>>,
    ) -> Result<Self> {
        let mut command = Self::of(op);
        for Operand { buffer, layout } in outputs {
            command.push(buffer, &layout);
        }
        // More outputs than a byte can count are more than any operation has, and are refused below.
        command.outputs = command.operands.len().min(usize::from(u16::MAX)) as u16;
        for Operand { buffer, layout } in inputs {
            command.push(buffer, &layout);
        }
        command.fit()?;
        command.check()?;
        Ok(command)
    }

    /// An operation on these inputs, with outputs that are allocated for it: `place` is called with the dense layout
    /// of each and returns a buffer. This costs less than [`Op::infer`] followed by [`new`](Self::new), because the
    /// rules run once.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and the errors of `place`.
    pub fn infer<E: From<Error>>(
        op: Op,
        inputs: &[(B, &Layout)],
        mut place: impl FnMut(&Layout) -> Result<B, E>,
    ) -> Result<Self, E>
    where
        B: Copy,
    {
        let mut command = Self::of(op);
        let mut outputs = Outputs::new();
        let (count, _) = command.op.operand_counts();
        command.operands.reserve(count + inputs.len());
        // SAFETY: there is room for all operands. Inputs are written behind the places of the outputs, completely,
        // before they are read. The length is set after all operands are written. If this function returns early,
        // nothing is dropped; that leaks nothing, since operands are `Copy`.
        unsafe {
            let first = command.operands.as_mut_ptr().add(count);
            for (index, (buffer, layout)) in inputs.iter().enumerate() {
                let place = first.add(index);
                (&raw mut (*place).buffer).write(*buffer);
                (&raw mut (*place).layout).copy_from_nonoverlapping(*layout, 1);
            }
            let bound = std::slice::from_raw_parts_mut(first, inputs.len());
            command.op.fit(&mut Fit::bind(&command.op, bound, &mut outputs))?;
            // If the rules stated too few outputs, one would stay unwritten.
            assert_eq!(outputs.len(), count, "the rules of {} name all outputs", command.op.name());
            for (index, layout) in outputs.iter().enumerate() {
                let buffer = place(layout)?;
                let place = command.operands.as_mut_ptr().add(index);
                (&raw mut (*place).buffer).write(buffer);
                (&raw mut (*place).layout).copy_from_nonoverlapping(layout, 1);
            }
            command.operands.set_len(count + inputs.len());
        }
        command.outputs = count as u16;
        if let Some((_, input)) = inputs.first() {
            command.op.convert_limits(input.dtype());
        }
        command.check()?;
        Ok(command)
    }

    /// Checks the operands against the operation and broadcasts inputs.
    pub(super) fn fit(&mut self) -> Result<()> {
        let (outputs, inputs) = self.operands.split_at_mut(usize::from(self.outputs));
        self.op.fit(&mut Fit::compare(&self.op, outputs, inputs))?;
        if let Some(input) = inputs.first() {
            self.op.convert_limits(input.layout.dtype());
        }
        Ok(())
    }
}

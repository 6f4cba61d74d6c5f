//! What an operation makes of its inputs: the one place where shapes and element types are derived.
//!
//! The rules are written once, over a [`Fit`]. Asked by [`Op::infer`] they say what the outputs are; asked by
//! [`Command::new`] they compare the outputs that are there, and stretch inputs that repeat.

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
    /// What the operation makes of these inputs: the element type and shape of every output, with a dense
    /// layout. No size depends on values: where only the data knows how much there is, outputs have room for all
    /// that there may be, and one of them ([`count_output`](Op::count_output)) says how much it is.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`](crate::Error::Mismatch) names the operand or parameter that does not fit.
    ///
    /// # Example
    ///
    /// ```
    /// use millstream_core::{DType, Epilogue, Layout, Op};
    ///
    /// let matrix = |shape: &[usize]| Layout::contiguous(DType::F32, shape).unwrap();
    /// let product = Op::MatMul { epilogue: Epilogue::default() };
    /// let outputs = product.infer(&[&matrix(&[7, 2, 3]), &matrix(&[3, 5])]).unwrap();
    /// assert_eq!(outputs[0].shape(), [7, 2, 5]);
    ///
    /// let error = product.infer(&[&matrix(&[2, 3]), &matrix(&[4, 5])]).unwrap_err();
    /// assert_eq!(error.to_string(), "matmul: b is f32 [4, 5], expected 3 rows, to fit a of shape [2, 3]");
    /// ```
    pub fn infer(&self, inputs: &[&Layout]) -> Result<Outputs> {
        let mut outputs = Outputs::new();
        self.fit(&mut Fit::<()>::infer(self, inputs, &mut outputs))?;
        Ok(outputs)
    }

    /// The rules of every operation.
    fn fit<B>(&self, fit: &mut Fit<'_, B>) -> Result<()> {
        fit.count()?;
        if !matches!(self, Op::Copy { .. } | Op::Download { .. }) {
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
            Op::LayerNorm { axes, epsilon, weight: _, bias: _ }
            | Op::RmsNorm { axes, epsilon, weight: _ } => norm::trailing(fit, *axes, *epsilon),
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
            Op::DynamicQuantize { rows, dtype } => quantize::dynamic(fit, *rows, *dtype),
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
    /// An operation with its operands: outputs, then inputs in the order of [`Op`], absent ones left out.
    /// Every other constructor ends here.
    ///
    /// Inputs that repeat (a bias, a mask, the operands of elementwise operations) broadcast.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`](crate::Error::Mismatch) where [`Op::infer`] gives it, or for an output that is not
    /// what the operation makes; [`Error::Invalid`](crate::Error::Invalid) for operands that do
    /// not fit their buffers, or overlap.
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
        // A Command has few outputs: one that had more than a byte counts is refused for their number.
        command.outputs = command.operands.len().min(usize::from(u8::MAX)) as u8;
        for Operand { buffer, layout } in inputs {
            command.push(buffer, &layout);
        }
        command.fit()?;
        command.check()?;
        Ok(command)
    }

    /// An operation on these inputs, with outputs that are made for it: `place` is asked for a buffer for each, by
    /// its dense layout. It costs less than [`Op::infer`] and [`new`](Self::new) after each other, since the
    /// rules are gone through once.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and those of `place`.
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
        // SAFETY: there is room for all operands. Inputs are written whole, behind the place of the outputs,
        // before they are looked at; operands count once all of them are written. Until then nothing is
        // dropped if this is left early, and nothing needs to be, since operands are `Copy`.
        unsafe {
            let first = command.operands.as_mut_ptr().add(count);
            for (index, (buffer, layout)) in inputs.iter().enumerate() {
                let place = first.add(index);
                (&raw mut (*place).buffer).write(*buffer);
                (&raw mut (*place).layout).copy_from_nonoverlapping(*layout, 1);
            }
            let bound = std::slice::from_raw_parts_mut(first, inputs.len());
            command.op.fit(&mut Fit::bind(&command.op, bound, &mut outputs))?;
            // A rule that names fewer outputs than the operation has would leave one unwritten.
            assert_eq!(outputs.len(), count, "the rules of {} name all outputs", command.op.name());
            for (index, layout) in outputs.iter().enumerate() {
                let buffer = place(layout)?;
                let place = command.operands.as_mut_ptr().add(index);
                (&raw mut (*place).buffer).write(buffer);
                (&raw mut (*place).layout).copy_from_nonoverlapping(layout, 1);
            }
            command.operands.set_len(count + inputs.len());
        }
        command.outputs = count as u8;
        if let Some((_, input)) = inputs.first() {
            command.op.convert_limits(input.dtype());
        }
        command.check()?;
        Ok(command)
    }

    /// Checks operands against the operation, and stretches those that repeat.
    pub(super) fn fit(&mut self) -> Result<()> {
        let (outputs, inputs) = self.operands.split_at_mut(usize::from(self.outputs));
        self.op.fit(&mut Fit::compare(&self.op, outputs, inputs))?;
        if let Some(input) = inputs.first() {
            self.op.convert_limits(input.layout.dtype());
        }
        Ok(())
    }
}

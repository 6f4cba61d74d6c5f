//! The operands of a Command by name.
//!
//! An optional operand that is absent leaves no gap, so the position of an operand depends on the parameters.
//! Backends use these views and do not count positions themselves.

use super::{Command, Op, Operand, Rescale};
use crate::DType;

macro_rules! views {
    ($(
        $(#[$doc:meta])*
        $view:ident for $($op:ident)|+ {
            out: $($output:ident)* $(| $($output_option:ident if $output_given:expr),*)?;
            in: $($input:ident)* $(| $($option:ident if $given:expr),*)?;
        }
    )*) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs)]
            #[derive(Debug)]
            pub struct $view<'a, B> {
                $(pub $output: &'a Operand<B>,)*
                $($(pub $output_option: Option<&'a Operand<B>>,)*)?
                $(pub $input: &'a Operand<B>,)*
                $($(pub $option: Option<&'a Operand<B>>,)*)?
            }

            impl<'a, B> $view<'a, B> {
                /// The operands of a Command.
                ///
                /// # Panics
                ///
                /// If the Command has another operation. Call it only where the operation is known.
                pub fn of(command: &'a Command<B>) -> Self {
                    let known = matches!(command.op(), $(Op::$op { .. })|+);
                    assert!(known, "{} has no such operands", command.op().name());
                    let mut outputs = command.outputs().iter();
                    let mut inputs = command.inputs().iter();
                    // The number of operands was checked when the Command was made.
                    let next = |operands: &mut std::slice::Iter<'a, Operand<B>>| {
                        operands.next().expect("a Command has all its operands")
                    };
                    Self {
                        $($output: next(&mut outputs),)*
                        $($($output_option: given(command.op(), $output_given).then(|| next(&mut outputs)),)*)?
                        $($input: next(&mut inputs),)*
                        $($($option: given(command.op(), $given).then(|| next(&mut inputs)),)*)?
                    }
                }
            }
        )*
    };
}

fn given(op: &Op, says: impl Fn(&Op) -> bool) -> bool {
    says(op)
}

fn bias(op: &Op) -> bool {
    match op {
        Op::MatMul { epilogue }
        | Op::MatMulPacked { epilogue, .. }
        | Op::MatMulBlocks { epilogue, .. }
        | Op::Conv { epilogue, .. }
        | Op::ConvTranspose { epilogue, .. } => epilogue.bias,
        Op::LayerNorm { bias, .. } | Op::GroupNorm { bias, .. } => *bias,
        Op::Recurrent { params } => params.bias,
        Op::DeformConv { params } => params.bias,
        _ => rescale(op).is_some_and(|rescale| rescale.bias),
    }
}

fn residual(op: &Op) -> bool {
    match op {
        Op::MatMul { epilogue }
        | Op::MatMulPacked { epilogue, .. }
        | Op::MatMulBlocks { epilogue, .. }
        | Op::Conv { epilogue, .. }
        | Op::ConvTranspose { epilogue, .. } => epilogue.residual,
        _ => rescale(op).is_some_and(|rescale| rescale.residual),
    }
}

/// How the sums of integers are rescaled.
fn rescale(op: &Op) -> Option<&Rescale> {
    match op {
        Op::MatMulInteger { rescale, .. } | Op::ConvInteger { rescale, .. } => rescale.as_ref(),
        _ => None,
    }
}

fn weight(op: &Op) -> bool {
    match op {
        Op::LayerNorm { weight, .. }
        | Op::RmsNorm { weight, .. }
        | Op::GroupNorm { weight, .. } => *weight,
        _ => false,
    }
}

fn moments(op: &Op) -> bool {
    matches!(op, Op::LayerNorm { moments: true, .. })
}

/// Whether the first and the second zero point are given.
fn zeros(op: &Op) -> [bool; 2] {
    match op {
        Op::MatMulInteger { a_zero, b_zero, .. } => [*a_zero, *b_zero],
        Op::ConvInteger { src_zero, weight_zero, .. } => [*src_zero, *weight_zero],
        Op::Quantize { zero, .. } | Op::Dequantize { zero, .. } => [*zero, false],
        _ => [false; 2],
    }
}

views! {
    /// The operands of a matrix product. `b` is the packed buffer if weights are packed.
    MatMulOperands for MatMul | MatMulPacked {
        out: dst;
        in: a b | bias if bias, residual if residual;
    }
    /// The operands of a matrix product with block-quantized weights.
    MatMulBlocksOperands for MatMulBlocks {
        out: dst;
        in: a weights scales
            | zeros if |op| matches!(op, Op::MatMulBlocks { zeros: true, .. }),
              bias if bias,
              residual if residual;
    }
    /// The operands of a convolution.
    ConvOperands for Conv | ConvTranspose {
        out: dst;
        in: src weight | bias if bias, residual if residual;
    }
    /// The operands of a deformable convolution.
    DeformConvOperands for DeformConv {
        out: dst;
        in: src weight offset
            | bias if bias,
              mask if |op| matches!(op, Op::DeformConv { params } if params.mask);
    }
    /// The operands of a convolution of 8-bit integers.
    ConvIntegerOperands for ConvInteger {
        out: dst;
        in: src weight
            | src_zero if |op| zeros(op)[0],
              weight_zero if |op| zeros(op)[1],
              src_scale if |op| rescale(op).is_some(),
              weight_scale if |op| rescale(op).is_some(),
              bias if bias,
              residual if residual,
              dst_scale if |op| rescale(op).is_some_and(Rescale::is_byte),
              dst_zero if |op| rescale(op).is_some_and(|rescale| rescale.zero);
    }
    /// The operands of a matrix product of 8-bit integers.
    MatMulIntegerOperands for MatMulInteger {
        out: dst;
        in: a b
            | a_zero if |op| zeros(op)[0],
              b_zero if |op| zeros(op)[1],
              a_scale if |op| rescale(op).is_some(),
              b_scale if |op| rescale(op).is_some(),
              bias if bias,
              residual if residual,
              dst_scale if |op| rescale(op).is_some_and(Rescale::is_byte),
              dst_zero if |op| rescale(op).is_some_and(|rescale| rescale.zero);
    }
    /// The operands of a normalization.
    NormOperands for LayerNorm | RmsNorm | GroupNorm {
        out: dst | mean if moments, rstd if moments;
        in: src | weight if weight, bias if bias;
    }
    /// The operands of pooling.
    PoolOperands for Pool {
        out: dst | indices if |op| matches!(op, Op::Pool { params } if params.indices);
        in: src;
    }
    /// The operands of a reversal.
    ReverseOperands for Reverse {
        out: dst;
        in: src | lengths if |op| matches!(op, Op::Reverse { batch_axis: Some(_), .. });
    }
    /// The operands of attention.
    AttentionOperands for Attention {
        out: dst;
        in: query key value
            | mask if |op| matches!(op, Op::Attention { params } if params.mask),
              lengths if |op| matches!(op, Op::Attention { params } if params.lengths);
    }
    /// The operands of a write into a cache.
    CacheWriteOperands for CacheWrite {
        out: dst;
        in: cache update
            | positions if |op| matches!(op, Op::CacheWrite { positions: true, .. });
    }
    /// The operands of a rotary embedding.
    RopeOperands for Rope {
        out: dst;
        in: src cos sin | positions if |op| matches!(op, Op::Rope { positions: true, .. });
    }
    /// The operands of a short-time Fourier transform.
    StftOperands for Stft {
        out: dst;
        in: signal | window if |op| matches!(op, Op::Stft { window: true, .. });
    }
    /// The operands of quantization and dequantization.
    QuantizeOperands for Quantize | Dequantize {
        out: dst;
        in: src scale | zero if |op| zeros(op)[0];
    }
    /// The operands of dynamic quantization.
    DynamicQuantizeOperands for DynamicQuantize {
        out: dst scale | zero if |op| matches!(op, Op::DynamicQuantize { dtype: DType::U8, .. });
        in: src;
    }
    /// The operands of a recurrent layer.
    RecurrentOperands for Recurrent {
        out: sequence hidden | cell if is_lstm;
        in: src w_input w_hidden
            | bias if bias,
              hidden_0 if |op| matches!(op, Op::Recurrent { params } if params.initial_hidden),
              cell_0 if |op| matches!(op, Op::Recurrent { params } if params.initial_cell),
              lengths if |op| matches!(op, Op::Recurrent { params } if params.lengths),
              peepholes if |op| variant(op).peepholes,
              input_scale if |op| variant(op).quantized,
              hidden_scale if |op| variant(op).quantized,
              input_zero if |op| variant(op).zeros,
              hidden_zero if |op| variant(op).zeros;
    }
}

fn variant(op: &Op) -> super::RecurrentVariant {
    match op {
        Op::Recurrent { params } => params.variant,
        _ => super::RecurrentVariant::default(),
    }
}

fn is_lstm(op: &Op) -> bool {
    matches!(op, Op::Recurrent { params } if params.cell == super::RecurrentCell::Lstm)
}

#[cfg(test)]
mod tests;

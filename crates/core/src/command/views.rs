//! The operands of a Command by name.
//!
//! An optional operand that is absent leaves no gap among the others, so its place depends on the parameters.
//! Backends do not count: they take a view, which knows.

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
            pub struct $view<'a, B> {
                $(pub $output: &'a Operand<B>,)*
                $($(pub $output_option: Option<&'a Operand<B>>,)*)?
                $(pub $input: &'a Operand<B>,)*
                $($(pub $option: Option<&'a Operand<B>>,)*)?
            }

            impl<'a, B> $view<'a, B> {
                /// Those of a Command.
                ///
                /// # Panics
                ///
                /// A Command of another operation: to be called where the operation is known.
                pub fn of(command: &'a Command<B>) -> Self {
                    let known = matches!(command.op(), $(Op::$op { .. })|+);
                    assert!(known, "{} has no such operands", command.op().name());
                    let mut outputs = command.outputs().iter();
                    let mut inputs = command.inputs().iter();
                    // As many as the operation has were counted when the Command was made.
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

/// What is made of the sums of integers.
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

/// What is there besides: the first of two zero points, and the second.
fn zeros(op: &Op) -> [bool; 2] {
    match op {
        Op::MatMulInteger { a_zero, b_zero, .. } => [*a_zero, *b_zero],
        Op::ConvInteger { src_zero, weight_zero, .. } => [*src_zero, *weight_zero],
        Op::Quantize { zero, .. } | Op::Dequantize { zero, .. } => [*zero, false],
        _ => [false; 2],
    }
}

views! {
    /// The operands of a matrix product. `b` is what was packed where weights are.
    MatMulOperands for MatMul | MatMulPacked {
        out: dst;
        in: a b | bias if bias, residual if residual;
    }
    /// The operands of a matrix product with weights of few bits.
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
    /// The operands of a convolution whose taps are moved.
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
        out: dst;
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
    /// The operands of a part that is written into a cache.
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
    /// The operands of a conversion to or from integers with a scale.
    QuantizeOperands for Quantize | Dequantize {
        out: dst;
        in: src scale | zero if |op| zeros(op)[0];
    }
    /// The operands of a conversion to integers with the scale that suits the data.
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
mod tests {
    use super::*;
    use crate::command::tests::f32s;
    use crate::{Activation, RawBuffer};

    #[test]
    fn operands_are_found_whatever_is_left_out() {
        let [dst, a, b] = [f32s(1, &[2, 4]), f32s(2, &[2, 3]), f32s(3, &[3, 4])];
        let (bias, residual) = (f32s(4, &[4]), f32s(5, &[2, 4]));
        let place = |operand: Option<&Operand<RawBuffer>>| operand.map(|at| at.buffer.address);
        for has_bias in [false, true] {
            for has_residual in [false, true] {
                let (bias, residual) = (has_bias.then_some(bias), has_residual.then_some(residual));
                let product =
                    Command::matmul(dst, a, b, bias, residual, 1.0, Activation::None).unwrap();
                let view = MatMulOperands::of(&product);
                assert_eq!(
                    [place(Some(view.dst)), place(Some(view.b))],
                    [place(Some(&dst)), place(Some(&b))]
                );
                assert_eq!(place(view.bias), place(bias.as_ref()));
                assert_eq!(place(view.residual), place(residual.as_ref()));
            }
        }
    }
}

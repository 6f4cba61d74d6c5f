//! Devices that take subnormal numbers of `f32` for zeros, and give zeros for them, as Apple's GPUs do in every mode.
//!
//! They load and store all bits: what only moves elements is exact on them too. What computes may give what follows from
//! inputs that were flushed, and a zero where the right answer is subnormal. `bf16` is computed in `f32` and has
//! subnormal numbers of the same size; those of `f16` are ordinary numbers of `f32`.

use millstream_core::{BinaryOp, DType, Op, ResizeMode, ScatterReduction, UnaryOp};

use crate::reference::reference_of;
use crate::{Case, Dense, Expected, Value};

/// What a device that flushes may give beside what the reference expects, for each element; nothing where the operation
/// only moves elements.
pub(crate) fn alternatives(case: &Case) -> Option<Vec<Expected>> {
    if moves(case) {
        return None;
    }
    let inputs = case.input_values();
    let flushed = inputs.iter().cloned().map(flush).collect();
    let mut expected = reference_of(case, flushed);
    if matches!(case.op, Op::Clip { .. } | Op::Unary { op: UnaryOp::Relu }) {
        let elements = inputs[0].values.iter();
        expected
            .iter_mut()
            .zip(elements)
            .for_each(|(expected, value)| keep_within(expected, *value));
    }
    if matches!(case.op, Op::Binary { op: BinaryOp::Min | BinaryOp::Max }) {
        let shape = case.outputs()[0].layout.shape();
        let [left, right] = [0, 1].map(|at| inputs[at].broadcast(shape));
        let pairs = left.values.iter().zip(&right.values);
        expected
            .iter_mut()
            .zip(pairs)
            .for_each(|(expected, (left, right))| keep_either(expected, [*left, *right]));
    }
    Some(expected)
}

/// Of two numbers that are compared as zeros either may be the smaller one, and is given as it is, or as a zero.
fn keep_either(expected: &mut Expected, inputs: [Value; 2]) {
    if is_zero(expected) {
        let numbers = inputs.map(|input| match input {
            Value::Float(number) if is_subnormal(number) => number,
            _ => 0.0,
        });
        let (low, high) = numbers
            .iter()
            .fold((0f64, 0f64), |(low, high), number| (low.min(*number), high.max(*number)));
        *expected = Expected::Between { low, high };
    }
}

fn is_zero(expected: &Expected) -> bool {
    match *expected {
        Expected::Exact(Value::Float(kept)) => kept == 0.0,
        Expected::Near { value, .. } => value == 0.0,
        _ => false,
    }
}

/// A number within limits stays as it is, and ReLU is a limit. A subnormal one is compared as a zero, and is what it is all the same.
fn keep_within(expected: &mut Expected, input: Value) {
    if let Value::Float(number) = input
        && is_subnormal(number)
        && is_zero(expected)
    {
        *expected = Expected::Exact(input);
    }
}

/// Whether a device that flushes may give this element.
pub(crate) fn accepts(expected: &Expected, dtype: DType, got: Value) -> bool {
    let zero = match (*expected, got) {
        (Expected::Exact(Value::Float(value)), Value::Float(got)) => {
            is_subnormal(value) && got.to_bits() == 0f64.copysign(value).to_bits()
        }
        _ => false,
    };
    zero || expected.accepts(dtype, got)
}

fn is_subnormal(value: f64) -> bool {
    value != 0.0 && value.abs() < f64::from(f32::MIN_POSITIVE)
}

fn flush(mut dense: Dense) -> Dense {
    if matches!(dense.dtype, DType::F32 | DType::BF16) {
        for value in &mut dense.values {
            if let Value::Float(number) = value
                && is_subnormal(*number)
            {
                *number = 0f64.copysign(*number);
            }
        }
    }
    dense
}

/// Whether an operation moves elements as they are.
fn moves(case: &Case) -> bool {
    match &case.op {
        Op::Fill { .. } | Op::Where | Op::Pad { .. } | Op::Reverse { .. } => true,
        Op::Gather { .. } | Op::Embedding | Op::GatherElements { .. } | Op::GatherNd { .. } => true,
        Op::CacheWrite { .. } | Op::Upload { .. } | Op::Download { .. } => true,
        // Their order is that of their bits.
        Op::TopK { .. } | Op::Unique { .. } => true,
        Op::ScatterElements { reduction, .. } | Op::ScatterNd { reduction } => {
            *reduction == ScatterReduction::Replace
        }
        Op::Resize { params } => matches!(params.mode, ResizeMode::Nearest(_)),
        Op::Copy { .. } => {
            let dtype = |operands: &[crate::CaseOperand]| operands[0].layout.dtype();
            dtype(case.inputs()) == dtype(case.outputs())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::OpKind;

    use super::*;
    use crate::cases;

    #[test]
    fn the_smaller_of_two_that_count_as_zeros_may_be_either_and_nothing_else() {
        let named = |case: &Case| case.name == "binary/Min/f32/subnormal";
        let case = cases(OpKind::Binary).into_iter().find(named).unwrap();
        let expected = alternatives(&case).unwrap();
        let inputs = case.input_values();
        let shape = case.outputs()[0].layout.shape();
        let [left, right] = [0, 1].map(|at| inputs[at].broadcast(shape).values);
        let mut both = 0;
        for ((left, right), expected) in left.iter().zip(&right).zip(&expected) {
            let (Value::Float(a), Value::Float(b)) = (*left, *right) else { unreachable!() };
            let accepts = |number: f64| accepts(expected, DType::F32, Value::Float(number));
            if is_subnormal(a) && is_subnormal(b) {
                both += 1;
                assert!(accepts(a) && accepts(b) && accepts(0.0), "{a} {b} {expected}");
            }
            let beyond = f64::from(f32::MIN_POSITIVE);
            assert!(a.min(b) == -beyond || !accepts(-beyond), "{a} {b} {expected}");
            assert!(a.min(b) == beyond || !accepts(beyond), "{a} {b} {expected}");
        }
        assert_eq!(both, 100);
    }
}

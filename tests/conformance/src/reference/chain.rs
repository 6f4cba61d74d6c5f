//! Elementwise steps, one after the other.

use millstream_core::{Chain, ChainOp, ChainTerm, DType};

use super::{binary, convert, select, unary};
use crate::{Dense, Expected, Value, accuracy, decode, encode};

/// The inputs have the shape of the output.
pub(super) fn apply(chain: &Chain, inputs: &[Dense]) -> Vec<Expected> {
    let mut results: Vec<Dense> = Vec::new();
    let mut made = Vec::new();
    for (place, step) in chain.steps().iter().enumerate() {
        let term = |term: &ChainTerm| match term {
            ChainTerm::Input(place) => inputs[usize::from(*place)].clone(),
            ChainTerm::Step(place) => results[usize::from(*place)].clone(),
        };
        let terms: Vec<Dense> = step.terms().iter().map(term).collect();
        let dtype = chain.results()[place];
        made = match (step.op(), &terms[..]) {
            (ChainOp::Cast { dtype }, [x]) => {
                x.values.iter().map(|value| Expected::Exact(convert(*value, dtype))).collect()
            }
            (ChainOp::Unary { op }, [x]) => unary::apply(op, x),
            (ChainOp::Binary { op }, [a, b]) => binary::apply(op, a, b),
            (ChainOp::Where, [condition, a, b]) => {
                select::choose(&[condition.clone(), a.clone(), b.clone()])
            }
            (ChainOp::Clip { min, max }, [x]) => select::clip(min, max, x),
            (op, terms) => panic!("{op:?} of {} operands", terms.len()),
        };
        let values = if place + 1 < chain.steps().len() {
            made.iter().map(|expected| stored(*expected, dtype)).collect()
        } else {
            Vec::new()
        };
        results.push(Dense { dtype, shape: terms[0].shape.clone(), values });
    }
    if chain.steps().len() == 1 {
        return made;
    }
    // Where a result was zero on the way, its sign is open.
    let open = |expected: Expected| match expected {
        Expected::Exact(Value::Float(value)) => Expected::Near { value, tolerance: 0.0 },
        other => other,
    };
    made.into_iter().map(open).collect()
}

/// The one value that every device stores for a result on the way.
///
/// # Panics
///
/// A result that devices may differ in, since nothing could be said of what is made of it.
fn stored(expected: Expected, dtype: DType) -> Value {
    let value = match expected {
        Expected::Exact(value) => value,
        Expected::Near { value, tolerance } if tolerance <= accuracy::smallest(dtype) => {
            Value::Float(value)
        }
        other => panic!("{other} in the middle of a chain"),
    };
    decode(dtype, &encode(dtype, value))
}

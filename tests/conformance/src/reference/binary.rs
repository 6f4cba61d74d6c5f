//! Functions of two elements.

use millstream_core::{BinaryOp, DType};

use super::{integer, near};
use crate::{Dense, Expected, Value, accuracy};

pub(super) fn apply(op: BinaryOp, a: &Dense, b: &Dense) -> Vec<Expected> {
    let pairs = a.values.iter().zip(&b.values);
    pairs
        .map(|pair| match pair {
            (&Value::Int(x), &Value::Int(y)) => integer::binary(op, a.dtype, x, y),
            (x, y) => float(op, a.dtype, x.as_f64(), y.as_f64()),
        })
        .collect()
}

fn float(op: BinaryOp, dtype: DType, a: f64, b: f64) -> Expected {
    use BinaryOp::*;
    let truth = |holds: bool| Expected::Exact(Value::Int(i128::from(holds)));
    let value = match op {
        Equal => return truth(a == b),
        NotEqual => return truth(a != b),
        Less => return truth(a < b),
        LessEqual => return truth(a <= b),
        Greater => return truth(a > b),
        GreaterEqual => return truth(a >= b),
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        Pow => a.powf(b),
        Min | Max if a.is_nan() || b.is_nan() => f64::NAN,
        Min => a.min(b),
        Max => a.max(b),
        Mod => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        Fmod => a % b,
        Atan2 => a.atan2(b),
        Prelu => {
            if a >= 0.0 {
                a
            } else {
                a * b
            }
        }
        And | Or | Xor | ShiftLeft | ShiftRight => panic!("{op:?} is not a function of numbers"),
    };
    near(value, accuracy::binary(op, dtype, a, b, value))
}

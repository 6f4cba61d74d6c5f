//! Functions of integer and `bool` elements.

use millstream_core::{BinaryOp, DType, UnaryOp};

use crate::Expected;
use crate::Value;
use crate::value::wrap;

pub(super) fn unary(op: UnaryOp, dtype: DType, x: i128) -> i128 {
    if dtype == DType::Bool {
        assert_eq!(op, UnaryOp::Not, "the only function of one bool");
        return 1 - x;
    }
    let result = match op {
        UnaryOp::Abs => x.wrapping_abs(),
        UnaryOp::Neg => x.wrapping_neg(),
        UnaryOp::Sign => x.signum(),
        UnaryOp::Relu => x.max(0),
        UnaryOp::Square => x.wrapping_mul(x),
        UnaryOp::Not => !x,
        other => panic!("{other:?} is not a function of an integer"),
    };
    wrap(dtype, result)
}

pub(super) fn binary(op: BinaryOp, dtype: DType, a: i128, b: i128) -> Expected {
    use BinaryOp::*;
    let width = 8 * dtype.size() as i128;
    let result = match op {
        Equal => i128::from(a == b),
        NotEqual => i128::from(a != b),
        Less => i128::from(a < b),
        LessEqual => i128::from(a <= b),
        Greater => i128::from(a > b),
        GreaterEqual => i128::from(a >= b),
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Add => wrap(dtype, a.wrapping_add(b)),
        Sub => wrap(dtype, a.wrapping_sub(b)),
        Mul => wrap(dtype, a.wrapping_mul(b)),
        Div if b == 0 => 0,
        Div => wrap(dtype, a.wrapping_div(b)),
        Mod | Fmod if b == 0 => 0,
        // The two remainders differ by one divisor when the signs differ.
        Mod => {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        Fmod => a.wrapping_rem(b),
        Pow => wrap(dtype, power(a, b)),
        Min => a.min(b),
        Max => a.max(b),
        Prelu => {
            if a >= 0 {
                a
            } else {
                wrap(dtype, a.wrapping_mul(b))
            }
        }
        ShiftLeft if b < 0 || b >= width => 0,
        ShiftRight if b < 0 || b >= width => a.min(0).signum(),
        ShiftLeft => wrap(dtype, a << b),
        ShiftRight => a >> b,
        Atan2 => panic!("{op:?} is not a function of integers"),
    };
    Expected::Exact(Value::Int(result))
}

/// `base` to an integer power, modulo 2¹²⁸; a fraction counts as 0.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests;

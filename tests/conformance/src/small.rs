//! Numbers of 8 and of 4 bits, by their definitions: every code is tried.

use millstream_core::DType;

use crate::Value;

/// All codes of a type.
pub(crate) fn codes(dtype: DType) -> impl Iterator<Item = u8> {
    0..=if dtype.per_byte() == 2 { 15 } else { 255 }
}

/// The number that a code stands for.
pub(crate) fn value(dtype: DType, code: u8) -> Value {
    let power = |exponent: i32| 2f64.powi(exponent);
    let signed = |width: u32, fraction: u32, bias: i32| {
        let sign = if code >> (width - 1) == 1 { -1.0 } else { 1.0 };
        let exponent = i32::from(code & ((1 << (width - 1)) - 1)) >> fraction;
        let rest = f64::from(code & ((1 << fraction) - 1)) / f64::from(1 << fraction);
        let size = if exponent == 0 {
            rest * power(1 - bias)
        } else {
            (1.0 + rest) * power(exponent - bias)
        };
        sign * size
    };
    let low = code & 0x7f;
    Value::Float(match dtype {
        DType::I4 => return Value::Int(i128::from(code) - if code >= 8 { 16 } else { 0 }),
        DType::U4 => return Value::Int(code.into()),
        DType::F8E4M3FN if low == 0x7f => f64::NAN,
        DType::F8E4M3FN => signed(8, 3, 7),
        DType::F8E5M2 if low > 0x7c => f64::NAN,
        DType::F8E5M2 if low == 0x7c => {
            f64::INFINITY.copysign(if code == low { 1.0 } else { -1.0 })
        }
        DType::F8E5M2 => signed(8, 2, 15),
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ if code == 0x80 => f64::NAN,
        DType::F8E4M3FNUZ => signed(8, 3, 8),
        DType::F8E5M2FNUZ => signed(8, 2, 16),
        DType::F8E8M0 if code == 255 => f64::NAN,
        DType::F8E8M0 => power(i32::from(code) - 127),
        DType::F4E2M1 => signed(4, 1, 1),
        other => panic!("{other} is computed with"),
    })
}

/// The code of a number that the type has.
///
/// # Panics
///
/// It has none.
pub(crate) fn code(dtype: DType, number: Value) -> u8 {
    let same = |&code: &u8| match (value(dtype, code), number) {
        (Value::Float(a), Value::Float(b)) => {
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
        }
        (a, b) => a == b,
    };
    codes(dtype).find(same).unwrap_or_else(|| panic!("{dtype} has no {number}"))
}

/// A number of a type that is computed with, as one of a type that is only stored.
pub(crate) fn convert(dtype: DType, number: Value, saturate: bool) -> Value {
    if matches!(dtype, DType::I4 | DType::U4) {
        let whole = match number {
            Value::Int(whole) => whole,
            Value::Float(value) => i128::from(value as i32),
        };
        return value(dtype, (whole & 15) as u8);
    }
    Value::Float(nearest(dtype, number.as_f64(), saturate))
}

fn nearest(dtype: DType, number: f64, saturate: bool) -> f64 {
    let finite: Vec<(f64, u8)> = codes(dtype)
        .map(|code| (value(dtype, code).as_f64(), code))
        .filter(|(value, _)| value.is_finite() && !value.is_sign_negative())
        .collect();
    let (largest, last) = finite[finite.len() - 1];
    if dtype == DType::F8E8M0 {
        let above = finite.iter().find(|(value, _)| *value >= number);
        return match above {
            _ if !number.is_finite() || number < 0.0 => f64::NAN,
            Some((value, _)) => *value,
            None if saturate => largest,
            None => f64::NAN,
        };
    }
    if number.is_nan() {
        return if dtype == DType::F4E2M1 { -0.0 } else { f64::NAN };
    }
    let one_zero = matches!(dtype, DType::F8E4M3FNUZ | DType::F8E5M2FNUZ);
    let size = number.abs();
    let half = (largest - finite[finite.len() - 2].0) / 2.0;
    let beyond = size > largest + half || (size == largest + half && last % 2 == 1);
    let rounded = match dtype {
        _ if !beyond => {
            let distance = |entry: &&(f64, u8)| ((entry.0 - size).abs(), entry.1 % 2);
            let order = |a: &&(f64, u8), b: &&(f64, u8)| {
                distance(a).partial_cmp(&distance(b)).expect("numbers")
            };
            finite.iter().min_by(order).expect("numbers").0
        }
        DType::F4E2M1 => largest,
        _ if saturate => largest,
        DType::F8E5M2 => f64::INFINITY,
        _ => return f64::NAN,
    };
    if one_zero && rounded == 0.0 { 0.0 } else { rounded.copysign(number) }
}

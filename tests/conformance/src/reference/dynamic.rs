//! Quantization with the scale that suits the data.

use millstream_core::DType;

use crate::value::limits;
use crate::{Dense, Expected, Value};

/// The integers, the scales, and the zero points where there are any. Every step is one of `f32`, so nothing
/// is left open.
pub(super) fn apply(rows: bool, src: &Dense, dtype: DType) -> Vec<Expected> {
    let size = if rows { src.shape[src.shape.len() - 1] } else { src.values.len() };
    let count = if rows { src.shape[..src.shape.len() - 1].iter().product() } else { 1 };
    let (low, high) = (limits(dtype).0.as_i128(), limits(dtype).1.as_i128());
    let (mut integers, mut scales, mut zeros) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..count {
        let values = &src.values[row * size..][..size];
        let values: Vec<f32> = values.iter().map(|value| value.as_f64() as f32).collect();
        // The smaller and the larger of a number and NaN are the number.
        let (least, most) = values.iter().fold((0f32, 0f32), |(a, b), &x| (a.min(x), b.max(x)));
        let scale = match dtype {
            DType::U8 => (most - least) / 255.0,
            _ => most.max(-least) / 127.0,
        };
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = match dtype {
            // A conversion from NaN gives 0.
            DType::U8 => (-least / scale).round_ties_even() as i128,
            _ => 0,
        };
        let zero = zero.clamp(low, high);
        integers.extend(values.iter().map(|&value| {
            let quotient = (value / scale).round_ties_even() as i128;
            Expected::Exact(Value::Int(quotient.saturating_add(zero).clamp(low, high)))
        }));
        scales.push(Expected::Exact(Value::Float(f64::from(scale))));
        zeros.push(Expected::Exact(Value::Int(zero)));
    }
    if dtype != DType::U8 {
        zeros.clear();
    }
    [integers, scales, zeros].concat()
}

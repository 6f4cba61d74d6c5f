//! Quantization with the scale that suits the data.

use millstream_core::{DType, DynamicRange};

use crate::value::limits;
use crate::{Dense, Expected, Value};

/// The integers, the scales, and the zero points where there are any. Every step is one of `f32`, so nothing
/// is left open.
pub(super) fn apply(range: DynamicRange, src: &Dense, dtype: DType) -> Vec<Expected> {
    // How many scales there are, and which of them an element has.
    let product = |axes: &[usize]| axes.iter().product::<usize>();
    let (count, which): (usize, Box<dyn Fn(usize) -> usize>) = match range {
        DynamicRange::Tensor => (1, Box::new(|_| 0)),
        DynamicRange::Rows => {
            let (&size, leading) = src.shape.split_last().expect("a row has an axis");
            (product(leading), Box::new(move |at| at / size))
        }
        DynamicRange::Parts { axis, parts } => {
            let (axis, parts) = (usize::from(axis), parts as usize);
            let (size, inner) = (src.shape[axis], product(&src.shape[axis + 1..]));
            (parts, Box::new(move |at| at / inner % size / (size / parts)))
        }
    };
    let (low, high) = (limits(dtype).0.as_i128(), limits(dtype).1.as_i128());
    let (mut scales, mut zeros) = (Vec::new(), Vec::new());
    let values: Vec<f32> = src.values.iter().map(|value| value.as_f64() as f32).collect();
    let mut parameters = Vec::new();
    for number in 0..count {
        let own = values.iter().enumerate().filter(|(at, _)| which(*at) == number);
        // The smaller and the larger of a number and NaN are the number.
        let (least, most) = own.fold((0f32, 0f32), |(a, b), (_, &x)| (a.min(x), b.max(x)));
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
        parameters.push((scale, zero));
        scales.push(Expected::Exact(Value::Float(f64::from(scale))));
        zeros.push(Expected::Exact(Value::Int(zero)));
    }
    let integers = values.iter().enumerate().map(|(at, &value)| {
        let (scale, zero) = parameters[which(at)];
        let quotient = (value / scale).round_ties_even() as i128;
        Expected::Exact(Value::Int(quotient.saturating_add(zero).clamp(low, high)))
    });
    let integers: Vec<Expected> = integers.collect();
    if dtype != DType::U8 {
        zeros.clear();
    }
    [integers, scales, zeros].concat()
}

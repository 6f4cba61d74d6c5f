//! A target that is right by definition.

use millstream_core::{DType, Distribution, Op, OpKind, RawBuffer};

use crate::case::write;
use crate::cases::COVERED;
use crate::value::encode_all;
use crate::{Case, Expected, Outcome, Target, Value, convert, philox_4x32_10, reference};

/// Answers every case from the reference itself.
///
/// It shows that the cases are well formed, that the checks accept what they should, and gives tests
/// of the suite something right to spoil.
#[derive(Debug)]
pub struct ReferenceTarget;

impl Target for ReferenceTarget {
    fn name(&self) -> &str {
        "reference"
    }

    fn supports(&self, kind: OpKind) -> bool {
        COVERED.contains(&kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        // Only to learn that the case is a valid Command; the address stands for the buffer.
        let name = |buffer: usize| RawBuffer {
            address: (buffer + 1) << 32,
            bytes: case.buffers[buffer].len(),
        };
        case.command(name).map_err(|error| error.to_string())?;

        let mut outcome = Outcome { buffers: case.buffers.clone(), host: None };
        let outputs = case.outputs();
        if outputs.is_empty() {
            let dtype = case.inputs()[0].layout.dtype();
            let values = values(case, &vec![dtype; case.inputs()[0].layout.elements()]);
            outcome.host = Some(encode_all(dtype, &values));
        } else {
            let dtypes: Vec<DType> = outputs
                .iter()
                .flat_map(|output| vec![output.layout.dtype(); output.layout.elements()])
                .collect();
            let mut values = &values(case, &dtypes)[..];
            for output in outputs {
                let (own, rest) = values.split_at(output.layout.elements());
                write(&output.layout, &mut outcome.buffers[output.buffer], own);
                values = rest;
            }
        }
        Ok(outcome)
    }

    fn is_bit_identical(&self) -> bool {
        true
    }
}

/// The elements of all outputs, whose types are given.
fn values(case: &Case, dtypes: &[DType]) -> Vec<Value> {
    match &case.op {
        &Op::Random { distribution, seed, offset, spec: _ } => (offset..)
            .zip(dtypes)
            .map(|(at, &dtype)| Value::Float(random(dtype, distribution, seed, at)))
            .collect(),
        Op::Timestamp => vec![Value::Int(clock().into())],
        _ => {
            let value = |(expected, &dtype): (&Expected, &DType)| match (*expected, expected.best())
            {
                (_, Some(value)) => convert(value, dtype),
                (Expected::Between { low, .. }, None) => convert(Value::Float(low), dtype),
                (_, None) => convert(Value::Int(0), dtype),
            };
            reference(case).iter().zip(dtypes).map(value).collect()
        }
    }
}

fn clock() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// One block per number: wasteful, and plainly a function of seed and position alone.
fn random(dtype: DType, distribution: Distribution, seed: u64, position: u64) -> f64 {
    let counter = [position as u32, (position >> 32) as u32, 0, 0];
    let words = philox_4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
    // 24 bits, so that the largest is below 1 in f32 too.
    let unit = |word: u32| f64::from(word >> 8) / f64::from(1 << 24);
    match distribution {
        Distribution::Uniform { low, high } => {
            let (low, high) = (f64::from(low), f64::from(high));
            let value = low + (high - low) * unit(words[0]);
            crate::round_to(dtype, value)
        }
        Distribution::Normal { mean, deviation } => {
            let radius = (-2.0 * (1.0 - unit(words[0])).ln()).sqrt();
            let angle = std::f64::consts::TAU * unit(words[1]);
            f64::from(mean) + f64::from(deviation) * radius * angle.cos()
        }
    }
}

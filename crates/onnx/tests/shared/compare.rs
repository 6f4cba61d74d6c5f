//! What counts as the same.

use millstream_core::DType;
use millstream_graph::{Array, MapValues, ModelValue};
use millstream_nn::Tensor;

/// How much numbers may differ. No test uses every kind.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Each by so much, and by a part of the expected number; another part where that is `bf16`, whose numbers are far apart.
    #[allow(dead_code)]
    Each { absolute: f64, relative: f64, relative_bf16: f64 },
    /// Each by so much, and by a part of the largest of the tensor. A byte, which stands for another number, may be
    /// rounded the other way.
    #[allow(dead_code)]
    OfLargest { absolute: f64, relative: f64 },
    /// Sounds: the strengths at each time and frequency differ by such a part of all strengths.
    #[allow(dead_code)]
    Spectrum(f64),
    /// The root of the mean square of all differences, by so much.
    #[allow(dead_code)]
    RootMeanSquare(f64),
}

/// # Errors
///
/// How the values differ.
pub fn compare(
    found: &ModelValue,
    wanted: &ModelValue,
    tolerance: Tolerance,
) -> Result<(), String> {
    let inner = |found: &ModelValue, wanted: &ModelValue| compare(found, wanted, tolerance);
    match (found, wanted) {
        (ModelValue::Tensor(found), ModelValue::Tensor(wanted)) => {
            if found.dtype() != wanted.dtype() {
                return Err(format!("{}, expected {}", found.dtype(), wanted.dtype()));
            }
            arrays(&array(found)?, &array(wanted)?, tolerance)
        }
        (ModelValue::Strings(found), ModelValue::Strings(wanted)) if found == wanted => Ok(()),
        (ModelValue::Sequence(found), ModelValue::Sequence(wanted)) => {
            if found.len() != wanted.len() {
                return Err(format!("{} values, expected {}", found.len(), wanted.len()));
            }
            found.iter().zip(wanted).try_for_each(|(found, wanted)| inner(found, wanted))
        }
        (ModelValue::Optional(None), ModelValue::Optional(None)) => Ok(()),
        (ModelValue::Optional(Some(found)), ModelValue::Optional(Some(wanted))) => {
            inner(found, wanted)
        }
        (ModelValue::Map(found), ModelValue::Map(wanted)) if found.keys() == wanted.keys() => {
            match (found.values(), wanted.values()) {
                (MapValues::Numbers(found), MapValues::Numbers(wanted)) => {
                    arrays(found, wanted, tolerance)
                }
                (MapValues::Texts(found), MapValues::Texts(wanted)) if found == wanted => Ok(()),
                _ => Err(format!("{found:?}, expected {wanted:?}")),
            }
        }
        _ => Err(format!("{found:?}, expected {wanted:?}")),
    }
}

/// The numbers of a tensor. Those of types that are only stored are compared as what they stand for: NaN has many forms.
fn array(tensor: &Tensor) -> Result<Array, String> {
    let tensor =
        if tensor.dtype().is_storage() { tensor.to_dtype(DType::F32) } else { Ok(tensor.clone()) };
    tensor.and_then(|tensor| Array::of_tensor(&tensor)).map_err(|error| error.to_string())
}

fn arrays(found: &Array, wanted: &Array, tolerance: Tolerance) -> Result<(), String> {
    if found.spec() != wanted.spec() {
        return Err(format!("{}, expected {}", found.spec(), wanted.spec()));
    }
    if found.bytes() == wanted.bytes() {
        return Ok(());
    }
    let byte = matches!(tolerance, Tolerance::OfLargest { .. })
        && matches!(found.dtype(), DType::U8 | DType::I8);
    if !found.dtype().is_float() && !byte {
        return Err(format!("{}, expected {}", head(found), head(wanted)));
    }
    let short = found.dtype() == DType::BF16;
    let numbers = |array: &Array| array.to_f64s().map_err(|error| error.to_string());
    let (found, wanted) = (numbers(found)?, numbers(wanted)?);
    match tolerance {
        Tolerance::Each { absolute, relative, relative_bf16 } => {
            let relative = if short { relative_bf16 } else { relative };
            each(&found, &wanted, absolute, relative)
        }
        Tolerance::OfLargest { .. } if byte => each(&found, &wanted, 1.0, 0.0),
        Tolerance::OfLargest { absolute, relative } => {
            let finite = wanted.iter().filter(|value| value.is_finite());
            let largest = finite.fold(0f64, |largest, value| largest.max(value.abs()));
            each(&found, &wanted, absolute + relative * largest, 0.0)
        }
        Tolerance::Spectrum(most) => {
            let (found, wanted) = (spectrum(&found), spectrum(&wanted));
            let all: f64 = wanted.iter().sum();
            let pairs = found.iter().zip(&wanted);
            let apart = pairs.map(|(found, wanted)| (found - wanted).abs()).sum::<f64>() / all;
            // Not "more than": it may be NaN.
            if apart <= most {
                Ok(())
            } else {
                Err(format!("strengths are off by {apart:e}, at most {most:e}"))
            }
        }
        Tolerance::RootMeanSquare(most) => {
            let squares = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).powi(2));
            let root = (squares.sum::<f64>() / found.len() as f64).sqrt();
            if root <= most { Ok(()) } else { Err(format!("off by {root:e}, at most {most:e}")) }
        }
    }
}

fn each(found: &[f64], wanted: &[f64], absolute: f64, relative: f64) -> Result<(), String> {
    let mut worst: Option<(f64, usize)> = None;
    for (index, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let same = found == wanted
            || (found.is_nan() && wanted.is_nan())
            || (found - wanted).abs() <= absolute + relative * wanted.abs();
        let off = (found - wanted).abs();
        if !same && worst.is_none_or(|(most, _)| off > most || off.is_nan()) {
            worst = Some((off, index));
        }
    }
    match worst {
        None => Ok(()),
        Some((_, at)) => {
            Err(format!("{} at {at} of {}, expected {}", found[at], found.len(), wanted[at]))
        }
    }
}

/// The first elements in words.
fn head(array: &Array) -> String {
    match array.to_scalars() {
        Ok(values) => {
            let texts: Vec<String> = values.iter().take(16).map(ToString::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
        Err(error) => error.to_string(),
    }
}

/// Strengths of 64 bands of frequencies, in windows of 512 samples that overlap by half.
fn spectrum(sound: &[f64]) -> Vec<f64> {
    const WINDOW: usize = 512;
    const BANDS: usize = 64;
    let turn = |at: usize| 2.0 * std::f64::consts::PI * (at % WINDOW) as f64 / WINDOW as f64;
    let table: Vec<(f64, f64)> = (0..WINDOW).map(|at| turn(at).sin_cos()).collect();
    let starts = (0..sound.len().saturating_sub(WINDOW)).step_by(WINDOW / 2);
    starts
        .flat_map(|start| {
            let part = &sound[start..start + WINDOW];
            let shaped: Vec<f64> =
                part.iter().zip(&table).map(|(value, turn)| value * (0.5 - 0.5 * turn.1)).collect();
            let mut bands = vec![0.0; BANDS];
            for frequency in 0..WINDOW / 2 {
                let (mut sine, mut cosine) = (0.0, 0.0);
                for (at, value) in shaped.iter().enumerate() {
                    let turn = table[at * frequency % WINDOW];
                    sine += value * turn.0;
                    cosine += value * turn.1;
                }
                bands[frequency * BANDS / (WINDOW / 2)] += sine.hypot(cosine);
            }
            bands
        })
        .collect()
}

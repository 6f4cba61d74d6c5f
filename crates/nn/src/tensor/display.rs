//! Printing tensors the way PyTorch does.

use std::fmt;

use millstream_core::DType;

use super::Tensor;
use crate::Result;

/// Tensors with more elements are printed in part.
const WHOLE: usize = 1000;
/// Elements that are printed at both ends of a long axis.
const EDGE: usize = 3;
const LINE: usize = 80;
const START: &str = "tensor(";

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(START)?;
        match self.printed() {
            Ok(text) => f.write_str(&text)?,
            Err(error) => write!(f, "<{error}>")?,
        }
        if self.elements() == 0 && self.rank() != 1 {
            write!(f, ", size={:?}", self.shape())?;
        }
        if !matches!(self.dtype(), DType::F32 | DType::I64 | DType::Bool) {
            write!(f, ", dtype={}", self.dtype())?;
        }
        f.write_str(")")
    }
}

impl Tensor {
    fn printed(&self) -> Result<String> {
        if self.elements() == 0 {
            return Ok("[]".into());
        }
        let shorten = self.elements() > WHOLE;
        let shown = if shorten { self.edges()? } else { self.clone() };
        let cells = match self.dtype() {
            DType::Bool => align(shown.to_vec::<bool>()?.iter().map(bool::to_string).collect()),
            DType::U64 => align(shown.to_vec::<u64>()?.iter().map(u64::to_string).collect()),
            dtype if dtype.is_int() => {
                let values = shown.to_dtype(DType::I64)?.to_vec::<i64>()?;
                align(values.iter().map(i64::to_string).collect())
            }
            stored if stored.is_storage() => {
                let values = shown.to_dtype(DType::F32)?.to_dtype(DType::F64)?;
                align(floats(&values.to_vec::<f64>()?))
            }
            _ => align(floats(&shown.to_dtype(DType::F64)?.to_vec::<f64>()?)),
        };
        let mut text = String::new();
        let page = Page { full: self.shape(), shown: shown.shape(), cells: &cells };
        page.write(0, 0, &mut text);
        Ok(text)
    }

    /// Both ends of every long axis.
    fn edges(&self) -> Result<Tensor> {
        let long = (0..self.rank()).filter(|&axis| self.shape()[axis] > 2 * EDGE);
        self.corners(&long.collect::<Vec<_>>())
    }

    /// Both ends of some axes. The other axes are cut first, so that only small tensors are joined.
    fn corners(&self, axes: &[usize]) -> Result<Tensor> {
        let Some((&axis, others)) = axes.split_first() else { return Ok(self.clone()) };
        let last = self.shape()[axis] - EDGE;
        let first = self.narrow(axis, 0, EDGE)?.corners(others)?;
        Tensor::cat(&[first, self.narrow(axis, last, EDGE)?.corners(others)?], axis)
    }
}

/// The printed cells in row-major order, and the shapes of the tensor and of the printed part.
struct Page<'a> {
    full: &'a [usize],
    shown: &'a [usize],
    cells: &'a [String],
}

impl Page<'_> {
    fn write(&self, axis: usize, cell: usize, text: &mut String) {
        let Some(&size) = self.shown.get(axis) else {
            text.push_str(&self.cells[cell]);
            return;
        };
        let below: usize = self.shown[axis + 1..].iter().product();
        let innermost = axis + 1 == self.shown.len();
        let column = START.len() + axis + 1;
        let line_break = format!("\n{}", " ".repeat(column));
        let per_line = (LINE.saturating_sub(column - 1) / (self.cells[0].len() + 2)).max(1);
        text.push('[');
        let mut placed = 0;
        for index in 0..size {
            let gap = self.full[axis] != size && index == EDGE;
            for dots in [true, false].into_iter().filter(|&dots| gap || !dots) {
                if placed > 0 {
                    text.push(',');
                    match innermost {
                        true if placed % per_line != 0 => text.push(' '),
                        true => text.push_str(&line_break),
                        false => {
                            text.push_str(&"\n".repeat(self.shown.len() - axis - 2));
                            text.push_str(&line_break);
                        }
                    }
                }
                placed += 1;
                match dots {
                    true if innermost => text.push_str(" ..."),
                    true => text.push_str("..."),
                    false => self.write(axis + 1, cell + index * below, text),
                }
            }
        }
        text.push(']');
    }
}

fn align(mut cells: Vec<String>) -> Vec<String> {
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    for cell in &mut cells {
        *cell = format!("{cell:>width$}");
    }
    cells
}

/// Whole numbers as `1.`, others with four decimals, with an exponent if they differ a lot in size.
fn floats(values: &[f64]) -> Vec<String> {
    let sizes =
        || values.iter().map(|value| value.abs()).filter(|size| size.is_finite() && *size > 0.0);
    let (least, most) = sizes().fold((f64::MAX, 0f64), |(low, high), x| (low.min(x), high.max(x)));
    let whole = sizes().all(|size| size == size.ceil());
    let exponent = most > 0.0 && (most / least > 1000.0 || most > 1e8 || (!whole && least < 1e-4));
    let write = |&value: &f64| match value {
        _ if value.is_nan() => "nan".into(),
        _ if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.into(),
        _ if exponent => scientific(value),
        _ if whole => format!("{value:.0}."),
        _ => format!("{value:.4}"),
    };
    values.iter().map(write).collect()
}

/// With an exponent that has a sign and at least two digits.
fn scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

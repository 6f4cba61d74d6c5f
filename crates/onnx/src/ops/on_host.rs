//! Operators that are computed by the host, from contents: rare ones that no device has an operation for.

use std::fmt;
use std::sync::Arc;

use millstream_core::{DType, Scalar};
use millstream_graph::{Array, HostCall, HostOperator, HostStep, HostValue, Stop};

use super::common::{Made, refusal};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Det", determinant), ("MaxRoiPool", max_roi_pool)];

/// Those of `com.microsoft`.
pub(crate) const MICROSOFT: Table = &[("Inverse", inverse)];

/// A function of arrays.
struct OnHost<F>(&'static str, F);

impl<F> fmt::Debug for OnHost<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<F: Fn(&[Array]) -> Result<Array> + Send + Sync> HostOperator for OnHost<F> {
    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let arrays = inputs.iter().flatten().map(|input| input.array(call));
        let arrays = arrays.collect::<Result<Vec<Array>>>()?;
        Ok(HostStep::Done(vec![(self.1)(&arrays)?.into()]))
    }
}

/// An operator that the host computes.
fn on_host<F>(node: &NodeDef<'_, '_>, name: &'static str, compute: F) -> Made
where
    F: Fn(&[Array]) -> Result<Array> + Send + Sync + 'static,
{
    let shared: Arc<dyn HostOperator> = Arc::new(OnHost(name, compute));
    operator(node, move |_, _| Err(Stop::Host(Arc::clone(&shared))))
}

pub(super) fn floats(dtype: DType, shape: &[usize], values: Vec<f64>) -> Result<Array> {
    let values: Vec<Scalar> = values.into_iter().map(Scalar::Float).collect();
    Array::of_scalars(dtype, shape, &values)
}

/// The numbers of square matrices, and the sizes of the axes before them.
fn square_matrices(inputs: &[Array]) -> Result<(Vec<f64>, &[usize], usize)> {
    let [input] = inputs else { return Err(refusal("one input is needed")) };
    match input.shape() {
        [leading @ .., rows, columns] if rows == columns => Ok((input.to_f64s()?, leading, *rows)),
        [_, .., _] => Err(refusal("the matrix is not square")),
        _ => Err(refusal("a matrix is needed")),
    }
}

fn determinant(node: &mut NodeDef<'_, '_>) -> Made {
    on_host(node, "Det", |inputs| {
        let (numbers, leading, rows) = square_matrices(inputs)?;
        let count: usize = leading.iter().product();
        let each = rows * rows;
        let found = (0..count).map(|at| eliminated(&numbers[at * each..][..each], rows));
        floats(inputs[0].dtype(), leading, found.collect())
    })
}

fn inverse(node: &mut NodeDef<'_, '_>) -> Made {
    on_host(node, "Inverse", |inputs| {
        let (mut numbers, _, rows) = square_matrices(inputs)?;
        for matrix in numbers.chunks_exact_mut((rows * rows).max(1)) {
            invert(matrix, rows)?;
        }
        floats(inputs[0].dtype(), inputs[0].shape(), numbers)
    })
}

/// The row, from that of the diagonal on, with the largest number of a column.
fn largest_from(matrix: &[f64], size: usize, column: usize) -> usize {
    let size_at = |row: usize| matrix[row * size + column].abs();
    let largest = (column..size).max_by(|&a, &b| size_at(a).total_cmp(&size_at(b)));
    largest.unwrap_or(column)
}

/// Inverts a square matrix, by elimination with the largest pivots.
fn invert(matrix: &mut [f64], size: usize) -> Result<()> {
    let mut result: Vec<f64> =
        (0..size * size).map(|at| f64::from(u8::from(at / size == at % size))).collect();
    for column in 0..size {
        let pivot = largest_from(matrix, size, column);
        let head = matrix[pivot * size + column];
        if head == 0.0 {
            return Err(refusal("a matrix that has no inverse"));
        }
        for side in [&mut *matrix, &mut result[..]] {
            (0..size).filter(|_| pivot != column).for_each(|at| {
                side.swap(pivot * size + at, column * size + at);
            });
            side[column * size..][..size].iter_mut().for_each(|value| *value /= head);
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[row * size + column];
            for side in [&mut *matrix, &mut result[..]] {
                for at in 0..size {
                    side[row * size + at] -= factor * side[column * size + at];
                }
            }
        }
    }
    matrix.copy_from_slice(&result);
    Ok(())
}

/// The determinant of a square matrix, by elimination with the largest pivots.
fn eliminated(matrix: &[f64], size: usize) -> f64 {
    let mut left = matrix.to_vec();
    let mut result = 1.0;
    for column in 0..size {
        let pivot = largest_from(&left, size, column);
        if pivot != column {
            (0..size).for_each(|at| left.swap(pivot * size + at, column * size + at));
            result = -result;
        }
        let head = left[column * size + column];
        result *= head;
        if head == 0.0 {
            return 0.0;
        }
        for row in column + 1..size {
            let factor = left[row * size + column] / head;
            for at in column..size {
                left[row * size + at] -= factor * left[column * size + at];
            }
        }
    }
    result
}

/// The largest element of each part of a region.
fn max_roi_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let pooled = node.attributes.ints("pooled_shape")?.unwrap_or_default().to_vec();
    let scale = f64::from(node.attributes.float_or("spatial_scale", 1.0)?);
    on_host(node, "MaxRoiPool", move |inputs| {
        let ([input, rois], &[rows, columns]) = (inputs, &pooled[..]) else {
            return Err(refusal("an image, regions, and a height and width are needed"));
        };
        let (&[batch, channels, height, width], &[regions, 5]) = (input.shape(), rois.shape())
        else {
            return Err(refusal("an image and regions of five numbers are needed"));
        };
        let (Ok(rows), Ok(columns)) = (usize::try_from(rows), usize::try_from(columns)) else {
            return Err(refusal(format!("parts of {pooled:?}")));
        };
        let (pixels, corners) = (input.to_f64s()?, rois.to_f64s()?);
        let mut found = Vec::new();
        for region in corners.chunks_exact(5) {
            let index = region[0] as usize;
            if !(0.0..batch as f64).contains(&region[0]) {
                return Err(refusal(format!("image {} of {batch}", region[0])));
            }
            let [left, top, right, bottom] =
                [region[1], region[2], region[3], region[4]].map(|at| (at * scale).round());
            let part = |number: usize, of: usize, from: f64, to: f64, most: usize| {
                let each = (to - from + 1.0).max(1.0) / of as f64;
                let first = (number as f64 * each).floor() + from;
                let last = ((number + 1) as f64 * each).ceil() + from;
                let inside = |at: f64| at.clamp(0.0, most as f64) as usize;
                inside(first)..inside(last)
            };
            for channel in 0..channels {
                let plane = &pixels[(index * channels + channel) * height * width..];
                for row in 0..rows {
                    for column in 0..columns {
                        let ys = part(row, rows, top, bottom, height);
                        let xs = part(column, columns, left, right, width);
                        let all = ys.flat_map(|y| xs.clone().map(move |x| plane[y * width + x]));
                        found.push(all.reduce(f64::max).unwrap_or(0.0));
                    }
                }
            }
        }
        floats(input.dtype(), &[regions, channels, rows, columns], found)
    })
}

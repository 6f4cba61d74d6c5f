//! Matrix products.

use super::{Fit, Shape, rescale};
use crate::command::{Activation, Epilogue, Rescale};
use crate::{DType, Layout, Result, broadcast_shapes};

pub(super) const AXES: &str = "rows and columns at the end";

/// `[…, m, k] × […, k, n]`: both inputs broadcast to the leading axes of the output.
fn product<B>(fit: &mut Fit<'_, B>, dtype: DType) -> Result<Shape> {
    for place in 0..2 {
        if fit.input(place).rank() < 2 {
            return fit.misfit(place, format!("2 axes or more: {AXES}"));
        }
    }
    let (a, b) = (fit.shape(0), fit.shape(1));
    let (m, k) = (a[a.len() - 2], a[a.len() - 1]);
    let (rows, n) = (b[b.len() - 2], b[b.len() - 1]);
    if rows != k {
        return fit.misfit(1, format!("{k} rows, to fit a of shape {a:?}"));
    }
    let shape = match fit.given() {
        // The output may have more leading axes than the inputs, which then broadcast.
        Some(given) => {
            let given = Shape::from_slice(given.shape());
            if given.len() < 2 || given[given.len() - 2..] != [m, n] {
                return fit.output_misfit(0, format!("{dtype}[…, {m}, {n}]"));
            }
            given
        }
        // The usual cases: weights that are a matrix, or equal leading axes.
        None if b.len() == 2 || a[..a.len() - 2] == b[..b.len() - 2] => {
            let mut shape = Shape::from_slice(a);
            shape[a.len() - 1] = n;
            shape
        }
        None => {
            let Ok(leading) = broadcast_shapes(&a[..a.len() - 2], &b[..b.len() - 2]) else {
                return fit.misfit(1, "leading axes that broadcast with those of a");
            };
            leading.into_iter().chain([m, n]).collect()
        }
    };
    fit.output(dtype, &shape)?;
    stretch_leading(fit, 0, &shape, [m, k])?;
    stretch_leading(fit, 1, &shape, [k, n])?;
    Ok(shape)
}

/// Broadcasts the leading axes of an input to those of a shape. Usually they are already equal.
pub(super) fn stretch_leading<B>(
    fit: &mut Fit<'_, B>,
    place: usize,
    shape: &[usize],
    last: [usize; 2],
) -> Result<()> {
    let leading = shape.len() - 2;
    let found = fit.shape(place);
    if found[..found.len() - 2] == shape[..leading] {
        return Ok(());
    }
    let mut wide = Shape::from_slice(shape);
    wide[leading..].copy_from_slice(&last);
    fit.stretch(place, &wide)
}

/// The shape of a product of the rows of input 0 with a matrix of `columns` columns: the shape of the output if it is
/// given, else the shape of the input with another last axis.
pub(super) fn rows_of<B>(
    fit: &Fit<'_, B>,
    dtype: DType,
    m: usize,
    columns: usize,
) -> Result<Shape> {
    let Some(given) = fit.given() else {
        let mut shape = Shape::from_slice(fit.shape(0));
        shape.pop();
        shape.push(columns);
        return Ok(shape);
    };
    match given.shape() {
        [.., rows, last] if [*rows, *last] == [m, columns] => Ok(Shape::from_slice(given.shape())),
        _ => fit.output_misfit(0, format!("{dtype}[…, {m}, {columns}]")),
    }
}

/// Whether [`matmul`] takes this integer type.
fn is_whole(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

pub(super) fn matmul<B>(fit: &mut Fit<'_, B>, epilogue: &Epilogue) -> Result<()> {
    let dtype = fit.dtype(0);
    if is_whole(dtype) {
        // Scales and activations would make fractions, which integers do not have.
        let Epilogue { scale, activation, bias: _, residual: _ } = *epilogue;
        fit.wants(scale == 1.0, "scale", || format!("1 for {dtype}"), scale)?;
        if activation != Activation::None {
            return fit.fail("activation", format!("none for {dtype}"), format!("{activation:?}"));
        }
    } else if !dtype.is_float() {
        return fit.misfit(0, "a floating-point type, or integers of 32 or 64 bits");
    }
    for place in 1..fit.inputs() {
        fit.wants_dtype(place, dtype)?;
    }
    let shape = product(fit, dtype)?;
    (2..fit.inputs()).try_for_each(|place| fit.stretch(place, &shape))
}

pub(super) fn pack<B>(fit: &mut Fit<'_, B>, bytes: usize) -> Result<()> {
    fit.wants_float(0)?;
    fit.wants_rank(0, 2, "a matrix")?;
    if let Some(given) = fit.given()
        && !given.is_contiguous()
    {
        return fit.output_misfit(0, "dense bytes");
    }
    fit.output(DType::U8, &[bytes])
}

pub(super) fn packed<B>(fit: &mut Fit<'_, B>, columns: usize) -> Result<()> {
    fit.wants_float(0)?;
    fit.wants_dtype(1, DType::U8)?;
    let packed = fit.input(1);
    if packed.rank() != 1 || !packed.is_contiguous() {
        return fit.misfit(1, "dense bytes");
    }
    let dtype = fit.dtype(0);
    for place in 2..fit.inputs() {
        fit.wants_dtype(place, dtype)?;
    }
    let a = fit.shape(0);
    let &[.., m, k] = a else { return fit.misfit(0, format!("2 axes or more: {AXES}")) };
    let shape = rows_of(fit, dtype, m, columns)?;
    fit.output(dtype, &shape)?;
    stretch_leading(fit, 0, &shape, [m, k])?;
    (2..fit.inputs()).try_for_each(|place| fit.stretch(place, &shape))
}

pub(super) fn matmul_integer<B>(
    fit: &mut Fit<'_, B>,
    [a_zero, b_zero]: [bool; 2],
    rescale: Option<&Rescale>,
) -> Result<()> {
    fit.wants_byte(0)?;
    fit.wants_byte(1)?;
    let dtype = rescale::dtype(fit, rescale)?;
    let shape = product(fit, dtype)?;
    let last = shape.len() - 2;
    let (mut rows, mut columns) = (shape.clone(), shape.clone());
    rows[last + 1] = 1;
    columns[last] = 1;
    let mut place = 2;
    if a_zero {
        fit.wants_dtype(place, fit.dtype(0))?;
        upright(fit, place, &rows)?;
        place += 1;
    }
    if b_zero {
        fit.wants_dtype(place, fit.dtype(1))?;
        fit.stretch(place, &columns)?;
        place += 1;
    }
    let Some(rescale) = rescale else { return Ok(()) };
    fit.wants_dtype(place, DType::F32)?;
    upright(fit, place, &rows)?;
    fit.wants_dtype(place + 1, DType::F32)?;
    fit.stretch(place + 1, &columns)?;
    rescale::extras(fit, place + 2, rescale, |fit, bias| fit.stretch(bias, &shape), &shape)
}

/// An input that has one number for each row, or one for all. A vector becomes a column.
fn upright<B>(fit: &mut Fit<'_, B>, place: usize, rows: &[usize]) -> Result<()> {
    let found = *fit.input(place);
    let upright = match (found.shape(), found.strides()) {
        (&[count], &[stride]) => {
            Layout::strided(found.dtype(), &[count, 1], &[stride, 0], found.offset())?
        }
        _ => found,
    };
    let Ok(wide) = upright.broadcast_to(rows) else {
        return fit.misfit(place, format!("a shape that broadcasts to {rows:?}"));
    };
    fit.set_input(place, wide);
    Ok(())
}

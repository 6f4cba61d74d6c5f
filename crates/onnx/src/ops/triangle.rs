//! Operators on diagonals and triangles, and numbers in a row.

use millstream_core::{BinaryOp, DType, Scalar, TensorSpec};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, cast, choose, fill, iota, numbers, one, pair, refusal, refuse, reshape, with_number,
};
use crate::dtypes::dtype;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("EyeLike", eye_like), ("Range", range), ("Trilu", trilu)];

/// The number of the column less that of the row, of a matrix.
fn diagonals(at: &mut Expander<'_>, rows: usize, columns: usize) -> Expanded<Edge> {
    let column = iota(at, DType::I64, &[1, columns], 1)?;
    let row = iota(at, DType::I64, &[rows, 1], 0)?;
    pair(at, BinaryOp::Sub, column, row)
}

fn eye_like(node: &mut NodeDef<'_, '_>) -> Made {
    let k = node.attributes.int_or("k", 0)?;
    let given = node.attributes.int("dtype")?;
    let given = given.map(|given| dtype(given as i32).map_err(refusal)).transpose()?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[rows, columns] = &at.shape(input)[..] else { return refuse("a matrix is needed") };
        let diagonals = diagonals(at, rows, columns)?;
        let here = with_number(at, BinaryOp::Equal, diagonals, k)?;
        let dtype = given.unwrap_or(at.dtype(input));
        one(cast(at, here, dtype)?)
    })
}

fn trilu(node: &mut NodeDef<'_, '_>) -> Made {
    let upper = node.attributes.flag("upper", true)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[.., rows, columns] = &at.shape(input)[..] else {
            return refuse("a matrix is needed");
        };
        let k = match inputs.optional(1)? {
            Some(k) => reshape(at, k, &[])?,
            None => at.number(0i64, DType::I64)?,
        };
        let diagonals = diagonals(at, rows, columns)?;
        let op = if upper { BinaryOp::GreaterEqual } else { BinaryOp::LessEqual };
        let stays = pair(at, op, diagonals, k)?;
        let dtype = at.dtype(input);
        if dtype == DType::Bool {
            return one(pair(at, BinaryOp::And, input, stays)?);
        }
        let zero = fill(at, Scalar::Int(0), dtype, &[])?;
        one(choose(at, stays, input, zero)?)
    })
}

fn range(node: &mut NodeDef<'_, '_>) -> Made {
    node.attributes.ignore(&["stash_type"]);
    operator(node, |at, inputs| {
        let dtype = at.dtype(inputs.tensor(0)?);
        let start = at.scalar(inputs.tensor(0)?)?;
        let limit = at.scalar(inputs.tensor(1)?)?;
        let delta = at.scalar(inputs.tensor(2)?)?;
        let count = if dtype.is_float() {
            let exact = (limit.as_f64() - start.as_f64()) / delta.as_f64();
            exact.ceil().max(0.0)
        } else {
            let (way, step) = (limit.as_i128() - start.as_i128(), delta.as_i128());
            if step == 0 {
                return refuse("the step is 0");
            }
            let whole = way / step + i128::from(way % step != 0 && (way < 0) == (step < 0));
            whole.max(0) as f64
        };
        if !count.is_finite() || count > isize::MAX as f64 {
            return refuse(format!("a range from {start} to {limit} in steps of {delta}"));
        }
        let spec = TensorSpec::new(dtype, &[count as usize])?;
        one(numbers(at, spec, 0, start, delta)?)
    })
}

//! Matrix products.

use millstream_core::{BinaryOp, DType, Epilogue, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, cast, one, pair, permute, refuse, reshape, wide, with_number};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Gemm", gemm), ("MatMul", matmul)];

/// The product of two matrices, or of many. Types that products do not take are computed with as others.
pub(crate) fn multiplied(at: &mut Expander<'_>, a: Edge, b: Edge) -> Expanded<Edge> {
    let dtype = at.dtype(a);
    let computed = match dtype {
        DType::I8 | DType::I16 => DType::I32,
        DType::U8 | DType::U16 => DType::U32,
        other => other,
    };
    let (a, b) = (cast(at, a, computed)?, cast(at, b, computed)?);
    let result = at.apply(Op::MatMul { epilogue: Epilogue::default() }, &[a, b])?;
    cast(at, result, dtype)
}

/// A product as NumPy's, by a product of matrices: a vector on the left is a row, on the right a column, and its axis is not there
/// in the result.
pub(crate) fn product_by(
    at: &mut Expander<'_>,
    a: Edge,
    b: Edge,
    multiply: impl FnOnce(&mut Expander<'_>, Edge, Edge) -> Expanded<Edge>,
) -> Expanded<Edge> {
    let (left, right) = (at.shape(a), at.shape(b));
    if left.is_empty() || right.is_empty() {
        return refuse("a number without axes is no matrix");
    }
    let a = if left.len() == 1 { reshape(at, a, &[1, left[0]])? } else { a };
    let b = if right.len() == 1 { reshape(at, b, &[right[0], 1])? } else { b };
    let result = multiply(at, a, b)?;
    let mut shape = at.shape(result);
    if right.len() == 1 {
        shape.pop();
    }
    if left.len() == 1 {
        let row = shape.len() - if right.len() == 1 { 1 } else { 2 };
        shape.remove(row);
    }
    reshape(at, result, &shape)
}

fn matmul(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        one(product_by(at, a, b, multiplied)?)
    })
}

fn gemm(node: &mut NodeDef<'_, '_>) -> Made {
    let (alpha, beta) =
        (node.attributes.float_or("alpha", 1.0)?, node.attributes.float_or("beta", 1.0)?);
    let (transpose_a, transpose_b) =
        (node.attributes.flag("transA", false)?, node.attributes.flag("transB", false)?);
    node.attributes.ignore(&["broadcast"]);
    operator(node, move |at, inputs| {
        let transposed = |at: &mut Expander<'_>, edge: Edge, transpose: bool| {
            if transpose { permute(at, edge, &[1, 0]) } else { Ok(edge) }
        };
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (a, b) = (transposed(at, a, transpose_a)?, transposed(at, b, transpose_b)?);
        let dtype = at.dtype(a);
        let mut result = multiplied(at, a, b)?;
        // Fractions of integers are cut off at the end.
        let computed =
            if dtype.is_float() || (alpha, beta) == (1.0, 1.0) { dtype } else { wide(dtype) };
        result = cast(at, result, computed)?;
        if alpha != 1.0 {
            result = with_number(at, BinaryOp::Mul, result, alpha)?;
        }
        if let Some(added) = inputs.optional(2)?
            && beta != 0.0
        {
            let mut added = cast(at, added, computed)?;
            if beta != 1.0 {
                added = with_number(at, BinaryOp::Mul, added, beta)?;
            }
            result = pair(at, BinaryOp::Add, result, added)?;
        }
        one(cast(at, result, dtype)?)
    })
}

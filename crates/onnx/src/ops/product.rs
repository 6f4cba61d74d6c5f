//! Matrix products.

use millstream_core::{BinaryOp, Epilogue, Op};
use millstream_graph::{Edge, Expanded, Expander, Operator};

use super::common::{one, permute, reshape};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Gemm", gemm), ("MatMul", matmul)];

/// A product as NumPy's: a vector on the left is a row, on the right a column, and its axis is not there in the result.
pub(crate) fn product(at: &mut Expander<'_>, a: Edge, b: Edge) -> Expanded<Edge> {
    let (left, right) = (at.shape(a), at.shape(b));
    let rows = if left.len() == 1 { reshape(at, a, &[1, left[0]])? } else { a };
    let columns = if right.len() == 1 { reshape(at, b, &[right[0], 1])? } else { b };
    let result = at.apply(Op::MatMul { epilogue: Epilogue::default() }, &[rows, columns])?;
    let mut shape = at.shape(result);
    if right.len() == 1 {
        shape.pop();
    }
    if left.len() == 1 {
        let place = shape.len() - usize::from(right.len() != 1);
        shape.remove(place.saturating_sub(usize::from(right.len() == 1)));
    }
    reshape(at, result, &shape)
}

fn matmul(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    operator(node, |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        one(product(at, a, b)?)
    })
}

fn gemm(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
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
        let mut result = at.apply(Op::MatMul { epilogue: Epilogue::default() }, &[a, b])?;
        let dtype = at.dtype(result);
        if alpha != 1.0 {
            let alpha = at.number(alpha, dtype)?;
            result = at.apply(Op::Binary { op: BinaryOp::Mul }, &[result, alpha])?;
        }
        if let Some(mut added) = inputs.optional(2)?
            && beta != 0.0
        {
            if beta != 1.0 {
                let beta = at.number(beta, dtype)?;
                added = at.apply(Op::Binary { op: BinaryOp::Mul }, &[added, beta])?;
            }
            result = at.apply(Op::Binary { op: BinaryOp::Add }, &[result, added])?;
        }
        one(result)
    })
}

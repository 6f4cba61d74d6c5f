//! Matrix products with something before or behind them.

use millstream_core::{BinaryOp, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{
    Made, each, one, pair, permute, reduce, refuse, squeeze, unknown, unsqueeze,
};
use super::super::product::{multiplied, product_by};
use super::{Activated, made, scaled, standard};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("CDist", distances),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", |node| fused_matmul(node, false)),
    ("FusedMatMulActivation", |node| fused_matmul(node, true)),
    ("TransposeMatMul", |node| fused_matmul(node, false)),
];

/// The distances of the rows of two matrices, from differences: a product of both would lose small ones.
fn distances(node: &mut NodeDef<'_, '_>) -> Made {
    let root = match node.attributes.string_or("metric", "sqeuclidean")? {
        "euclidean" => true,
        "sqeuclidean" => false,
        other => return unknown("metric", other),
    };
    operator(node, move |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        if at.rank(a) != 2 || at.rank(b) != 2 {
            return refuse("two matrices are needed");
        }
        let (a, b) = (unsqueeze(at, a, 1)?, unsqueeze(at, b, 0)?);
        let apart = pair(at, BinaryOp::Sub, a, b)?;
        let squares = each(at, UnaryOp::Square, apart)?;
        let sum = reduce(at, ReduceOp::Sum, squares, &[2])?;
        let sum = squeeze(at, sum, 2)?;
        one(if root { each(at, UnaryOp::Sqrt, sum)? } else { sum })
    })
}

/// A factor as a product reads it.
#[derive(Clone, Copy)]
struct Turned {
    /// The last two axes the other way round.
    last: bool,
    /// The first axis are rows, those behind it batches.
    batches: bool,
}

impl Turned {
    fn of(node: &NodeDef<'_, '_>, side: char) -> crate::Result<Self> {
        let last = node.attributes.flag(&format!("trans{side}"), false)?;
        let batches = node.attributes.flag(&format!("transBatch{side}"), false)?;
        Ok(Self { last, batches })
    }

    fn apply(self, at: &mut Expander<'_>, factor: Edge) -> Expanded<Edge> {
        let rank = at.rank(factor);
        // A vector has nothing to turn around.
        if rank < 2 {
            return Ok(factor);
        }
        let mut order: Vec<usize> = (0..rank).collect();
        if self.batches {
            order = (1..rank - 1).chain([0, rank - 1]).collect();
        }
        if self.last {
            order.swap(rank - 1, rank - 2);
        }
        permute(at, factor, &order)
    }
}

fn fused_matmul(node: &mut NodeDef<'_, '_>, activated: bool) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    let (left, right) = (Turned::of(node, 'A')?, Turned::of(node, 'B')?);
    let activation = match activated {
        true => activation(node)?,
        false => Activated::Not,
    };
    operator(node, move |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (a, b) = (left.apply(at, a)?, right.apply(at, b)?);
        let product = product_by(at, a, b, multiplied)?;
        let product = scaled(at, product, alpha)?;
        one(activation.apply(at, product)?)
    })
}

/// The activation of a node, whose parameters have attributes of their own.
fn activation(node: &NodeDef<'_, '_>) -> crate::Result<Activated> {
    let mut params = Vec::new();
    for name in ["activation_alpha", "activation_beta", "activation_gamma"] {
        params.extend(node.attributes.float(name)?);
    }
    node.attributes.ignore(&["activation_axis"]);
    Activated::of(node.attributes.string("activation")?, &params)
}

fn fused_gemm(node: &mut NodeDef<'_, '_>) -> Made {
    let activation = activation(node)?;
    let gemm = standard(node, "Gemm")?;
    operator(node, move |at, inputs| {
        let given = [inputs.optional(0)?, inputs.optional(1)?, inputs.optional(2)?];
        let product = made(&*gemm, at, &given)?;
        one(activation.apply(at, product)?)
    })
}

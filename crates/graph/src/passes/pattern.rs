//! Looking at what a graph computes, from an edge backwards.

use millstream_core::{BinaryOp, DType, Op, Scalar, UnaryOp};
use smallvec::SmallVec;

use super::rewrite::Rewrite;
use crate::graph::{Edge, Node, NodeOp};
use crate::view::View;

/// Products within products that are looked through.
const LEVELS: usize = 6;

/// A product of edges and a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    pub coefficient: f64,
    pub factors: SmallVec<[Edge; 4]>,
}

impl Rewrite<'_> {
    /// The operation that makes an edge, with its node.
    pub fn op(&self, edge: Edge) -> Option<(&Op, &Node)> {
        let (_, node) = self.old.producer(edge)?;
        match &node.op {
            NodeOp::Op(op) => Some((op, node)),
            NodeOp::View(_) | NodeOp::Concat { .. } => None,
        }
    }

    /// The view that an edge is, with its source.
    pub fn view(&self, edge: Edge) -> Option<(&View, Edge)> {
        let (_, node) = self.old.producer(edge)?;
        match &node.op {
            NodeOp::View(view) => Some((view, node.inputs[0])),
            NodeOp::Op(_) | NodeOp::Concat { .. } => None,
        }
    }

    /// The operands of a binary operation that makes an edge.
    pub fn binary(&self, edge: Edge, wanted: BinaryOp) -> Option<(Edge, Edge)> {
        match self.op(edge)? {
            (Op::Binary { op }, node) if *op == wanted => Some((node.inputs[0], node.inputs[1])),
            _ => None,
        }
    }

    /// The operand of a unary operation that makes an edge.
    pub fn unary(&self, edge: Edge, wanted: UnaryOp) -> Option<Edge> {
        match self.op(edge)? {
            (Op::Unary { op }, node) if *op == wanted => Some(node.inputs[0]),
            _ => None,
        }
    }

    /// The one number that an edge holds, whatever its shape.
    pub fn number(&self, edge: Edge) -> Option<f64> {
        let constant = self.constant(edge)?;
        let elements: usize = constant.spec().shape().iter().product();
        if elements != 1 {
            return None;
        }
        let array = constant.array(self.folder()).ok()?;
        array.to_scalar().ok().map(Scalar::as_f64)
    }

    /// An edge that is a sum of another and a number.
    pub fn plus_number(&self, edge: Edge) -> Option<(Edge, f64)> {
        let (a, b) = self.binary(edge, BinaryOp::Add)?;
        match (self.number(a), self.number(b)) {
            (None, Some(number)) => Some((a, number)),
            (Some(number), None) => Some((b, number)),
            _ => None,
        }
    }

    /// The square that an edge is: its root.
    pub fn square_root(&self, edge: Edge) -> Option<Edge> {
        if let Some(root) = self.unary(edge, UnaryOp::Square) {
            return Some(root);
        }
        if let Some((base, exponent)) = self.binary(edge, BinaryOp::Pow)
            && self.number(exponent) == Some(2.0)
        {
            return Some(base);
        }
        let (a, b) = self.binary(edge, BinaryOp::Mul)?;
        (a == b).then_some(a)
    }

    /// An edge as a product: factors that are computed for it alone are taken apart.
    pub fn product(&self, edge: Edge) -> Product {
        let mut product = Product { coefficient: 1.0, factors: SmallVec::new() };
        self.add_factors(edge, 0, &mut product);
        product
    }

    fn add_factors(&self, edge: Edge, level: usize, product: &mut Product) {
        if let Some(number) = self.number(edge) {
            product.coefficient *= number;
            return;
        }
        let inner = level == 0 || self.only_use(edge).is_some();
        if level < LEVELS && inner {
            if let Some((a, b)) = self.binary(edge, BinaryOp::Mul) {
                self.add_factors(a, level + 1, product);
                self.add_factors(b, level + 1, product);
                return;
            }
            if let Some((a, b)) = self.binary(edge, BinaryOp::Div)
                && let Some(number) = self.number(b)
            {
                product.coefficient /= number;
                self.add_factors(a, level + 1, product);
                return;
            }
        }
        product.factors.push(edge);
    }

    /// Whether a number is another, as exactly as the element type of an edge can say it.
    pub fn is_about(&self, edge: Edge, number: f64, wanted: f64) -> bool {
        let precision = match self.old.dtype(edge) {
            DType::F16 => 2e-3,
            DType::BF16 => 1e-2,
            DType::F64 => 1e-7,
            _ => 1e-5,
        };
        (number - wanted).abs() <= precision * wanted.abs()
    }

    /// Whether an edge has the shape that a node makes of it, so that nothing is repeated.
    pub fn has_shape_of(&self, edge: Edge, node: &Node) -> bool {
        self.old.shape(edge) == self.old.shape(node.outputs[0])
    }
}

//! Activations that files write as several operations.

use millstream_core::{BinaryOp, Op, UnaryOp};

use super::pattern::Product;
use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};

/// `sqrt(1 / 2)`, `sqrt(2 / pi)` and the factor of the cube in the tanh approximation of GELU.
const ROOT_OF_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
const ROOT_OF_TWO_OVER_PI: f64 = 0.797_884_560_802_865_4;
const CUBIC: f64 = 0.044715;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    rewrite(graph, folder, |rewrite, _, node| replace(rewrite, node))
}

fn replace(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    if let NodeOp::Op(Op::Binary { op: BinaryOp::Pow }) = node.op {
        return square(rewrite, node);
    }
    let NodeOp::Op(Op::Binary { op: BinaryOp::Mul | BinaryOp::Div }) = node.op else {
        return Ok(None);
    };
    let output = node.outputs[0];
    if !rewrite.old.dtype(output).is_float() {
        return Ok(None);
    }
    let Product { coefficient, factors } = rewrite.product(output);
    let &[a, b] = &factors[..] else { return Ok(None) };
    for (x, gate) in [(a, b), (b, a)] {
        if !rewrite.has_shape_of(x, node) || rewrite.only_use(gate).is_none() {
            continue;
        }
        if let Some(op) = find(rewrite, x, gate, coefficient) {
            return rewrite.apply(Op::Unary { op }, &[x]);
        }
    }
    Ok(None)
}

/// A power whose exponent is 2: as a function of two numbers it would take far longer than a product.
fn square(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let (base, exponent) = (node.inputs[0], node.inputs[1]);
    let is_square = rewrite.number(exponent) == Some(2.0)
        && rewrite.has_shape_of(base, node)
        && rewrite.old.dtype(base).is_float();
    if !is_square {
        return Ok(None);
    }
    rewrite.apply(Op::Unary { op: UnaryOp::Square }, &[base])
}

/// The function of `x` that `coefficient · x · gate` is.
fn find(rewrite: &Rewrite<'_>, x: Edge, gate: Edge, coefficient: f64) -> Option<UnaryOp> {
    let is = |wanted: f64| rewrite.is_about(x, coefficient, wanted);
    if is(1.0) {
        if rewrite.unary(gate, UnaryOp::Sigmoid) == Some(x) {
            return Some(UnaryOp::Silu);
        }
        let soft = rewrite.unary(gate, UnaryOp::Tanh);
        let soft = soft.and_then(|soft| rewrite.unary(soft, UnaryOp::Softplus));
        if soft == Some(x) {
            return Some(UnaryOp::Mish);
        }
        if let Some((Op::Unary { op: UnaryOp::HardSigmoid { alpha, beta } }, node)) =
            rewrite.op(gate)
            && node.inputs[0] == x
            && rewrite.is_about(x, f64::from(*alpha), 1.0 / 6.0)
            && *beta == 0.5
        {
            return Some(UnaryOp::HardSwish);
        }
    }
    if is(1.0 / 6.0)
        && let Some((Op::Clip { min: Some(min), max: Some(max) }, node)) = rewrite.op(gate)
        && (min.as_f64(), max.as_f64()) == (0.0, 6.0)
        && rewrite.plus_number(node.inputs[0]) == Some((x, 3.0))
    {
        return Some(UnaryOp::HardSwish);
    }
    if is(0.5) {
        let (inner, one) = rewrite.plus_number(gate)?;
        if one != 1.0 {
            return None;
        }
        if let Some(argument) = rewrite.unary(inner, UnaryOp::Erf) {
            let Product { coefficient, factors } = rewrite.product(argument);
            let fits = factors[..] == [x] && rewrite.is_about(x, coefficient, ROOT_OF_HALF);
            return fits.then_some(UnaryOp::Gelu);
        }
        let argument = rewrite.unary(inner, UnaryOp::Tanh)?;
        return is_cubic(rewrite, x, argument).then_some(UnaryOp::GeluTanh);
    }
    None
}

/// Whether an edge is `sqrt(2 / pi) · (x + 0.044715 · x³)`.
fn is_cubic(rewrite: &Rewrite<'_>, x: Edge, argument: Edge) -> bool {
    let Product { coefficient, factors } = rewrite.product(argument);
    if !rewrite.is_about(x, coefficient, ROOT_OF_TWO_OVER_PI) {
        return false;
    }
    match factors[..] {
        [sum] => {
            let Some((a, b)) = rewrite.binary(sum, BinaryOp::Add) else { return false };
            [(a, b), (b, a)]
                .into_iter()
                .any(|(plain, cubic)| plain == x && is_power(rewrite, x, cubic, CUBIC, 3))
        }
        // x · (1 + 0.044715 · x²)
        [a, b] => [(a, b), (b, a)].into_iter().any(|(plain, sum)| {
            let squared = rewrite.plus_number(sum).filter(|(_, one)| *one == 1.0);
            plain == x
                && squared.is_some_and(|(squared, _)| is_power(rewrite, x, squared, CUBIC, 2))
        }),
        _ => false,
    }
}

/// Whether an edge is `coefficient · x ^ exponent`.
fn is_power(rewrite: &Rewrite<'_>, x: Edge, edge: Edge, wanted: f64, exponent: usize) -> bool {
    let Product { coefficient, factors } = rewrite.product(edge);
    if !rewrite.is_about(x, coefficient, wanted) {
        return false;
    }
    let mut power = 0;
    for factor in factors {
        power += match rewrite.binary(factor, BinaryOp::Pow) {
            Some((base, by)) if base == x => match rewrite.number(by) {
                Some(by) if by == 2.0 || by == 3.0 => by as usize,
                _ => return false,
            },
            _ if factor == x => 1,
            _ if rewrite.square_root(factor) == Some(x) => 2,
            _ => return false,
        };
    }
    power == exponent
}

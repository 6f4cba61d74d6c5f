//! Products of numbers that are quantized to 8 bits become products of integers.
//!
//! Files write them in two ways. A static quantization dequantizes both operands of a product in floating point and quantizes
//! what it makes (`DequantizeLinear`, `QuantizeLinear`); a dynamic one multiplies integers, converts the sums and
//! multiplies them by both scales. Both become one product of integers that rescales its exact sums, and the epilogue pass
//! adds bias, residual, activation and the quantization of the result. Integers are multiplied exactly here, on every
//! device, so nothing saturates; products so long that sums could exceed 32 bits stay as they are.

use millstream_core::{Activation, BinaryOp, DType, Epilogue, Op, Rescale, TensorSpec};

use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::{Constant, Folder, Recipe};
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::View;

/// Products of a sum up to which none exceeds 32 bits.
const LONGEST: usize = 1 << 15;

/// Convolutions with fewer products of a sum, or fewer output channels, are faster in floating point.
const LEAST_PRODUCTS: usize = 64;
const LEAST_CHANNELS: usize = 16;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    rewrite(graph, folder, |rewrite, _, node| match &node.op {
        NodeOp::Op(Op::MatMul { epilogue }) => matmul(rewrite, node, *epilogue),
        NodeOp::Op(Op::Conv { .. }) => conv(rewrite, node),
        NodeOp::Op(Op::Binary { op: BinaryOp::Mul }) => scaled(rewrite, node),
        NodeOp::Op(_) | NodeOp::View(_) | NodeOp::Concat { .. } => Ok(None),
    })
}

/// An edge of the old graph, or a constant that is in no graph yet.
enum Value {
    Edge(Edge),
    Constant(Constant),
}

/// Integers of 8 bits that stand for `(values - zero) · scale`.
struct Integers {
    values: Value,
    scale: Value,
    zero: Option<Value>,
    /// The axis along which scales differ.
    axis: Option<usize>,
    /// Whether rows and columns are to be exchanged; the axis is that of the exchanged values.
    transposed: bool,
}

impl Value {
    /// The edge of the new graph that stands for it.
    fn edge(&self, rewrite: &mut Rewrite<'_>) -> Edge {
        match self {
            Value::Edge(edge) => rewrite.new_edge(*edge),
            Value::Constant(constant) => rewrite.builder().graph.add_constant(constant.clone()),
        }
    }
}

/// What a dequantization has as scale, if it makes `f32` of 8 bits.
fn suits(op: &Op, values: DType, scale: TensorSpec) -> Option<(Option<usize>, bool)> {
    match op {
        // A product takes numbers of 32 bits as scales: one, or one for each channel.
        Op::Dequantize { axis, dtype: DType::F32, zero, block: None }
            if matches!(values, DType::U8 | DType::I8)
                && scale.dtype() == DType::F32
                && scale.shape().len() <= 1 =>
        {
            Some((axis.map(usize::from), *zero))
        }
        _ => None,
    }
}

/// The integers that an edge stands for.
fn integers(rewrite: &Rewrite<'_>, edge: Edge) -> Option<Integers> {
    let Some(constant) = rewrite.constant(edge) else {
        let (op, node) = rewrite.op(edge)?;
        let scale = rewrite.old.spec(*node.inputs.get(1)?);
        let (axis, zero) = suits(op, rewrite.old.dtype(node.inputs[0]), scale)?;
        let at = |place: usize| Value::Edge(node.inputs[place]);
        let zero = zero.then(|| at(2));
        return Some(Integers { values: at(0), scale: at(1), zero, axis, transposed: false });
    };
    let Recipe::Computed { op, inputs, .. } = constant.recipe() else { return None };
    match op {
        NodeOp::Op(op) => of_constant(op, inputs, false),
        // As weights that files have with their columns first.
        NodeOp::View(View::Permute(order)) if order[..] == [1, 0] => {
            let Recipe::Computed { op: NodeOp::Op(op), inputs, .. } = inputs[0].recipe() else {
                return None;
            };
            of_constant(op, inputs, true)
        }
        NodeOp::View(_) | NodeOp::Concat { .. } => None,
    }
}

fn of_constant(op: &Op, inputs: &[Constant], transposed: bool) -> Option<Integers> {
    let (axis, zero) = suits(op, inputs.first()?.spec().dtype(), inputs.get(1)?.spec())?;
    let at = |place: usize| Value::Constant(inputs[place].clone());
    let axis = if transposed { axis.map(|axis| 1 - axis) } else { axis };
    let zero = zero.then(|| at(2));
    Some(Integers { values: at(0), scale: at(1), zero, axis, transposed })
}

/// The operands of a product of integers, in the order that it takes them.
fn operands(rewrite: &mut Rewrite<'_>, sides: [&Integers; 2]) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    for side in sides {
        let mut values = side.values.edge(rewrite);
        if side.transposed {
            let exchange = NodeOp::View(View::Permute([1, 0].into_iter().collect()));
            values = rewrite.builder().add_one(exchange, &[values])?;
        }
        edges.push(values);
    }
    for zero in sides.iter().filter_map(|side| side.zero.as_ref()) {
        edges.push(zero.edge(rewrite));
    }
    for side in sides {
        edges.push(side.scale.edge(rewrite));
    }
    Ok(edges)
}

/// What a floating-point epilogue is for a product of integers.
fn rescale(epilogue: Epilogue) -> Option<Rescale> {
    let Epilogue { scale, bias, residual, activation } = epilogue;
    let rescale = Rescale { dtype: DType::F32, bias, residual, activation, zero: false };
    (scale == 1.0).then_some(rescale)
}

/// A product of two dequantized matrices, of which the second may have a scale for each column.
fn matmul(rewrite: &mut Rewrite<'_>, node: &Node, epilogue: Epilogue) -> Replaced {
    let (lhs, rhs) = (node.inputs[0], node.inputs[1]);
    let (Some(a), Some(b)) = (integers(rewrite, lhs), integers(rewrite, rhs)) else {
        return Ok(None);
    };
    let Some(rescale) = rescale(epilogue) else { return Ok(None) };
    let shape = rewrite.old.shape(rhs);
    let columns = shape.len().checked_sub(1);
    let fits = a.axis.is_none()
        && (b.axis.is_none() || (b.axis == columns && shape.len() == 2))
        && shape.len() >= 2
        && shape[shape.len() - 2] <= LONGEST;
    if !fits {
        return Ok(None);
    }
    let (a_zero, b_zero) = (a.zero.is_some(), b.zero.is_some());
    let mut inputs = operands(rewrite, [&a, &b])?;
    inputs.extend(node.inputs[2..].iter().map(|&input| rewrite.new_edge(input)));
    let op = Op::MatMulInteger { a_zero, b_zero, rescale: Some(rescale) };
    rewrite.builder().add(NodeOp::Op(op), &inputs).map(Some)
}

/// A convolution of dequantized numbers, whose weights may have a scale for each output channel.
fn conv(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::Conv { params, epilogue }) = &node.op else { return Ok(None) };
    let (src, weight) = (node.inputs[0], node.inputs[1]);
    let (Some(a), Some(b)) = (integers(rewrite, src), integers(rewrite, weight)) else {
        return Ok(None);
    };
    let Some(rescale) = rescale(*epilogue) else { return Ok(None) };
    let shape = rewrite.old.shape(weight);
    let products = shape[1..].iter().product::<usize>();
    let fits = a.axis.is_none()
        && b.axis.is_none_or(|axis| axis == 0)
        && !b.transposed
        && params.groups == 1
        && (LEAST_PRODUCTS..=LONGEST).contains(&products)
        && shape[0] >= LEAST_CHANNELS;
    if !fits {
        return Ok(None);
    }
    let (src_zero, weight_zero) = (a.zero.is_some(), b.zero.is_some());
    let mut inputs = operands(rewrite, [&a, &b])?;
    inputs.extend(node.inputs[2..].iter().map(|&input| rewrite.new_edge(input)));
    let params = params.clone();
    let op = Op::ConvInteger { params, src_zero, weight_zero, rescale: Some(rescale) };
    rewrite.builder().add(NodeOp::Op(op), &inputs).map(Some)
}

/// Sums of integers that are converted and multiplied by two scales.
fn scaled(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    for (sums, scales) in [(0, 1), (1, 0)] {
        let (sums, scales) = (node.inputs[sums], node.inputs[scales]);
        if rewrite.has_shape_of(sums, node)
            && let Some(done) = scale_sums(rewrite, sums, scales)?
        {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

fn scale_sums(rewrite: &mut Rewrite<'_>, converted: Edge, scales: Edge) -> Replaced {
    let Some((_, Op::Copy { dtype: DType::F32, .. }, cast)) = rewrite.sole_producer(converted)
    else {
        return Ok(None);
    };
    let sums = cast.inputs[0];
    let Some((_, op, product)) = rewrite.sole_producer(sums) else { return Ok(None) };
    let Some((a, b)) = rewrite.binary(scales, BinaryOp::Mul) else { return Ok(None) };
    if rewrite.old.dtype(a) != DType::F32 {
        return Ok(None);
    }
    let elements = |edge: Edge| rewrite.old.shape(edge).iter().product::<usize>();
    // One of them belongs to all rows, the other one to all columns or to each.
    let (row, column) = match (elements(a), elements(b)) {
        (1, _) => (a, b),
        (_, 1) => (b, a),
        _ => return Ok(None),
    };
    let shape = rewrite.old.shape(sums);
    let rescale = Some(Rescale {
        dtype: DType::F32,
        bias: false,
        residual: false,
        activation: Activation::None,
        zero: false,
    });
    let (op, channels, axis) = match op.clone() {
        Op::MatMulInteger { a_zero, b_zero, rescale: None } => {
            let op = Op::MatMulInteger { a_zero, b_zero, rescale };
            (op, shape[shape.len() - 1], shape.len() - 1)
        }
        Op::ConvInteger { params, src_zero, weight_zero, rescale: None } => {
            let op = Op::ConvInteger { params, src_zero, weight_zero, rescale };
            (op, shape[1], 1)
        }
        _ => return Ok(None),
    };
    // Where the scales of columns lie along the axis of columns, and nowhere else.
    let wide = rewrite.old.shape(column);
    let of_columns = elements(column) == 1
        || (elements(column) == channels
            && wide.len() + axis >= shape.len()
            && wide[wide.len() + axis - shape.len()] == channels);
    if !of_columns || shape.len() < wide.len() {
        return Ok(None);
    }
    let flat: &[usize] = if elements(column) == 1 { &[] } else { &[channels] };
    let flat = View::Reshape(flat.iter().copied().collect());
    let inputs = product.inputs.clone();
    let mut inputs: Vec<Edge> = inputs.iter().map(|&input| rewrite.new_edge(input)).collect();
    let one = NodeOp::View(View::Reshape([].into_iter().collect()));
    let (row, column) = (rewrite.new_edge(row), rewrite.new_edge(column));
    inputs.push(rewrite.builder().add_one(one, &[row])?);
    inputs.push(rewrite.builder().add_one(NodeOp::View(flat), &[column])?);
    rewrite.builder().add(NodeOp::Op(op), &inputs).map(Some)
}

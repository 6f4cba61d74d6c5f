//! Bias, residual, scale and activation become parts of the product or convolution before them, and so does a quantization of
//! what a product of integers makes.

use millstream_core::{Activation, BinaryOp, DType, Epilogue, Op, Rescale, Scalar, UnaryOp};

use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};

/// Once for each part: what one round joined is the product of the next.
const ROUNDS: usize = 5;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    let mut graph = super::dead::run(graph)?;
    for _ in 0..ROUNDS {
        graph =
            super::dead::run(&rewrite(&graph, folder, |rewrite, _, node| replace(rewrite, node))?)?;
    }
    Ok(graph)
}

fn replace(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    match &node.op {
        NodeOp::Op(Op::Binary { op: op @ (BinaryOp::Add | BinaryOp::Mul) }) => {
            for (product, other) in [(0, 1), (1, 0)] {
                let (product, other) = (node.inputs[product], node.inputs[other]);
                if let Some(done) = scale_swish(rewrite, node, *op, product, other)? {
                    return Ok(Some(done));
                }
                if *op == BinaryOp::Add
                    && let Some(done) = add(rewrite, node, product, other)?
                {
                    return Ok(Some(done));
                }
            }
            Ok(None)
        }
        NodeOp::Op(Op::Quantize { axis: None, dtype, zero, block: None }) => {
            quantize(rewrite, node, *dtype, *zero)
        }
        NodeOp::Op(op) => match activation(op) {
            Some(activation) => activate(rewrite, node.inputs[0], activation),
            None => Ok(None),
        },
        NodeOp::View(_) | NodeOp::Concat { .. } => Ok(None),
    }
}

/// The activation that an operation is, if products have it.
fn activation(op: &Op) -> Option<Activation> {
    match op {
        Op::Unary { op } => match *op {
            UnaryOp::Relu => Some(Activation::Relu),
            UnaryOp::Gelu => Some(Activation::Gelu),
            UnaryOp::GeluTanh => Some(Activation::GeluTanh),
            UnaryOp::Silu => Some(Activation::Silu),
            UnaryOp::Sigmoid => Some(Activation::Sigmoid),
            UnaryOp::Tanh => Some(Activation::Tanh),
            UnaryOp::HardSwish => Some(Activation::HardSwish),
            UnaryOp::LeakyRelu { slope } => Some(Activation::LeakyRelu { slope }),
            _ => None,
        },
        Op::Clip { min, max } => {
            let limit = |limit: &Option<Scalar>, none: f32| match limit {
                Some(limit) => limit.as_f64() as f32,
                None => none,
            };
            let (min, max) = (limit(min, f32::NEG_INFINITY), limit(max, f32::INFINITY));
            Some(Activation::Clip { min, max })
        }
        _ => None,
    }
}

/// The epilogue of a product, and the same product with another one.
fn epilogue(op: &Op) -> Option<(Epilogue, impl FnOnce(Epilogue) -> Op)> {
    let epilogue = match op {
        Op::MatMul { epilogue } | Op::MatMulBlocks { epilogue, .. } => *epilogue,
        Op::Conv { epilogue, .. } | Op::ConvTranspose { epilogue, .. } => *epilogue,
        Op::MatMulInteger { rescale: Some(rescale), .. }
        | Op::ConvInteger { rescale: Some(rescale), .. }
            if !rescale.is_byte() =>
        {
            let Rescale { bias, residual, activation, .. } = *rescale;
            Epilogue { scale: 1.0, bias, residual, activation }
        }
        _ => return None,
    };
    let op = op.clone();
    let with = move |new: Epilogue| {
        let mut op = op;
        match &mut op {
            Op::MatMul { epilogue }
            | Op::MatMulBlocks { epilogue, .. }
            | Op::Conv { epilogue, .. }
            | Op::ConvTranspose { epilogue, .. } => *epilogue = new,
            Op::MatMulInteger { rescale: Some(rescale), .. }
            | Op::ConvInteger { rescale: Some(rescale), .. } => {
                let Epilogue { scale: _, bias, residual, activation } = new;
                *rescale = Rescale { bias, residual, activation, ..*rescale };
            }
            _ => {}
        }
        op
    };
    Some((epilogue, with))
}

fn activate(rewrite: &mut Rewrite<'_>, product: Edge, activation: Activation) -> Replaced {
    let Some((_, op, node)) = rewrite.sole_producer(product) else { return Ok(None) };
    let Some((epilogue, with)) = epilogue(op) else { return Ok(None) };
    let dtype = rewrite.old.dtype(product);
    // Limits have 32 bits here.
    let is_narrower = dtype == DType::F64 && matches!(activation, Activation::Clip { .. });
    if epilogue.activation != Activation::None || !dtype.is_float() || is_narrower {
        return Ok(None);
    }
    let (op, inputs) = (with(Epilogue { activation, ..epilogue }), node.inputs.clone());
    rewrite.apply(op, &inputs)
}

/// A number that the hard swish of a product is multiplied by, or that is added to it.
fn scale_swish(
    rewrite: &mut Rewrite<'_>,
    node: &Node,
    op: BinaryOp,
    product: Edge,
    number: Edge,
) -> Replaced {
    let Some(number) = rewrite.number(number) else { return Ok(None) };
    if !rewrite.has_shape_of(product, node) || rewrite.old.dtype(product) == DType::F64 {
        return Ok(None);
    }
    let Some((_, made, producer)) = rewrite.sole_producer(product) else { return Ok(None) };
    let Some((epilogue, with)) = epilogue(made) else { return Ok(None) };
    let (scale, shift) = match epilogue.activation {
        Activation::HardSwish => (1.0, 0.0),
        Activation::ScaledHardSwish { scale, shift } => (scale, shift),
        _ => return Ok(None),
    };
    let number = number as f32;
    let (scale, shift) = match op {
        BinaryOp::Mul => (scale * number, shift * number),
        _ => (scale, shift + number),
    };
    // An infinite scale would make NaN of a shift of 0.
    if !scale.is_finite() || !shift.is_finite() {
        return Ok(None);
    }
    let activation = Activation::ScaledHardSwish { scale, shift };
    let (op, inputs) = (with(Epilogue { activation, ..epilogue }), producer.inputs.clone());
    rewrite.apply(op, &inputs)
}

/// A product and what is added to it: a bias, which is a constant of few elements, or a residual of the product's shape.
fn add(rewrite: &mut Rewrite<'_>, sum: &Node, product: Edge, added: Edge) -> Replaced {
    let Some((_, op, node)) = rewrite.sole_producer(product) else { return Ok(None) };
    let Some((epilogue, with)) = epilogue(op) else { return Ok(None) };
    let shape = rewrite.old.shape(product);
    let (Some(&columns), transposed) = (shape.last(), matches!(op, Op::ConvTranspose { .. }))
    else {
        return Ok(None);
    };
    if epilogue.activation != Activation::None
        || rewrite.old.shape(sum.outputs[0]) != shape
        || rewrite.old.dtype(product) == DType::F64
    {
        return Ok(None);
    }
    let wide = rewrite.old.shape(added);
    let is_conv = matches!(op, Op::Conv { .. } | Op::ConvTranspose { .. } | Op::ConvInteger { .. });
    let is_bias = if is_conv {
        let channels = shape[1];
        wide.len() == shape.len()
            && wide
                .iter()
                .enumerate()
                .all(|(axis, &size)| size == if axis == 1 { channels } else { 1 })
    } else {
        wide.last() == Some(&columns) && wide.iter().rev().skip(1).all(|&size| size == 1)
    };
    let mut inputs = node.inputs.clone();
    // A convolution takes its bias as one number per channel.
    if is_bias && !epilogue.bias && !epilogue.residual {
        let op = with(Epilogue { bias: true, ..epilogue });
        let mut bias = rewrite.new_edge(added);
        if is_conv {
            let channels = rewrite.old.shape(product)[1];
            let flat = crate::view::View::Reshape(crate::view::Sizes::from_slice(&[channels]));
            bias = rewrite.builder().add_one(NodeOp::View(flat), &[bias])?;
        }
        let mut inputs: Vec<Edge> = inputs.iter().map(|&input| rewrite.new_edge(input)).collect();
        inputs.push(bias);
        return rewrite.builder().add(NodeOp::Op(op), &inputs).map(Some);
    }
    if wide == shape && !epilogue.residual && !transposed {
        let op = with(Epilogue { residual: true, ..epilogue });
        inputs.push(added);
        return rewrite.apply(op, &inputs);
    }
    Ok(None)
}

/// A product of integers whose result is quantized to 8 bits again.
fn quantize(rewrite: &mut Rewrite<'_>, node: &Node, dtype: DType, zero: bool) -> Replaced {
    let Some((_, op, product)) = rewrite.sole_producer(node.inputs[0]) else { return Ok(None) };
    let mut op = op.clone();
    let (Op::MatMulInteger { rescale: Some(rescale), .. }
    | Op::ConvInteger { rescale: Some(rescale), .. }) = &mut op
    else {
        return Ok(None);
    };
    let is_one = |edge: Edge| rewrite.old.shape(edge).iter().product::<usize>() == 1;
    let fits = rescale.dtype == DType::F32
        && matches!(dtype, DType::U8 | DType::I8)
        && rewrite.old.dtype(node.inputs[1]) == DType::F32
        && node.inputs[1..].iter().all(|&edge| is_one(edge));
    if !fits {
        return Ok(None);
    }
    (rescale.dtype, rescale.zero) = (dtype, zero);
    let mut inputs = product.inputs.clone();
    inputs.extend_from_slice(&node.inputs[1..]);
    rewrite.apply(op, &inputs)
}

//! Operations that are long to write out. Shapes and axes that no tensor has make them panic.

use millstream_core::{
    Activation, AttentionParams, Axes, ConvParams, DType, Distribution, Epilogue, HostBytes,
    IotaParams, Layout, Op, PadParams, PoolParams, RecurrentParams, ReduceOp, ResizeParams, Scalar,
    TensorSpec,
};

fn tensor(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::new(dtype, shape).expect("a valid shape")
}

/// Fills a tensor.
pub fn fill(value: impl Into<Scalar>, dtype: DType, shape: &[usize]) -> Op {
    Op::Fill { value: value.into(), spec: tensor(dtype, shape) }
}

/// Numbers in a row.
pub fn iota(
    axis: usize,
    start: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
    shape: &[usize],
) -> Op {
    let (start, step, spec) = (start.into(), step.into(), tensor(dtype, shape));
    Op::Iota { params: Box::new(IotaParams { start, step, axis: axis as u8, spec }) }
}

/// Elements in the opposite order along some axes.
pub fn reverse(axes: &[usize], batch_axis: Option<usize>) -> Op {
    let batch_axis = batch_axis.map(|axis| axis as u8);
    Op::Reverse { axes: Axes::new(axes).expect("axes of a shape"), batch_axis }
}

/// Fills a tensor with random numbers.
pub fn random(
    distribution: Distribution,
    (seed, offset): (u64, u64),
    dtype: DType,
    shape: &[usize],
) -> Op {
    Op::Random { distribution, seed, offset, spec: tensor(dtype, shape) }
}

/// Brings a tensor. Its bytes are those of the case ([`CaseBuilder::host`](crate::CaseBuilder::host)).
pub fn upload(dtype: DType, shape: &[usize]) -> Op {
    let spec = tensor(dtype, shape);
    let bytes = dtype.bytes(shape.iter().product()).expect("few");
    Op::Upload { source: HostBytes::zeroed(bytes), spec }
}

/// Takes what lies there. Every Command gets a target of its own.
pub fn download(src: &Layout) -> Op {
    Op::Download { target: HostBytes::zeroed(src.dense_bytes()) }
}

/// A reduction over some axes.
pub fn reduce(op: ReduceOp, axes: &[usize]) -> Op {
    Op::Reduce { op, axes: Axes::new(axes).expect("axes of a shape") }
}

/// A matrix product with all that may follow it.
pub fn matmul(scale: f32, bias: bool, residual: bool, activation: Activation) -> Op {
    Op::MatMul { epilogue: Epilogue { scale, bias, residual, activation } }
}

/// A convolution, or a transposed one, which takes no residual.
pub fn conv(transposed: bool, params: ConvParams, epilogue: Epilogue) -> Op {
    let params = Box::new(params);
    match transposed {
        true => Op::ConvTranspose { params, epilogue },
        false => Op::Conv { params, epilogue },
    }
}

/// Pooling.
pub fn pool(params: PoolParams) -> Op {
    Op::Pool { params: Box::new(params) }
}

/// Interpolation.
pub fn resize(params: ResizeParams) -> Op {
    Op::Resize { params: Box::new(params) }
}

/// Padding.
pub fn pad(params: PadParams) -> Op {
    Op::Pad { params: Box::new(params) }
}

/// Attention.
pub fn attention(scale: f32, causal: bool, mask: bool) -> Op {
    let params = AttentionParams::new(scale).causal_if(causal);
    Op::Attention { params: AttentionParams { mask, ..params } }
}

/// A recurrent layer.
pub fn recurrent(params: RecurrentParams) -> Op {
    Op::Recurrent { params: Box::new(params) }
}

/// Conversion to 8-bit integers, or back to floating point.
pub fn quantize(axis: Option<usize>, dtype: DType, zero: bool, block: Option<u32>) -> Op {
    let axis = axis.map(|axis| axis as u8);
    match dtype.is_float() {
        true => Op::Dequantize { axis, dtype, zero, block },
        false => Op::Quantize { axis, dtype, zero, block },
    }
}

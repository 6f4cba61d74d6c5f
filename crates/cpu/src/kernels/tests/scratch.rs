//! Scratch memory does not grow with axes that repeat one element, or its lack is a fault.

use millstream_core::{
    Activation, Command, ConvParams, CoordinateMode, DType, Layout, MAX_RANK, Recurrent,
    RecurrentCell, RecurrentDirection, ResizeMode, ResizeParams,
};

use crate::kernels::shared::testing::{Tensor, fault, run};

/// More elements than any machine has memory for.
const ENDLESS: usize = 1 << 45;

/// One element, repeated.
fn repeated(dtype: DType, shape: &[usize]) -> Tensor {
    let one = Layout::contiguous(dtype, &vec![1; shape.len()]).unwrap();
    Tensor::uninit(one.broadcast_to(shape).unwrap())
}

#[track_caller]
fn lacks_memory(command: millstream_core::Result<millstream_core::BoundCommand>) {
    let message = fault(command);
    assert!(message.contains("scratch memory"), "{message}");
}

#[test]
fn attention_over_endless_heads_is_a_fault() {
    for dtype in [DType::F32, DType::F16] {
        let dst = Tensor::output(dtype, &[1, 1, 1, 2]);
        let query = repeated(dtype, &[1, 1, 1, ENDLESS]);
        let value = Tensor::output(dtype, &[1, 1, 1, 2]);
        let (dst, query, value) = (dst.operand(), query.operand(), value.operand());
        lacks_memory(Command::attention(dst, query, query, value, None, 1.0, false));
    }
}

#[test]
fn a_recurrent_layer_of_endless_input_is_a_fault() {
    let f32s = |shape: &[usize]| repeated(DType::F32, shape);
    let output = |shape: &[usize]| Tensor::output(DType::F32, shape);
    let (src, input, hidden) = (f32s(&[1, 1, ENDLESS]), f32s(&[1, 2, ENDLESS]), f32s(&[1, 2, 2]));
    let (sequence, last) = (output(&[1, 1, 1, 2]), output(&[1, 1, 2]));
    lacks_memory(Command::recurrent(Recurrent {
        cell: RecurrentCell::RnnTanh,
        direction: RecurrentDirection::Forward,
        sequence: sequence.operand(),
        last_hidden: last.operand(),
        last_cell: None,
        src: src.operand(),
        input_weight: input.operand(),
        hidden_weight: hidden.operand(),
        bias: None,
        initial_hidden: None,
        initial_cell: None,
        lengths: None,
    }));
}

#[test]
fn an_endless_kernel_is_a_fault() {
    let (src, weight) =
        (repeated(DType::F32, &[1, 1, ENDLESS]), repeated(DType::F32, &[1, 1, ENDLESS]));
    let dst = Tensor::output(DType::F32, &[1, 1, 1]);
    let (to, from, by) = (dst.operand(), src.operand(), weight.operand());
    let params = ConvParams::new(1);
    lacks_memory(Command::conv(to, from, by, None, None, params, 1.0, Activation::None));
}

#[test]
fn shrinking_an_endless_axis_is_a_fault() {
    let mut scales = [1.0; MAX_RANK];
    scales[0] = 1.0 / ENDLESS as f64;
    let params = |antialias| ResizeParams {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        scales,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias,
        sizes: [1; 8],
    };
    let (src, dst) = (repeated(DType::F32, &[ENDLESS]), Tensor::output(DType::F32, &[1]));
    for antialias in [false, true] {
        lacks_memory(Command::resize(dst.operand(), src.operand(), params(antialias)));
    }
}

/// A larger k than what is packed at once.
#[test]
fn a_product_of_large_k_of_repeated_operands_needs_little_memory() {
    const K: usize = (1 << 25) + 3;
    let (rows, one) = (Tensor::new(&[2, 1], &[1.0f64, 2.0]), Tensor::new(&[1, 1], &[1.0f64]));
    let (mut lhs, mut rhs) = (rows.operand(), one.operand());
    lhs.layout = lhs.layout.broadcast_to(&[2, K]).unwrap();
    rhs.layout = rhs.layout.broadcast_to(&[K, 1]).unwrap();
    let dst = Tensor::output(DType::F64, &[2, 1]);
    run(Command::matmul(dst.operand(), lhs, rhs, None, None, 1.0, Activation::None));
    assert_eq!(dst.values::<f64>(), [K as f64, 2.0 * K as f64]);
}

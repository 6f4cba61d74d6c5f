//! What looks like a form that passes know, and is not: it stays, and so do the answers.

use millstream_core::{ConvParams, MemoryStats};

use super::*;

impl Writer {
    fn typed(&mut self, dtype: DType, shape: &[usize]) -> Edge {
        let input = self.input(shape);
        self.copy(input, dtype)
    }

    fn copy(&mut self, input: Edge, dtype: DType) -> Edge {
        self.op(Op::Copy { dtype, saturate: true }, &[input])
    }

    /// A constant of these numbers, in this type.
    fn numbers(&mut self, dtype: DType, values: &[f64], shape: &[usize]) -> Edge {
        let values: Vec<Scalar> = values.iter().map(|&value| value.into()).collect();
        let array = Array::of_scalars(dtype, shape, &values).unwrap();
        self.graph.add_constant(Constant::new(array))
    }
}

#[test]
fn scales_of_16_bits_stay_outside_of_products_of_integers() {
    let mut w = Writer::new();
    let x = w.input(&[3, 8]);
    let scale = w.number(0.05);
    let quantize = Op::Quantize { axis: None, dtype: DType::I8, zero: false, block: None };
    let bytes = w.op(quantize, &[x, scale]);
    let dequantize = Op::Dequantize { axis: None, dtype: DType::F32, zero: false, block: None };
    let half = w.numbers(DType::F16, &[0.05], &[]);
    let a = w.op(dequantize.clone(), &[bytes, half]);
    let weights = w.weights(&[8, 4], 3);
    let scale = w.number(0.01);
    let weights = w.op(
        Op::Quantize { axis: None, dtype: DType::I8, zero: false, block: None },
        &[weights, scale],
    );
    let b = w.op(dequantize, &[weights, half]);
    let y = w.matmul(a, b);
    w.check(&[y]);
}

#[test]
fn leading_axes_that_are_repeated_for_the_values_are_no_heads() {
    let mut w = Writer::new();
    let (q, k) = (w.input(&[1, 6, 4, 8]), w.input(&[1, 6, 8, 5]));
    let v = w.input(&[6, 1, 5, 3]);
    let scores = w.matmul(q, k);
    let weights = w.op(Op::Softmax { axis: 3, log: false }, &[scores]);
    let y = w.matmul(weights, v);
    let names = w.check(&[y]);
    assert!(!has(&names, "attention"), "{names:?}");
}

#[test]
fn scales_that_no_number_of_32_bits_says_stay_outside_of_attention() {
    let mut w = Writer::new();
    let (q, k) = (w.input(&[1, 2, 4, 8]), w.input(&[1, 2, 8, 5]));
    let v = w.input(&[1, 2, 5, 3]);
    let mut scores = w.matmul(q, k);
    for _ in 0..2 {
        let number = w.number(1e30);
        scores = w.binary(BinaryOp::Mul, scores, number);
    }
    let weights = w.op(Op::Softmax { axis: 3, log: false }, &[scores]);
    let y = w.matmul(weights, v);
    w.check(&[y]);
}

#[test]
fn a_mean_square_from_which_something_is_taken_is_no_norm() {
    let mut w = Writer::new();
    let x = w.input(&[4, 16]);
    let square = w.unary(UnaryOp::Square, x);
    let mean = w.op(
        Op::Reduce { op: ReduceOp::Mean, axes: millstream_core::Axes::new(&[1]).unwrap() },
        &[square],
    );
    let mean = w.reshape(mean, &[4, 1]);
    let less = w.number(-1e-6);
    let sum = w.binary(BinaryOp::Add, mean, less);
    let root = w.unary(UnaryOp::Sqrt, sum);
    let y = w.binary(BinaryOp::Div, x, root);
    let names = w.check(&[y]);
    assert!(!has(&names, "rms_norm"), "{names:?}");
}

/// A pass that makes a larger tensor than the model may have leaves the model's own.
#[test]
fn products_whose_weights_together_are_too_large_stay_apart() {
    let mut w = Writer::new();
    w.folder = Folder::new(&Device::cpu().unwrap(), 1 << 14).unwrap();
    let x = w.input(&[2, 64]);
    let made: Vec<Edge> = (0..3)
        .map(|seed| {
            let weights = w.weights(&[64, 48], seed);
            w.matmul(x, weights)
        })
        .collect();
    let names = w.check(&made);
    assert_eq!(names.iter().filter(|name| name.contains("matmul")).count(), 3, "{names:?}");
}

#[test]
fn a_number_ahead_of_a_product_of_16_bits_stays_there() {
    for (dtype, kept) in [(DType::F16, true), (DType::BF16, true), (DType::F32, false)] {
        let mut w = Writer::new();
        let x = w.typed(dtype, &[2, 32]);
        let number = w.numbers(dtype, &[-128.0], &[]);
        let sum = w.binary(BinaryOp::Add, x, number);
        let weights = w.weights(&[32, 4], 3);
        let weights = w.copy(weights, dtype);
        let y = w.matmul(sum, weights);
        let (names, _) = w.run(&[y], &Passes::all());
        let is_kept = has(&names, "Add") || has(&names, "chain");
        assert_eq!(is_kept, kept, "{dtype}: {names:?}");
    }
}

#[test]
fn a_product_of_16_bits_keeps_factors_that_are_far_from_one() {
    for (factor, kept) in [(1e-4, true), (5e3, true), (0.5, false), (0.0, false)] {
        let mut w = Writer::new();
        let x = w.typed(DType::F16, &[2, 16]);
        let weights = w.weights(&[16, 8], 5);
        let weights = w.copy(weights, DType::F16);
        let product = w.matmul(x, weights);
        let factors = w.numbers(DType::F16, &[factor], &[]);
        let y = w.binary(BinaryOp::Mul, product, factors);
        let (names, _) = w.run(&[y], &Passes::all());
        let is_kept = has(&names, "Mul") || has(&names, "chain");
        assert_eq!(is_kept, kept, "{factor}: {names:?}");
    }
}

#[test]
fn a_product_is_divided_by_zero_and_multiplied_by_infinity_as_it_is() {
    for (op, numbers) in [
        (BinaryOp::Div, [1.0, 0.0, -0.0, 2.0]),
        (BinaryOp::Div, [1.0, 1e-40, 3.0, 2.0]),
        (BinaryOp::Mul, [1.0, f64::INFINITY, f64::NAN, 2.0]),
    ] {
        let mut w = Writer::new();
        let x = w.input(&[3, 6]);
        let weights = w.weights(&[6, 4], 7);
        let product = w.matmul(x, weights);
        let numbers = w.numbers(DType::F32, &numbers, &[4]);
        let y = w.binary(op, product, numbers);
        w.check(&[y]);
    }
    let mut w = Writer::new();
    let x = w.input(&[3, 4]);
    let numbers = w.numbers(DType::F32, &[1.0, f64::INFINITY, 0.5, f64::NEG_INFINITY], &[4]);
    let sum = w.binary(BinaryOp::Add, x, numbers);
    let weights = w.numbers(DType::F32, &[1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 1.0], &[4, 2]);
    let y = w.matmul(sum, weights);
    w.check(&[y]);
}

#[test]
fn a_hard_swish_is_multiplied_by_infinity_as_it_is() {
    let mut w = Writer::new();
    let x = w.input(&[1, 3, 6, 6]);
    let weights = w.weights(&[4, 3, 1, 1], 7);
    let conv = Op::Conv { params: Box::new(ConvParams::new(2)), epilogue: Epilogue::default() };
    let made = w.op(conv, &[x, weights]);
    let swish = w.unary(UnaryOp::HardSwish, made);
    let infinity = w.number(f32::INFINITY);
    let y = w.binary(BinaryOp::Mul, swish, infinity);
    w.check(&[y]);
}

#[test]
fn limits_of_64_bits_are_kept() {
    let mut w = Writer::new();
    let x = w.typed(DType::F64, &[3, 6]);
    let weights = w.weights(&[6, 4], 7);
    let weights = w.copy(weights, DType::F64);
    let product = w.matmul(x, weights);
    let (min, max) = (Some(Scalar::from(0.05f64)), Some(Scalar::from(0.1f64)));
    let limited = w.op(Op::Clip { min, max }, &[product]);
    // The difference is seen in 32 bits when it is made large.
    let limit = w.numbers(DType::F64, &[0.1], &[]);
    let difference = w.binary(BinaryOp::Sub, limited, limit);
    let large = w.numbers(DType::F64, &[1e12], &[]);
    let y = w.binary(BinaryOp::Mul, difference, large);
    w.check(&[y]);
}

/// Types of which two elements share a byte have views in another order too.
#[test]
fn elements_of_4_bits_are_transposed_and_sliced() {
    let mut w = Writer::new();
    let x = w.input(&[2, 6]);
    let scale = w.number(3.0);
    let x = w.binary(BinaryOp::Mul, x, scale);
    let packed = w.copy(x, DType::I4);
    let transposed = w.permute(packed, &[1, 0]);
    assert_eq!(w.graph.shape(transposed), [6, 2]);
    let transposed = w.copy(transposed, DType::F32);
    let slice = View::Slice { axis: 1, start: 1, count: 3, step: 2 };
    let some = w.add(NodeOp::View(slice.clone()), &[packed]);
    assert_eq!(w.graph.shape(some), [2, 3]);
    let some = w.copy(some, DType::F32);
    let whole = w.copy(packed, DType::F32);
    let expected = w.permute(whole, &[1, 0]);
    let expected_some = w.add(NodeOp::View(slice), &[whole]);
    let (_, values) = w.run(&[transposed, some, expected, expected_some], &Passes::all());
    assert_eq!(values[0], values[2]);
    assert_eq!(values[1], values[3]);
}

#[test]
fn constants_on_the_way_to_a_constant_go_when_they_were_read() {
    let device = Device::builder("cpu").open().unwrap();
    let mut w = Writer { graph: Graph::new(), folder: Folder::new(&device, 1 << 30).unwrap() };
    const BYTES: usize = 1 << 20;
    let mut edge = w.weights(&[BYTES / 4], 1);
    for _ in 0..64 {
        edge = w.unary(UnaryOp::Neg, edge);
    }
    let before: MemoryStats = device.memory();
    let constant = w.graph.constant(edge).unwrap().clone();
    let first = constant.array(&w.folder).unwrap();
    assert_eq!(first.bytes().len(), BYTES);
    let grown = device.memory().peak - before.in_use;
    assert!(grown < 16 * BYTES, "{grown} bytes for a chain over {BYTES}");
}

//! Products of quantized numbers become products of integers, and the answers stay.

use millstream_core::{ConvParams, DynamicRange};
use proptest::prelude::*;

use super::*;
use crate::Pass;

impl Writer {
    /// A constant of integers that differ, of one byte each.
    fn bytes(&mut self, dtype: DType, shape: &[usize], seed: u32) -> Edge {
        let count: usize = shape.iter().product();
        let at = |index: u32| (index * 7919 + seed * 104_729) % 251;
        let array = match dtype {
            DType::I8 => {
                let values: Vec<i8> =
                    (0..count as u32).map(|i| (at(i) as i32 - 125) as i8).collect();
                Array::from_slice(&values, shape)
            }
            _ => {
                let values: Vec<u8> = (0..count as u32).map(|i| at(i) as u8).collect();
                Array::from_slice(&values, shape)
            }
        };
        self.graph.add_constant(Constant::new(array.unwrap()))
    }

    fn zero(&mut self, dtype: DType, value: u8) -> Edge {
        let array = match dtype {
            DType::I8 => Array::from_slice(&[value as i8], &[]),
            _ => Array::from_slice(&[value], &[]),
        };
        self.graph.add_constant(Constant::new(array.unwrap()))
    }

    fn quantize(&mut self, x: Edge, scale: f32, dtype: DType, zero: Option<u8>) -> Edge {
        let scale = self.number(scale);
        let zero = zero.map(|zero| self.zero(dtype, zero));
        let op = Op::Quantize { axis: None, dtype, zero: zero.is_some(), block: None };
        let inputs: Vec<Edge> = [x, scale].into_iter().chain(zero).collect();
        self.op(op, &inputs)
    }

    fn dequantize(&mut self, x: Edge, scale: Edge, axis: Option<u8>, zero: Option<Edge>) -> Edge {
        let op = Op::Dequantize { axis, dtype: DType::F32, zero: zero.is_some(), block: None };
        let inputs: Vec<Edge> = [x, scale].into_iter().chain(zero).collect();
        self.op(op, &inputs)
    }

    /// `x` with the precision of 8 bits.
    fn rounded(&mut self, x: Edge, scale: f32, dtype: DType, zero: Option<u8>) -> Edge {
        let bytes = self.quantize(x, scale, dtype, zero);
        let (scale, zero) = (self.number(scale), zero.map(|zero| self.zero(dtype, zero)));
        self.dequantize(bytes, scale, None, zero)
    }
}

/// How weights are quantized.
#[derive(Clone, Copy, Debug)]
struct Weights {
    dtype: DType,
    per_column: bool,
    zero: bool,
    /// Columns first, as files have the weights of `Gemm`.
    transposed: bool,
}

fn weights(w: &mut Writer, [k, n]: [usize; 2], kind: Weights, seed: u32) -> Edge {
    let shape = if kind.transposed { [n, k] } else { [k, n] };
    let values = w.bytes(kind.dtype, &shape, seed);
    let scale = if kind.per_column {
        let numbers: Vec<f32> = (0..n).map(|i| 0.002 + i as f32 * 1e-4).collect();
        w.graph.add_constant(Constant::new(Array::from_slice(&numbers, &[n]).unwrap()))
    } else {
        w.number(0.003)
    };
    let axis = kind.per_column.then_some(if kind.transposed { 0 } else { 1 });
    let zero = kind.zero.then(|| match kind.per_column {
        true => w.bytes(kind.dtype, &[n], seed + 1),
        false => w.zero(kind.dtype, 7),
    });
    let made = w.dequantize(values, scale, axis, zero);
    if kind.transposed { w.permute(made, &[1, 0]) } else { made }
}

fn kinds() -> impl Iterator<Item = Weights> {
    (0..16).map(|bits: u8| Weights {
        dtype: if bits & 1 == 0 { DType::I8 } else { DType::U8 },
        per_column: bits & 2 != 0,
        zero: bits & 4 != 0,
        transposed: bits & 8 != 0,
    })
}

#[test]
fn a_product_with_bias_and_activation_is_one_of_integers() {
    for kind in kinds() {
        let mut w = Writer::new();
        let x = w.input(&[3, 5, 40]);
        let x = w.rounded(x, 0.02, DType::U8, Some(128));
        let by = weights(&mut w, [40, 24], kind, 3);
        let product = w.matmul(x, by);
        let bias = w.weights(&[24], 9);
        let sum = w.binary(BinaryOp::Add, product, bias);
        let active = w.unary(UnaryOp::Relu, sum);
        assert_eq!(w.check(&[active]), ["quantize", "matmul_integer"], "{kind:?}");
    }
}

/// What is quantized again differs by one step at most, where the number lay between two.
#[test]
fn a_result_that_is_quantized_again_leaves_as_bytes() {
    for zero in [None, Some(3)] {
        let mut w = Writer::new();
        let x = w.input(&[6, 32]);
        let x = w.rounded(x, 0.02, DType::I8, None);
        let kind = Weights { dtype: DType::I8, per_column: true, zero: false, transposed: false };
        let by = weights(&mut w, [32, 16], kind, 5);
        let product = w.matmul(x, by);
        let bytes = w.quantize(product, 0.05, DType::I8, zero);
        let (names, found) = w.run(&[bytes], &Passes::all());
        assert_eq!(names, ["quantize", "matmul_integer"]);
        let (_, expected) = w.run(&[bytes], &Passes::none());
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1.0;
        assert!(!found[0].iter().zip(&expected[0]).any(far));
        let moved = found[0].iter().zip(&expected[0]).filter(|(a, b)| a != b).count();
        assert!(moved <= 2, "{moved} of {} moved", found[0].len());
    }
}

#[test]
fn a_convolution_of_many_products_is_one_of_integers_and_others_stay() {
    let cases = [(16, 16, 1, true), (16, 8, 1, false), (4, 16, 1, false), (32, 32, 32, false)];
    for (channels, outputs, groups, integers) in cases {
        let mut w = Writer::new();
        let x = w.input(&[2, channels, 6, 6]);
        let x = w.rounded(x, 0.02, DType::U8, Some(120));
        let values = w.bytes(DType::I8, &[outputs, channels / groups, 3, 3], 4);
        let numbers: Vec<f32> = (0..outputs).map(|i| 0.002 + i as f32 * 1e-4).collect();
        let scale = Array::from_slice(&numbers, &[outputs]).unwrap();
        let scale = w.graph.add_constant(Constant::new(scale));
        let by = w.dequantize(values, scale, Some(0), None);
        let bias = w.weights(&[outputs], 8);
        let params = Box::new(ConvParams {
            pad_before: [1, 1, 0],
            pad_after: [1, 1, 0],
            groups: groups as u32,
            ..ConvParams::new(2)
        });
        let epilogue = Epilogue { bias: true, ..Epilogue::default() };
        let made = w.op(Op::Conv { params, epilogue }, &[x, by, bias]);
        let made = w.unary(UnaryOp::Relu, made);
        let names = w.check(&[made]);
        assert_eq!(has(&names, "conv_integer"), integers, "{names:?}");
    }
}

/// As onnxruntime's dynamic quantization writes it.
#[test]
fn sums_that_are_converted_and_scaled_are_rescaled_by_the_product() {
    for per_column in [true, false] {
        let mut w = Writer::new();
        let x = w.input(&[2, 7, 48]);
        let op = NodeOp::Op(Op::DynamicQuantize { range: DynamicRange::Tensor, dtype: DType::U8 });
        let made = Builder { graph: &mut w.graph, folder: &w.folder }.add(op, &[x]).unwrap();
        let (bytes, scale, zero) = (made[0], made[1], made[2]);
        let by = w.bytes(DType::I8, &[48, 20], 6);
        let by_zero = w.zero(DType::I8, 2);
        let op = Op::MatMulInteger { a_zero: true, b_zero: true, rescale: None };
        let sums = w.op(op, &[bytes, by, zero, by_zero]);
        let numbers = w.op(Op::Copy { dtype: DType::F32, saturate: true }, &[sums]);
        let by_scale = if per_column { w.weights(&[20], 11) } else { w.number(0.004) };
        let scales = w.binary(BinaryOp::Mul, scale, by_scale);
        let product = w.binary(BinaryOp::Mul, numbers, scales);
        let bias = w.weights(&[20], 12);
        let sum = w.binary(BinaryOp::Add, bias, product);
        let residual = w.input(&[2, 7, 20]);
        let sum = w.binary(BinaryOp::Add, sum, residual);
        assert_eq!(w.check(&[sum]), ["dynamic_quantize", "matmul_integer"]);
    }
}

#[test]
fn scales_of_rows_blocks_and_long_sums_stay_as_they_are() {
    let kind = Weights { dtype: DType::I8, per_column: false, zero: false, transposed: false };
    // A scale for each step of k cannot be taken out of the sum.
    let mut w = Writer::new();
    let x = w.input(&[4, 8]);
    let x = w.rounded(x, 0.02, DType::U8, Some(128));
    let (values, scale) = (w.bytes(DType::I8, &[8, 16], 1), w.weights(&[8], 2));
    let by = w.dequantize(values, scale, Some(0), None);
    let product = w.matmul(x, by);
    assert!(!has(&w.check(&[product]), "matmul_integer"));
    // Sums that might not fit 32 bits.
    let mut w = Writer::new();
    let x = w.input(&[1, 40_000]);
    let x = w.rounded(x, 0.02, DType::U8, Some(128));
    let by = weights(&mut w, [40_000, 2], kind, 1);
    let product = w.matmul(x, by);
    let (names, _) = w.run(&[product], &Passes::only(Pass::Quantized));
    assert!(!has(&names, "matmul_integer"));
    // Sums that somebody else reads.
    let mut w = Writer::new();
    let x = w.input(&[4, 8]);
    let x = w.quantize(x, 0.02, DType::U8, None);
    let by = w.bytes(DType::I8, &[8, 16], 1);
    let op = Op::MatMulInteger { a_zero: false, b_zero: false, rescale: None };
    let sums = w.op(op, &[x, by]);
    let numbers = w.op(Op::Copy { dtype: DType::F32, saturate: true }, &[sums]);
    let (a, b) = (w.number(0.5), w.input(&[]));
    let scales = w.binary(BinaryOp::Mul, a, b);
    let product = w.binary(BinaryOp::Mul, numbers, scales);
    let (_, expected) = w.run(&[product, numbers], &Passes::none());
    let (names, found) = w.run(&[product, numbers], &Passes::all());
    assert_close(&found, &expected, &names);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Chains of quantized products, with what stands between them: the pass on its own and all passes give the answers of
    /// none. What is rounded to 8 bits inside may move by a step; one step moves an answer by less than the bound.
    #[test]
    fn random_quantized_graphs_keep_their_answers(
        layers in prop::collection::vec((0usize..16, 1usize..40, any::<u8>(), any::<u32>()), 1..4),
        rows in 1usize..9,
        k in 1usize..70,
    ) {
        let mut w = Writer::new();
        let mut x = w.input(&[rows, k]);
        let mut width = k;
        for &(kind, columns, flags, seed) in &layers {
            let dtype = if flags & 1 == 0 { DType::U8 } else { DType::I8 };
            let zero = (flags & 2 != 0).then_some(if dtype == DType::U8 { 128 } else { 3 });
            x = w.rounded(x, 0.03, dtype, zero);
            let kind = kinds().nth(kind).unwrap();
            let by = weights(&mut w, [width, columns], kind, seed % 1000);
            x = w.matmul(x, by);
            if flags & 4 != 0 {
                let bias = w.weights(&[columns], seed % 997);
                x = w.binary(BinaryOp::Add, x, bias);
            }
            if flags & 8 != 0 {
                x = w.unary(UnaryOp::Tanh, x);
            }
            width = columns;
        }
        let (_, expected) = w.run(&[x], &Passes::none());
        let largest = expected[0].iter().fold(1.0f32, |most, value| most.max(value.abs()));
        for passes in [Passes::only(Pass::Quantized), Passes::all()] {
            let (names, found) = w.run(&[x], &passes);
            for (found, expected) in found[0].iter().zip(&expected[0]) {
                let close = (found - expected).abs() <= 0.06 * largest;
                prop_assert!(close, "{} for {} in {:?}", found, expected, names);
            }
        }
    }
}

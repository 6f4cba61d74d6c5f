use millstream_core::{Activation, Command, DType, Epilogue, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

use super::problem::Problem;
use super::run as run_on;
use crate::kernels::Sequential;
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::simd::Isa;

fn product(a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let dst = Tensor::output(a.layout.dtype(), shape);
    run(Command::matmul(
        dst.operand(),
        a.operand(),
        b.operand(),
        None,
        None,
        1.0,
        Activation::None,
    ));
    dst
}

fn reference(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let one = |i: usize, j: usize| (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
    (0..m * n).map(|index| one(index / n, index % n)).collect()
}

/// What `k` roundings of sums of numbers below 1 may add up to.
fn room(dtype: DType, k: usize) -> f64 {
    tolerance(dtype).max(k as f64 * 6e-8 * if dtype == DType::F64 { 1e-8 } else { 1.0 })
}

#[test]
fn hand_computed_values_are_met() {
    let a = Tensor::new(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = Tensor::new(&[3, 2], &[7.0f32, 8.0, 9.0, 10.0, 11.0, 12.0]);
    assert_eq!(product(&a, &b, &[2, 2]).values::<f32>(), [58.0, 64.0, 139.0, 154.0]);
}

#[test]
fn every_size_and_type_follows_the_definition() {
    let sizes = [
        [1, 1, 1],
        [1, 300, 70],
        [3, 5, 7],
        [4, 64, 33],
        [8, 257, 31],
        [9, 600, 65],
        [50, 1, 40],
        [193, 20, 257],
        [200, 513, 3],
        [390, 530, 40],
    ];
    for dtype in FLOATS {
        for [m, k, n] in sizes {
            let a = Tensor::floats(dtype, &[m, k], &noise(m * k, 1));
            let b = Tensor::floats(dtype, &[k, n], &noise(k * n, 2));
            let expected = reference(&a.to_f64(), &b.to_f64(), [m, k, n]);
            assert_close(&product(&a, &b, &[m, n]).to_f64(), &expected, room(dtype, k));
        }
    }
}

#[test]
fn the_tiles_of_every_machine_follow_the_definition() {
    for dtype in FLOATS {
        for [m, k, n] in [[1, 40, 70], [2, 300, 33], [7, 30, 100], [203, 270, 261]] {
            let a = Tensor::floats(dtype, &[m, k], &noise(m * k, 21));
            let transposed = Layout::contiguous(dtype, &[n, k]).unwrap().transpose(0, 1).unwrap();
            let b = Tensor::floats_strided(transposed, &noise(k * n, 22));
            let expected = reference(&a.to_f64(), &b.to_f64(), [m, k, n]);
            let mut fused: Option<Vec<u8>> = None;
            for isa in Isa::available() {
                let dst = Tensor::output(dtype, &[m, n]);
                let (to, operands) = (dst.operand(), [&a.operand(), &b.operand()]);
                let epilogue = Epilogue::default();
                with_float!(dtype, T => {
                    // SAFETY: the operands are tensors of this test and have this type; the
                    // ISA is available.
                    unsafe {
                        let problem = Problem::<T>::new(&epilogue, &to, operands, None, None);
                        run_on(&problem, isa, &Sequential).unwrap();
                    }
                });
                assert_close(&dst.to_f64(), &expected, room(dtype, k));
                if isa != Isa::Portable {
                    let first = fused.get_or_insert_with(|| dst.bytes());
                    assert_eq!(*first, dst.bytes(), "{dtype} {isa:?}");
                }
            }
        }
    }
}

#[test]
fn layouts_do_not_change_the_bits() {
    for dtype in FLOATS {
        for [m, k, n] in [[2, 70, 45], [20, 300, 70]] {
            let (x, y) = (noise(m * k, 3), noise(k * n, 4));
            let layouts = |rows: usize, columns: usize| {
                let transposed = Layout::contiguous(dtype, &[columns, rows]).unwrap();
                [
                    Layout::contiguous(dtype, &[rows, columns]).unwrap(),
                    transposed.transpose(0, 1).unwrap(),
                    Layout::strided(dtype, &[rows, columns], &[columns * 5, 3], 7).unwrap(),
                ]
            };
            let dense = |shape: &[usize], values: &[f64]| Tensor::floats(dtype, shape, values);
            let expected = product(&dense(&[m, k], &x), &dense(&[k, n], &y), &[m, n]).to_f64();
            for lhs in layouts(m, k) {
                for rhs in layouts(k, n) {
                    let a = Tensor::floats_strided(lhs, &x);
                    let b = Tensor::floats_strided(rhs, &y);
                    for to in layouts(m, n) {
                        let dst = Tensor::uninit(to);
                        let (to, a, b) = (dst.operand(), a.operand(), b.operand());
                        run(Command::matmul(to, a, b, None, None, 1.0, Activation::None));
                        assert_eq!(dst.to_f64(), expected, "{lhs:?} × {rhs:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_a_batch_of_any_size() {
    for dtype in FLOATS {
        let (k, n) = (300, 270);
        let values = noise(230 * k, 5);
        let b = Tensor::floats(dtype, &[k, n], &noise(k * n, 6));
        let all = product(&Tensor::floats(dtype, &[230, k], &values), &b, &[230, n]).to_f64();
        for (first, rows) in [(0, 1), (5, 1), (229, 1), (3, 2), (7, 3), (100, 4), (0, 5), (11, 100)]
        {
            let a = Tensor::floats(dtype, &[rows, k], &values[first * k..(first + rows) * k]);
            let found = product(&a, &b, &[rows, n]).to_f64();
            assert_eq!(found, all[first * n..(first + rows) * n], "{dtype}: {rows} from {first}");
        }
    }
}

#[test]
fn batches_broadcast_and_equal_single_products() {
    let [m, k, n] = [5, 17, 9];
    let (x, y) = (noise(6 * m * k, 7), noise(3 * k * n, 8));
    let a = Tensor::floats(DType::F32, &[2, 3, m, k], &x);
    let b = Tensor::floats(DType::F32, &[3, k, n], &y);
    let found = product(&a, &b, &[2, 3, m, n]).values::<f32>();
    for batch in 0..6 {
        let a = Tensor::floats(DType::F32, &[m, k], &x[batch * m * k..][..m * k]);
        let b = Tensor::floats(DType::F32, &[k, n], &y[batch % 3 * k * n..][..k * n]);
        let alone = product(&a, &b, &[m, n]).values::<f32>();
        assert_eq!(found[batch * m * n..][..m * n], alone, "batch {batch}");
    }
}

#[test]
fn batches_that_share_the_right_factor_are_joined_without_a_trace() {
    let [k, n] = [40, 30];
    let b = Tensor::floats(DType::F32, &[k, n], &noise(k * n, 9));
    for (shape, order) in [
        ([4, 3, 5], [0, 1, 2, 3]),
        ([4, 3, 1], [0, 1, 2, 3]),
        ([4, 3, 5], [1, 0, 2, 3]),
        ([4, 3, 5], [2, 1, 0, 3]),
        ([1, 3, 1], [0, 1, 2, 3]),
    ] {
        let sizes = [shape[0], shape[1], shape[2], k];
        let count = sizes.iter().product();
        let values = noise(count, 10);
        let dense = Tensor::floats(DType::F32, &sizes, &values);
        let flat = Tensor::floats(DType::F32, &[count / k, k], &values);
        let bias = Tensor::floats(DType::F32, &[n], &noise(n, 11));
        // The memory in another order than the axes.
        let stored = order.map(|axis| sizes[axis]);
        let mut back = [0; 4];
        order.iter().enumerate().for_each(|(place, &axis)| back[axis] = place);
        let layout = Layout::contiguous(DType::F32, &stored).unwrap().permute(&back).unwrap();
        let a = Tensor::strided(layout, &dense.values::<f32>());
        let results = [&dense, &a, &flat].map(|a| {
            let mut shape = a.layout.shape().to_vec();
            *shape.last_mut().unwrap() = n;
            let dst = Tensor::output(DType::F32, &shape);
            let (to, a, b, bias) = (dst.operand(), a.operand(), b.operand(), bias.operand());
            run(Command::matmul(to, a, b, Some(bias), None, 1.0, Activation::None));
            dst.values::<f32>()
        });
        assert!(results[0] == results[1] && results[1] == results[2], "{shape:?} {order:?}");
    }
}

#[test]
fn the_epilogue_scales_adds_and_activates() {
    let [m, k, n] = [6, 10, 40];
    for dtype in FLOATS {
        let a = Tensor::floats(dtype, &[m, k], &noise(m * k, 12));
        let b = Tensor::floats(dtype, &[k, n], &noise(k * n, 13));
        let bias = Tensor::floats(dtype, &[n], &noise(n, 14));
        let column = Tensor::floats(dtype, &[m, 1], &noise(m, 15));
        let transposed = Layout::contiguous(dtype, &[n, m]).unwrap().transpose(0, 1).unwrap();
        let residual = Tensor::floats_strided(transposed, &noise(m * n, 16));
        let sums = reference(&a.to_f64(), &b.to_f64(), [m, k, n]);
        let cases: [(Option<&Tensor>, Option<&Tensor>, f32); 5] = [
            (None, None, 0.5),
            (Some(&bias), None, 1.0),
            (Some(&column), None, 2.0),
            (None, Some(&residual), 1.0),
            (Some(&bias), Some(&residual), -1.5),
        ];
        let value = |extra: Option<&Tensor>, index: usize| {
            extra.map_or(0.0, |tensor| {
                let values = tensor.to_f64();
                match tensor.layout.shape() {
                    [_] => values[index % n],
                    [_, 1] => values[index / n],
                    _ => values[index],
                }
            })
        };
        for (bias, residual, scale) in cases {
            let dst = Tensor::output(dtype, &[m, n]);
            run(Command::matmul(
                dst.operand(),
                a.operand(),
                b.operand(),
                bias.map(Tensor::operand),
                residual.map(Tensor::operand),
                scale,
                Activation::Relu,
            ));
            let expected: Vec<_> = (0..m * n)
                .map(|i| f64::from(scale) * sums[i] + value(bias, i) + value(residual, i))
                .map(|x| x.max(0.0))
                .collect();
            assert_close(&dst.to_f64(), &expected, 4.0 * tolerance(dtype));
        }
    }
}

#[test]
fn activations_are_those_of_the_elementwise_functions() {
    use millstream_core::UnaryOp;
    let a = Tensor::floats(DType::F32, &[4, 16], &noise(64, 17));
    let b = Tensor::floats(DType::F32, &[16, 70], &noise(16 * 70, 18));
    let plain = product(&a, &b, &[4, 70]);
    for (activation, op) in [
        (Activation::Relu, UnaryOp::Relu),
        (Activation::Gelu, UnaryOp::Gelu),
        (Activation::GeluTanh, UnaryOp::GeluTanh),
        (Activation::Silu, UnaryOp::Silu),
        (Activation::Sigmoid, UnaryOp::Sigmoid),
        (Activation::Tanh, UnaryOp::Tanh),
        (Activation::LeakyRelu { slope: 0.1 }, UnaryOp::LeakyRelu { slope: 0.1 }),
        (Activation::HardSwish, UnaryOp::HardSwish),
    ] {
        let (fused, apart) =
            (Tensor::output(DType::F32, &[4, 70]), Tensor::output(DType::F32, &[4, 70]));
        let (to, a, b) = (fused.operand(), a.operand(), b.operand());
        run(Command::matmul(to, a, b, None, None, 1.0, activation));
        run(Command::unary(op, apart.operand(), plain.operand()));
        assert_eq!(fused.bytes(), apart.bytes(), "{activation:?}");
    }
    let clipped = Tensor::output(DType::F32, &[4, 70]);
    let clip = Activation::Clip { min: -0.5, max: 0.25 };
    run(Command::matmul(clipped.operand(), a.operand(), b.operand(), None, None, 1.0, clip));
    let expected: Vec<_> = plain.to_f64().iter().map(|x| x.clamp(-0.5, 0.25)).collect();
    assert_eq!(clipped.to_f64(), expected);
}

#[test]
fn sizes_of_zero_work() {
    let (a, b) = (Tensor::output(DType::F32, &[2, 0]), Tensor::output(DType::F32, &[0, 3]));
    let bias = Tensor::new(&[3], &[1.0f32, -2.0, 3.0]);
    let dst = Tensor::output(DType::F32, &[2, 3]);
    let operands = (dst.operand(), a.operand(), b.operand());
    let bias = Some(bias.operand());
    run(Command::matmul(operands.0, operands.1, operands.2, bias, None, 1.0, Activation::Relu));
    assert_eq!(dst.values::<f32>(), [1.0, 0.0, 3.0, 1.0, 0.0, 3.0]);
    let (none, b) = (Tensor::output(DType::F32, &[0, 3]), Tensor::output(DType::F32, &[3, 0]));
    product(&none, &b, &[0, 0]);
    let batch = Tensor::output(DType::F32, &[0, 2, 2]);
    product(&batch, &batch, &[0, 2, 2]);
}

#[test]
fn infinities_and_nan_stay_in_their_row() {
    let mut values = vec![1.0f32; 5 * 4];
    values[4] = f32::NAN;
    values[8] = f32::INFINITY;
    let a = Tensor::new(&[5, 4], &values);
    let b = Tensor::new(&[4, 2], &[1.0f32; 8]);
    let found = product(&a, &b, &[5, 2]).values::<f32>();
    assert_eq!(found[..2], [4.0; 2]);
    assert!(found[2].is_nan() && found[3].is_nan());
    assert_eq!(found[4..], [f32::INFINITY, f32::INFINITY, 4.0, 4.0, 4.0, 4.0]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    for dtype in FLOATS {
        for shape in [[1, 400, 300, 700], [30, 40, 50, 60]] {
            let [batches, m, k, n] = shape;
            let a = Tensor::floats(dtype, &[batches, m, k], &noise(batches * m * k, 19));
            let b = Tensor::floats(dtype, &[batches, k, n], &noise(batches * k * n, 20));
            let dst = Tensor::output(dtype, &[batches, m, n]);
            let operands = (dst.operand(), a.operand(), b.operand());
            let command = Command::matmul(
                operands.0,
                operands.1,
                operands.2,
                None,
                None,
                1.0,
                Activation::Gelu,
            );
            assert_same_bits_in_any_order(&command.unwrap(), &dst);
        }
    }
}

use half::f16;
use millstream_core::{Axes, Command, DType, Element, Layout, ReduceOp};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};
use ReduceOp::*;

fn reduced(op: ReduceOp, src: &Tensor, axes: &[usize]) -> Tensor {
    let layout = src.layout;
    let shape: Vec<_> = (0..layout.rank())
        .map(|axis| if axes.contains(&axis) { 1 } else { layout.shape()[axis] })
        .collect();
    let dst = Tensor::output(op.output(layout.dtype()).unwrap(), &shape);
    run(Command::reduce(op, dst.operand(), src.operand(), Axes::new(axes).unwrap()));
    dst
}

fn of<T: Element>(op: ReduceOp, values: &[T]) -> T {
    reduced(op, &Tensor::new(&[values.len()], values), &[0]).values()[0]
}

fn place<T: Element>(op: ReduceOp, values: &[T]) -> i64 {
    reduced(op, &Tensor::new(&[values.len()], values), &[0]).values()[0]
}

fn definition(op: ReduceOp, row: &[f64]) -> f64 {
    let sum: f64 = row.iter().sum();
    match op {
        Sum => sum,
        Mean => sum / row.len() as f64,
        Max => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Min => row.iter().copied().fold(f64::INFINITY, f64::min),
        Prod => row.iter().product(),
        L1 => row.iter().map(|x| x.abs()).sum(),
        L2 => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
        LogSumExp => row.iter().map(|x| x.exp()).sum::<f64>().ln(),
        ArgMax | ArgMin | ArgMaxLast | ArgMinLast => unreachable!(),
    }
}

#[test]
fn hand_computed_values_are_met() {
    let values = [3.0f32, -4.0, 1.0, 2.0];
    for (op, expected) in [
        (Sum, 2.0),
        (Mean, 0.5),
        (Max, 3.0),
        (Min, -4.0),
        (Prod, -24.0),
        (L1, 10.0),
        (L2, 30f32.sqrt()),
    ] {
        assert_eq!(of(op, &values), expected, "{op:?}");
    }
    assert_eq!((place(ArgMax, &values), place(ArgMin, &values)), (0, 1));
    assert!((of(LogSumExp, &[0.0f64, 0.0]) - 2f64.ln()).abs() < 1e-15);
}

#[test]
fn every_axis_follows_the_definition_in_every_type() {
    let shape = [3, 19, 40];
    for dtype in FLOATS {
        let src = Tensor::floats(dtype, &shape, &noise(3 * 19 * 40, 1));
        let values = src.to_f64();
        for op in [Sum, Mean, Max, Min, Prod, L1, L2, LogSumExp] {
            let along = |from: &dyn Fn(usize) -> Vec<usize>, outputs: usize| {
                (0..outputs)
                    .map(|o| {
                        definition(op, &from(o).iter().map(|&i| values[i]).collect::<Vec<_>>())
                    })
                    .collect::<Vec<_>>()
            };
            let cases: [(&[usize], Vec<f64>); 5] = [
                (&[2], along(&|o| (0..40).map(|i| o * 40 + i).collect(), 57)),
                (&[1], along(&|o| (0..19).map(|i| o / 40 * 760 + i * 40 + o % 40).collect(), 120)),
                (&[0], along(&|o| (0..3).map(|i| i * 760 + o).collect(), 760)),
                (
                    &[0, 2],
                    along(&|o| (0..120).map(|i| i / 40 * 760 + o * 40 + i % 40).collect(), 19),
                ),
                (&[0, 1, 2], along(&|_| (0..2280).collect(), 1)),
            ];
            for (axes, expected) in cases {
                assert_close(&reduced(op, &src, axes).to_f64(), &expected, 4.0 * tolerance(dtype));
            }
            assert_eq!(reduced(Sum, &src, &[]).to_f64(), values, "no axes");
        }
    }
}

#[test]
fn long_sums_keep_their_precision() {
    let values = vec![0.1f32; 1_000_000];
    let exact = f64::from(0.1f32) * 1e6;
    assert!((f64::from(of(Sum, &values)) / exact - 1.0).abs() < 1e-7);
    let halves = vec![f16::ONE; 5000];
    assert_eq!(of(Sum, &halves), f16::from_f32(5000.0));
    assert_eq!(of(Mean, &vec![f16::MAX; 5000]), f16::MAX);
}

#[test]
fn integers_wrap_in_their_type() {
    assert_eq!(of(Sum, &[100i8, 100]), -56);
    assert_eq!(of(Sum, &[200u8, 100]), 44);
    assert_eq!(of(Prod, &[i64::MAX, 2]), -2);
    assert_eq!(of(L1, &[-3i32, 4]), 7);
    assert_eq!(of(L1, &[i8::MIN, 0]), i8::MIN);
    assert_eq!(of(Max, &[-3i64, i64::MIN]), -3);
    assert_eq!(of(Min, &[3u8, 200]), 3);
    assert_eq!((place(ArgMax, &[1i32, 7, 7]), place(ArgMin, &[5u8, 2, 2])), (1, 1));
}

#[test]
fn fractions_of_integers_are_cut_off() {
    assert_eq!((of(Mean, &[-1i32, -2, -4]), of(Mean, &[1i8, 2, 4])), (-2, 2));
    assert_eq!((of(Mean, &[127i8, 127, 127]), of(Mean, &[200u8, 250])), (127, 225));
    assert_eq!((of(L2, &[3i32, -4]), of(L2, &[1i64, 1, 1])), (5, 1));
    assert_eq!((of(L2, &[1i64 << 40]), of(L2, &[i64::MIN; 4])), (1 << 40, i64::MAX));
    assert_eq!((of(L2, &[i8::MIN; 2]), of(LogSumExp, &[5i32])), (127, 5));
    assert_eq!((of(LogSumExp, &[7i32, 7, 7]), of(LogSumExp, &[-7i32, -7, -7])), (8, -5));
    assert_eq!((of(LogSumExp, &[-1i32; 4]), of(LogSumExp, &[i64::MAX; 9])), (0, i64::MAX));
}

#[test]
fn the_last_of_equals_is_found_where_it_is_wanted() {
    assert_eq!((place(ArgMaxLast, &[7i32, 7, 1]), place(ArgMinLast, &[2u8, 5, 2])), (1, 2));
    assert_eq!(place(ArgMaxLast, &[f64::NAN, 3.0, f64::NAN, 9.0]), 2);
    let many: Vec<i32> = (0..700).map(|i| i % 5).collect();
    assert_eq!((place(ArgMaxLast, &many), place(ArgMinLast, &many)), (699, 695));
}

#[test]
fn truth_values_have_any_and_all() {
    let src = Tensor::bools(&[3, 2], &[0, 0, 0, 1, 1, 1]);
    assert_eq!(reduced(Max, &src, &[1]).values::<u8>(), [0, 1, 1]);
    assert_eq!(reduced(Min, &src, &[1]).values::<u8>(), [0, 0, 1]);
}

#[test]
fn nan_wins_wherever_it_stands() {
    for count in [1, 9, 30] {
        for at in 0..count {
            let mut values = vec![1.0f32; count];
            values[at] = f32::NAN;
            for op in [Max, Min, Sum, LogSumExp] {
                assert!(of(op, &values).is_nan(), "{op:?} {at} of {count}");
            }
            assert_eq!(place(ArgMax, &values), at as i64);
            assert_eq!(place(ArgMin, &values), at as i64);
        }
    }
    assert_eq!(place(ArgMax, &[1.0, f64::NAN, f64::INFINITY, f64::NAN]), 1);
    assert!(of(LogSumExp, &[f64::NAN, f64::INFINITY]).is_nan());
}

#[test]
fn the_first_of_equals_is_found_in_rows_and_columns() {
    for count in [1, 5, 20, 700] {
        for first in [0, 1, 3, count / 2, count - 1] {
            let first = first.min(count - 1);
            let values: Vec<i32> = (0..count)
                .map(|i| if i >= first && (i - first) % 3 == 0 { 9 } else { i as i32 % 7 })
                .collect();
            assert_eq!(place(ArgMax, &values), first as i64);
            // The same row as a column of a wide matrix.
            let wide: Vec<i32> = values.iter().flat_map(|&value| [value; 16]).collect();
            let src = Tensor::new(&[count, 16], &wide);
            assert_eq!(reduced(ArgMax, &src, &[0]).values::<i64>(), [first as i64; 16]);
        }
    }
}

#[test]
fn log_sum_exp_is_stable() {
    let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
    assert_eq!(of(LogSumExp, &[low, low, low]), low);
    assert_eq!(of(LogSumExp, &[low, 5.0]), 5.0);
    assert_eq!(of(LogSumExp, &[high, 5.0, low, high]), high);
    assert_eq!(of(LogSumExp, &[1e30f32, 1e30]), 1e30);
    assert!((of(LogSumExp, &[-1000.0f64, -1000.0]) + 1000.0 - 2f64.ln()).abs() < 1e-12);
}

#[test]
fn nothing_reduces_to_the_identity() {
    let src = Tensor::output(DType::F32, &[2, 0]);
    for (op, expected) in [
        (Sum, 0.0),
        (Prod, 1.0),
        (L1, 0.0),
        (L2, 0.0),
        (LogSumExp, f32::NEG_INFINITY),
        (Max, f32::NEG_INFINITY),
        (Min, f32::INFINITY),
    ] {
        assert_eq!(reduced(op, &src, &[1]).values::<f32>(), [expected; 2], "{op:?}");
    }
    let none = Tensor::output(DType::I32, &[1, 0]);
    for (op, expected) in [(Max, i32::MIN), (Min, i32::MAX), (L2, 0), (LogSumExp, i32::MIN)] {
        assert_eq!(reduced(op, &none, &[1]).values::<i32>(), [expected], "{op:?}");
    }
    let none = Tensor::output(DType::Bool, &[1, 0]);
    assert_eq!(reduced(Max, &none, &[1]).values::<u8>(), [0]);
    assert_eq!(reduced(Min, &none, &[1]).values::<u8>(), [1]);
    let empty = Tensor::output(DType::F32, &[0, 3]);
    assert!(reduced(Max, &empty, &[1]).values::<f32>().is_empty());
    assert_eq!(reduced(Sum, &empty, &[0]).values::<f32>(), [0.0; 3]);
    let scalar = Tensor::strided(Layout::scalar(DType::F32), &[4.0f32]);
    assert_eq!(reduced(Sum, &scalar, &[]).values::<f32>(), [4.0]);
}

#[test]
fn layouts_do_not_change_the_bits_of_an_output() {
    // Rows take one loop, columns another; both must combine in the same order.
    let (rows, count) = (40, 123);
    let values = noise(rows * count, 2);
    for dtype in FLOATS {
        let dense = Tensor::floats(dtype, &[rows, count], &values);
        let transposed =
            Layout::contiguous(dtype, &[count, rows]).unwrap().transpose(0, 1).unwrap();
        let transposed = Tensor::floats_strided(transposed, &values);
        for op in ReduceOp::ALL {
            let expected = reduced(op, &dense, &[1]).bytes();
            assert_eq!(reduced(op, &transposed, &[1]).bytes(), expected, "{op:?} {dtype}");
            let alone = Tensor::floats(dtype, &[1, count], &values[count..2 * count]);
            let size = expected.len() / rows;
            assert_eq!(reduced(op, &alone, &[1]).bytes(), expected[size..2 * size]);
        }
    }
}

#[test]
fn outputs_may_drop_their_axes_by_strides() {
    let src = Tensor::new(&[2, 3, 2], &(0..12).collect::<Vec<i32>>());
    let layout = Layout::strided(DType::I32, &[2, 1, 2], &[2, 77, 1], 0).unwrap();
    let dst = Tensor::uninit(layout);
    run(Command::reduce(Sum, dst.operand(), src.operand(), Axes::new(&[1]).unwrap()));
    assert_eq!(dst.values::<i32>(), [6, 9, 24, 27]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F32, &[200, 301], &noise(200 * 301, 3));
    for op in [Sum, Max, LogSumExp, ArgMax] {
        for axis in [0, 1] {
            let shape = if axis == 0 { [1, 301] } else { [200, 1] };
            let dst = Tensor::output(op.output(DType::F32).unwrap(), &shape);
            let axes = Axes::new(&[axis]).unwrap();
            let command = Command::reduce(op, dst.operand(), src.operand(), axes).unwrap();
            assert_same_bits_in_any_order(&command, &dst);
        }
    }
}

use half::{bf16, f16};
use millstream_core::{Command, DType, Element, Layout, UnaryOp};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};
use UnaryOp::*;

fn floats(op: UnaryOp, dtype: DType, values: &[f64]) -> Vec<f64> {
    let src = Tensor::floats(dtype, &[values.len()], values);
    let dst = Tensor::output(dtype, &[values.len()]);
    run(Command::unary(op, dst.operand(), src.operand()));
    dst.to_f64()
}

fn ints<T: Element>(op: UnaryOp, values: &[T]) -> Vec<T> {
    let src = Tensor::new(&[values.len()], values);
    let dst = Tensor::output(T::DTYPE, &[values.len()]);
    run(Command::unary(op, dst.operand(), src.operand()));
    dst.values()
}

type Definition = (UnaryOp, fn(f64) -> f64, &'static [f64]);

/// Every function with its definition in `f64` and the arguments it is tried on.
fn definitions() -> Vec<Definition> {
    const ANY: &[f64] = &[-3.5, -2.5, -1.0, -0.25, 0.0, 0.125, 0.5, 1.5, 2.0, 2.5, 4.0];
    const POSITIVE: &[f64] = &[0.125, 0.5, 1.0, 2.0, 10.0];
    const UNIT: &[f64] = &[-0.75, -0.5, 0.0, 0.125, 0.5];
    fn softplus(x: f64) -> f64 {
        x.exp().ln_1p()
    }
    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }
    vec![
        (Abs, f64::abs, ANY),
        (Neg, |x| -x, ANY),
        (Sign, |x| if x == 0.0 { 0.0 } else { x.signum() }, ANY),
        (Relu, |x| x.max(0.0), ANY),
        (Exp, f64::exp, ANY),
        (Expm1, f64::exp_m1, ANY),
        (Log, f64::ln, POSITIVE),
        (Log1p, f64::ln_1p, POSITIVE),
        (Log2, f64::log2, POSITIVE),
        (Sqrt, f64::sqrt, POSITIVE),
        (Rsqrt, |x| 1.0 / x.sqrt(), POSITIVE),
        (Reciprocal, |x| 1.0 / x, POSITIVE),
        (Square, |x| x * x, ANY),
        (Sin, f64::sin, ANY),
        (Cos, f64::cos, ANY),
        (Tan, f64::tan, UNIT),
        (Asin, f64::asin, UNIT),
        (Acos, f64::acos, UNIT),
        (Atan, f64::atan, ANY),
        (Sinh, f64::sinh, ANY),
        (Cosh, f64::cosh, ANY),
        (Tanh, f64::tanh, ANY),
        (Asinh, f64::asinh, ANY),
        (Acosh, f64::acosh, &[1.0, 1.5, 4.0]),
        (Atanh, f64::atanh, UNIT),
        (Floor, f64::floor, ANY),
        (Ceil, f64::ceil, ANY),
        (
            Round,
            |x| {
                if x == 2.5 {
                    2.0
                } else if x == -2.5 {
                    -2.0
                } else {
                    x.round_ties_even()
                }
            },
            ANY,
        ),
        (Trunc, f64::trunc, ANY),
        (Sigmoid, sigmoid, ANY),
        (HardSigmoid { alpha: 0.25, beta: 0.5 }, |x| (0.25 * x + 0.5).clamp(0.0, 1.0), ANY),
        (HardSwish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, ANY),
        (Silu, |x| x * sigmoid(x), ANY),
        (Softplus, softplus, ANY),
        (Softsign, |x| x / (1.0 + x.abs()), ANY),
        (Mish, |x| x * softplus(x).tanh(), ANY),
        (LeakyRelu { slope: 0.125 }, |x| if x < 0.0 { 0.125 * x } else { x }, ANY),
        (Elu { alpha: 1.5 }, |x| if x < 0.0 { 1.5 * x.exp_m1() } else { x }, ANY),
        (Celu { alpha: 2.0 }, |x| x.max(0.0) + (2.0 * (x / 2.0).exp_m1()).min(0.0), ANY),
        (
            Selu { alpha: 1.75, gamma: 1.25 },
            |x| 1.25 * if x < 0.0 { 1.75 * x.exp_m1() } else { x },
            ANY,
        ),
        (ThresholdedRelu { alpha: 1.5 }, |x| if x > 1.5 { x } else { 0.0 }, ANY),
        (
            Shrink { lambda: 1.0, bias: 0.5 },
            |x| {
                if x < -1.0 {
                    x + 0.5
                } else if x > 1.0 {
                    x - 0.5
                } else {
                    0.0
                }
            },
            ANY,
        ),
    ]
}

#[test]
fn every_function_follows_its_definition_in_every_type() {
    for (op, definition, arguments) in definitions() {
        for dtype in FLOATS {
            let expected: Vec<_> = arguments.iter().map(|&x| definition(x)).collect();
            assert_close(&floats(op, dtype, arguments), &expected, tolerance(dtype));
        }
    }
}

#[test]
fn erf_and_gelu_meet_known_values() {
    for dtype in FLOATS {
        let erf = [-0.842_700_792_949_714_9, 0.0, 0.520_499_877_813_046_5, 0.995_322_265_018_952_7];
        assert_close(&floats(Erf, dtype, &[-1.0, 0.0, 0.5, 2.0]), &erf, tolerance(dtype));
        let gelu =
            [-0.158_655_253_931_457_05, 0.0, 0.841_344_746_068_542_9, 1.954_499_736_103_641_6];
        assert_close(&floats(Gelu, dtype, &[-1.0, 0.0, 1.0, 2.0]), &gelu, tolerance(dtype));
        let approximate = [-0.158_808_009_391_723_24, 0.0, 0.841_191_990_608_276_8];
        assert_close(&floats(GeluTanh, dtype, &[-1.0, 0.0, 1.0]), &approximate, tolerance(dtype));
    }
}

#[test]
fn nan_passes_through() {
    for (op, _, _) in definitions().into_iter().chain([(Erf, f64::abs as fn(f64) -> f64, &[][..])])
    {
        for dtype in [DType::F32, DType::F64] {
            assert!(floats(op, dtype, &[f64::NAN])[0].is_nan(), "{op:?} {dtype}");
        }
    }
}

#[test]
fn large_arguments_do_not_overflow_on_the_way() {
    assert_eq!(floats(Softplus, DType::F32, &[1000.0, -1000.0]), [1000.0, 0.0]);
    assert_eq!(floats(Mish, DType::F32, &[1000.0, -1000.0]), [1000.0, 0.0]);
    assert_eq!(floats(Sigmoid, DType::F32, &[1000.0, -1000.0]), [1.0, 0.0]);
    assert_eq!(floats(Silu, DType::F32, &[1000.0, -1000.0]), [1000.0, 0.0]);
    assert_eq!(floats(Tanh, DType::F32, &[1000.0, -1000.0]), [1.0, -1.0]);
}

#[test]
fn sixteen_bit_types_are_rounded_once() {
    // The square of this f16 lies just above the middle of two neighbors: in f32 it does too.
    let x = f16::from_f32(1.0 + 3.0 / 1024.0);
    let src = Tensor::new(&[1], &[x]);
    let dst = Tensor::output(DType::F16, &[1]);
    run(Command::unary(Square, dst.operand(), src.operand()));
    assert_eq!(dst.values::<f16>(), [f16::from_f64(x.to_f64() * x.to_f64())]);
    let bits: Vec<bf16> = (0..2000).map(|i| bf16::from_bits(i * 32)).collect();
    let src = Tensor::new(&[2000], &bits);
    let dst = Tensor::output(DType::BF16, &[2000]);
    run(Command::unary(Sqrt, dst.operand(), src.operand()));
    for (found, x) in dst.values::<bf16>().into_iter().zip(bits) {
        let expected = bf16::from_f32(x.to_f32().sqrt());
        assert!(found == expected || expected.is_nan(), "√{x}");
    }
}

#[test]
fn integers_wrap_around() {
    assert_eq!(ints(Abs, &[i8::MIN, -5, 5]), [i8::MIN, 5, 5]);
    assert_eq!(ints(Neg, &[i64::MIN, -5]), [i64::MIN, 5]);
    assert_eq!(ints(Neg, &[1u8, 0]), [255, 0]);
    assert_eq!(ints(Abs, &[200u8]), [200]);
    assert_eq!(ints(Sign, &[-7i32, 0, 9]), [-1, 0, 1]);
    assert_eq!(ints(Sign, &[0u8, 200]), [0, 1]);
    assert_eq!(ints(Relu, &[-7i32, 9]), [0, 9]);
    assert_eq!(ints(Relu, &[200u8]), [200]);
    assert_eq!(ints(Square, &[i32::MAX, -3]), [1, 9]);
    assert_eq!(ints(Not, &[0u8, 0xF0]), [255, 0x0F]);
    assert_eq!(ints(Not, &[0i64, 5]), [-1, -6]);
}

#[test]
fn tests_give_truth_values() {
    let values = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let test = |op, dtype| {
        let src = Tensor::floats(dtype, &[4], &values);
        let dst = Tensor::output(DType::Bool, &[4]);
        run(Command::unary(op, dst.operand(), src.operand()));
        dst.values::<u8>()
    };
    for dtype in FLOATS {
        assert_eq!(test(IsNan, dtype), [0, 1, 0, 0]);
        assert_eq!(test(IsInf { positive: true, negative: true }, dtype), [0, 0, 1, 1]);
        assert_eq!(test(IsInf { positive: true, negative: false }, dtype), [0, 0, 1, 0]);
        assert_eq!(test(IsInf { positive: false, negative: true }, dtype), [0, 0, 0, 1]);
    }
    let src = Tensor::bools(&[2], &[0, 1]);
    run(Command::unary(Not, src.operand(), src.operand()));
    assert_eq!(src.values::<u8>(), [1, 0]);
}

#[test]
fn layouts_do_not_matter_and_a_result_may_replace_its_argument() {
    let values = noise(7 * 300, 1);
    for dtype in FLOATS {
        let dense = Tensor::floats(dtype, &[7, 300], &values);
        let expected = Tensor::output(dtype, &[7, 300]);
        run(Command::unary(Gelu, expected.operand(), dense.operand()));
        let transposed = Layout::contiguous(dtype, &[300, 7]).unwrap().transpose(0, 1).unwrap();
        let gaps = Layout::strided(dtype, &[7, 300], &[1000, 3], 5).unwrap();
        for layout in [transposed, gaps] {
            let src = Tensor::floats_strided(layout, &values);
            let dst = Tensor::output(dtype, &[7, 300]);
            run(Command::unary(Gelu, dst.operand(), src.operand()));
            assert_eq!(dst.bytes(), expected.bytes());
            run(Command::unary(Gelu, src.operand(), dense.operand()));
            assert_eq!(src.to_f64(), expected.to_f64());
        }
        for layout in [dense.layout, transposed, gaps] {
            let tensor = Tensor::floats_strided(layout, &values);
            run(Command::unary(Gelu, tensor.operand(), tensor.operand()));
            assert_eq!(tensor.to_f64(), expected.to_f64());
        }
    }
}

#[test]
fn an_element_has_the_same_bits_wherever_it_lies() {
    // Vector lanes and the remainder of a loop must agree.
    for op in [Exp, Tanh, Erf, Gelu, GeluTanh, Sigmoid, Mish, Softplus] {
        for count in [1, 3, 8, 17, 511, 513] {
            let found = floats(op, DType::F32, &vec![0.7; count]);
            assert!(found.iter().all(|&x| x == found[0]), "{op:?} of {count}");
            assert_eq!(found[0], floats(op, DType::F32, &[0.7])[0], "{op:?} of {count}");
        }
    }
}

#[test]
fn no_elements_and_rank_0_work() {
    let empty = Tensor::output(DType::F32, &[0, 3]);
    run(Command::unary(Exp, empty.operand(), empty.operand()));
    let scalar = Tensor::strided(Layout::scalar(DType::F32), &[4.0f32]);
    run(Command::unary(Sqrt, scalar.operand(), scalar.operand()));
    assert_eq!(scalar.values::<f32>(), [2.0]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F32, &[50_003], &noise(50_003, 2));
    let dst = Tensor::output(DType::F32, &[50_003]);
    let command = Command::unary(Gelu, dst.operand(), src.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}

/// Beside numbers that are not, so that both ways of a block are taken.
#[test]
fn sines_of_huge_numbers_are_right_and_those_of_none_are_nan() {
    let values = [0.5, 1e20, 3e9, -2e30, 1.0, f64::NAN, f64::INFINITY, 2.0];
    for (op, function) in [(Sin, f64::sin as fn(f64) -> f64), (Cos, f64::cos)] {
        for dtype in [DType::F32, DType::F64] {
            let found = floats(op, dtype, &values);
            for (&value, found) in values.iter().zip(found) {
                // As the element type has it.
                let value = if dtype == DType::F32 { f64::from(value as f32) } else { value };
                let expected = function(value);
                let same = (found - expected).abs() < 1e-6;
                assert!(same || (found.is_nan() && expected.is_nan()), "{op:?} {value}: {found}");
            }
        }
    }
}

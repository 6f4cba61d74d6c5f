use half::{bf16, f16};
use millstream_core::{Command, DType, Element, Layout};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

fn converted<S: Element, D: Element>(values: &[S]) -> Vec<D> {
    let src = Tensor::new(&[values.len()], values);
    let dst = Tensor::output(D::DTYPE, &[values.len()]);
    run(Command::copy(dst.operand(), src.operand()));
    dst.values()
}

#[test]
fn fill_writes_every_type_and_nothing_else() {
    for dtype in DType::COMPUTED {
        // Every second element, so that the ones between must keep their bytes.
        let layout = Layout::strided(dtype, &[3, 5], &[10, 2], 1).unwrap();
        let dst = Tensor::uninit(layout);
        run(Command::fill(dst.operand(), 1i64));
        let size = dtype.size();
        let one = millstream_core::Scalar::Int(1).to_bytes(dtype);
        let bytes = dst.bytes();
        for (element, bytes) in bytes.chunks(size).enumerate() {
            if element % 2 == 1 {
                assert_eq!(bytes, &one[..size], "{dtype} {element}");
            } else {
                assert!(bytes.iter().all(|&byte| byte == 0xA5), "{dtype} {element}");
            }
        }
    }
}

#[test]
fn fill_works_at_rank_0_and_with_no_elements() {
    let scalar = Tensor::uninit(Layout::scalar(DType::F64));
    run(Command::fill(scalar.operand(), 2.5f64));
    assert_eq!(scalar.values::<f64>(), [2.5]);
    let empty = Tensor::output(DType::F32, &[3, 0]);
    run(Command::fill(empty.operand(), 2.5f64));
}

#[test]
fn floats_become_integers_by_cutting_and_saturating() {
    let values = [1.9f32, -1.9, 300.0, -300.0, 1e20, -1e20, f32::NAN, f32::INFINITY];
    assert_eq!(converted::<_, i8>(&values), [1, -1, 127, -128, 127, -128, 0, 127]);
    assert_eq!(converted::<_, u8>(&values), [1, 0, 255, 0, 255, 0, 0, 255]);
    let (low, high) = (i64::MIN, i64::MAX);
    assert_eq!(converted::<_, i64>(&values), [1, -1, 300, -300, high, low, 0, high]);
    let halves = values.map(f16::from_f32);
    assert_eq!(converted::<_, i32>(&halves)[..4], [1, -1, 300, -300]);
}

#[test]
fn integers_wrap_between_widths() {
    assert_eq!(converted::<i32, i8>(&[200, -200, 256]), [-56, 56, 0]);
    assert_eq!(converted::<i8, u8>(&[-1, 5]), [255, 5]);
    assert_eq!(converted::<u8, i64>(&[255]), [255]);
    assert_eq!(converted::<i64, i32>(&[1 << 40 | 7]), [7]);
}

#[test]
fn floats_round_to_nearest_even_once() {
    assert_eq!(converted::<f64, f32>(&[1.0 + 2f64.powi(-24)]), [1.0]);
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(converted::<f64, f16>(&[above]), [f16::from_f32(1.0 + 2f32.powi(-10))]);
    assert_eq!(converted::<f32, f16>(&[65520.0, 65519.0]), [f16::INFINITY, f16::MAX]);
    assert!(converted::<f32, bf16>(&[f32::NAN])[0].is_nan());
    // One above the middle between two neighbors of bf16, lost by a detour over f64 or f32.
    let middle = (1i64 << 62) + (1 << 54);
    let expected = bf16::from_f32(2f32.powi(62) + 2f32.powi(55));
    assert_eq!(converted::<i64, bf16>(&[middle + 1, -middle - 1]), [expected, -expected]);
    assert_eq!(converted::<i64, bf16>(&[middle]), [bf16::from_f32(2f32.powi(62))]);
    let middle = (1i32 << 30) + (1 << 22);
    assert_eq!(
        converted::<i32, bf16>(&[middle + 1]),
        [bf16::from_f32(2f32.powi(30) + 2f32.powi(23))]
    );
    assert_eq!(converted::<i64, f32>(&[(1 << 24) + 1]), [16_777_216.0]);
}

#[test]
fn bool_asks_whether_a_value_is_other_than_zero() {
    let src = Tensor::new(&[5], &[0.0f32, -0.0, 0.3, f32::NAN, -2.0]);
    let dst = Tensor::output(DType::Bool, &[5]);
    run(Command::copy(dst.operand(), src.operand()));
    assert_eq!(dst.values::<u8>(), [0, 0, 1, 1, 1]);
    let floats = Tensor::output(DType::F16, &[5]);
    run(Command::copy(floats.operand(), dst.operand()));
    assert_eq!(floats.to_f64(), [0.0, 0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn every_pair_of_types_agrees_on_small_integers() {
    for from in DType::COMPUTED {
        for to in DType::COMPUTED {
            let source = Tensor::new(&[2, 3], &[0i64, 1, 1, 0, 1, 0]);
            let src = Tensor::output(from, &[2, 3]);
            let dst = Tensor::output(to, &[2, 3]);
            let back = Tensor::output(DType::I64, &[2, 3]);
            run(Command::copy(src.operand(), source.operand()));
            run(Command::copy(dst.operand(), src.operand()));
            run(Command::copy(back.operand(), dst.operand()));
            assert_eq!(back.values::<i64>(), source.values::<i64>(), "{from} to {to}");
        }
    }
}

#[test]
fn strided_copies_follow_the_row_major_order() {
    let shape = [3, 4, 700];
    let values: Vec<i32> = (0..3 * 4 * 700).collect();
    let dense = Layout::contiguous(DType::I32, &shape).unwrap();
    let transposed =
        Layout::contiguous(DType::I32, &[700, 3, 4]).unwrap().permute(&[1, 2, 0]).unwrap();
    let gaps = Layout::strided(DType::I32, &shape, &[1400 * 4, 1400, 2], 3).unwrap();
    for from in [dense, transposed, gaps] {
        for to in [dense, transposed, gaps] {
            let src = Tensor::strided(from, &values);
            let dst = Tensor::uninit(to);
            run(Command::copy(dst.operand(), src.operand()));
            assert_eq!(dst.values::<i32>(), values, "{from:?} to {to:?}");
            let floats = Tensor::uninit(to.with_dtype(DType::F32));
            run(Command::copy(floats.operand(), src.operand()));
            assert_eq!(floats.values::<f32>()[4242], 4242.0);
        }
    }
}

#[test]
fn sources_broadcast_at_rank_8() {
    let src = Tensor::new(&[2, 1, 1, 2, 1, 1, 1, 2], &[0u8, 1, 2, 3, 4, 5, 6, 7]);
    let dst = Tensor::output(DType::U8, &[2, 2, 1, 2, 2, 1, 2, 2]);
    run(Command::copy(dst.operand(), src.operand()));
    let found = dst.values::<u8>();
    for (index, value) in found.iter().enumerate() {
        let bit = |place: usize| (index >> place & 1) as u8;
        assert_eq!(*value, bit(5) << 2 | bit(3) << 1 | bit(0), "element {index}");
    }
}

#[test]
fn copying_an_operand_to_itself_changes_nothing() {
    let tensor = Tensor::new(&[3], &[1.0f32, f32::from_bits(0x7FC1_2345), -0.0]);
    let before = tensor.bytes();
    run(Command::copy(tensor.operand(), tensor.operand()));
    assert_eq!(tensor.bytes(), before);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let values: Vec<f32> = (0..70_001).map(|i| i as f32 * 0.37).collect();
    let src = Tensor::new(&[70_001], &values);
    let dst = Tensor::output(DType::F16, &[70_001]);
    let command = Command::copy(dst.operand(), src.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    assert_eq!(dst.values::<f16>()[70_000], f16::from_f32(values[70_000]));
}

use millstream_core::{Command, DType};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};

fn made(values: &[f64], to: DType, rows: bool, shape: &[usize]) -> (Tensor, Tensor, Tensor) {
    let src = Tensor::floats(DType::F32, shape, values);
    let mut each = if rows { shape.to_vec() } else { vec![] };
    if let Some(last) = each.last_mut() {
        *last = 1;
    }
    let dst = Tensor::output(to, shape);
    let (scale, zero) = (Tensor::output(DType::F32, &each), Tensor::output(DType::U8, &each));
    let given = (to == DType::U8).then(|| zero.operand());
    run(Command::dynamic_quantize(dst.operand(), scale.operand(), given, src.operand(), rows));
    (dst, scale, zero)
}

#[test]
fn the_range_holds_zero_and_halves_go_to_even() {
    let (dst, scale, zero) = made(&[10.0, 4.0, 0.0], DType::U8, false, &[3]);
    assert_eq!(scale.values::<f32>(), [10.0 / 255.0]);
    assert_eq!((zero.values::<u8>(), dst.values::<u8>()), (vec![0], vec![255, 102, 0]));
    // A scale of 1, and halves everywhere.
    for (low, point) in [(-0.5, 0), (-1.5, 2)] {
        let (dst, scale, zero) = made(&[low, low + 255.0, 2.5], DType::U8, false, &[3]);
        assert_eq!((zero.values::<u8>(), scale.values::<f32>()), (vec![point], vec![1.0]));
        assert_eq!(dst.values::<u8>(), [0, if point == 0 { 254 } else { 255 }, 2 + point]);
    }
    let (dst, scale, _) = made(&[-2.0, 1.0, 0.0], DType::I8, false, &[3]);
    assert_eq!((dst.values::<i8>(), scale.values::<f32>()), (vec![-127, 64, 0], vec![2.0 / 127.0]));
}

#[test]
fn what_has_no_range_has_a_scale_of_one() {
    for to in [DType::U8, DType::I8] {
        let (dst, scale, _) = made(&[0.0, -0.0, f64::NAN], to, false, &[3]);
        assert_eq!((dst.bytes()[..3].to_vec(), scale.values::<f32>()), (vec![0; 3], vec![1.0]));
        let (_, scale, _) = made(&[], to, true, &[2, 0]);
        assert_eq!(scale.values::<f32>(), [1.0; 2]);
        let (_, scale, _) = made(&[], to, false, &[2, 0]);
        assert_eq!(scale.values::<f32>(), [1.0]);
    }
}

#[test]
fn all_machines_and_any_number_of_threads_give_the_same_bits() {
    let values = noise(3 * 40_000, 5);
    for (to, rows) in [(DType::U8, false), (DType::U8, true), (DType::I8, true)] {
        let results = on_every_isa(|| {
            let (dst, scale, _) = made(&values, to, rows, &[3, 40_000]);
            (dst.bytes(), scale.bytes())
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        let src = Tensor::floats(DType::F32, &[3, 40_000], &values);
        let dst = Tensor::output(to, &[3, 40_000]);
        let each: &[usize] = if rows { &[3, 1] } else { &[] };
        let (scale, zero) = (Tensor::output(DType::F32, each), Tensor::output(DType::U8, each));
        let given = (to == DType::U8).then(|| zero.operand());
        let operands = (dst.operand(), scale.operand(), given, src.operand());
        let command =
            Command::dynamic_quantize(operands.0, operands.1, operands.2, operands.3, rows);
        assert_same_bits_in_any_order(command.as_ref().unwrap(), &dst);
        assert_same_bits_in_any_order(&command.unwrap(), &scale);
    }
}

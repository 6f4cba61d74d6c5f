use millstream_core::{Command, DType, DynamicRange};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};

use DynamicRange::{Rows, Tensor as Whole};

/// The shape of the scales.
fn scales(range: DynamicRange, shape: &[usize]) -> Vec<usize> {
    match range {
        Whole => vec![],
        Rows => [&shape[..shape.len() - 1], &[1]].concat(),
        DynamicRange::Parts { parts, .. } => vec![parts as usize],
    }
}

fn made(
    values: &[f64],
    to: DType,
    range: DynamicRange,
    shape: &[usize],
) -> (Tensor, Tensor, Tensor) {
    let src = Tensor::floats(DType::F32, shape, values);
    let each = scales(range, shape);
    let dst = Tensor::output(to, shape);
    let (scale, zero) = (Tensor::output(DType::F32, &each), Tensor::output(DType::U8, &each));
    let given = (to == DType::U8).then(|| zero.operand());
    run(Command::dynamic_quantize(dst.operand(), scale.operand(), given, src.operand(), range));
    (dst, scale, zero)
}

#[test]
fn the_range_holds_zero_and_halves_go_to_even() {
    let (dst, scale, zero) = made(&[10.0, 4.0, 0.0], DType::U8, Whole, &[3]);
    assert_eq!(scale.values::<f32>(), [10.0 / 255.0]);
    assert_eq!((zero.values::<u8>(), dst.values::<u8>()), (vec![0], vec![255, 102, 0]));
    // A scale of 1, and halves everywhere.
    for (low, point) in [(-0.5, 0), (-1.5, 2)] {
        let (dst, scale, zero) = made(&[low, low + 255.0, 2.5], DType::U8, Whole, &[3]);
        assert_eq!((zero.values::<u8>(), scale.values::<f32>()), (vec![point], vec![1.0]));
        assert_eq!(dst.values::<u8>(), [0, if point == 0 { 254 } else { 255 }, 2 + point]);
    }
    let (dst, scale, _) = made(&[-2.0, 1.0, 0.0], DType::I8, Whole, &[3]);
    assert_eq!((dst.values::<i8>(), scale.values::<f32>()), (vec![-127, 64, 0], vec![2.0 / 127.0]));
}

#[test]
fn what_has_no_range_has_a_scale_of_one() {
    for to in [DType::U8, DType::I8] {
        let (dst, scale, _) = made(&[0.0, -0.0, f64::NAN], to, Whole, &[3]);
        assert_eq!((dst.bytes()[..3].to_vec(), scale.values::<f32>()), (vec![0; 3], vec![1.0]));
        let (_, scale, _) = made(&[], to, Rows, &[2, 0]);
        assert_eq!(scale.values::<f32>(), [1.0; 2]);
        let (_, scale, _) = made(&[], to, Whole, &[2, 0]);
        assert_eq!(scale.values::<f32>(), [1.0]);
        let parts = DynamicRange::Parts { axis: 1, parts: 3 };
        let (_, scale, _) = made(&[], to, parts, &[2, 0]);
        assert_eq!(scale.values::<f32>(), [1.0; 3]);
    }
}

#[test]
fn all_machines_and_any_number_of_threads_give_the_same_bits() {
    let values = noise(3 * 40_000, 5);
    let parts = DynamicRange::Parts { axis: 1, parts: 10 };
    for (to, range) in
        [(DType::U8, Whole), (DType::U8, Rows), (DType::I8, Rows), (DType::U8, parts)]
    {
        let results = on_every_isa(|| {
            let (dst, scale, _) = made(&values, to, range, &[3, 40_000]);
            (dst.bytes(), scale.bytes())
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        let src = Tensor::floats(DType::F32, &[3, 40_000], &values);
        let dst = Tensor::output(to, &[3, 40_000]);
        let each = scales(range, &[3, 40_000]);
        let (scale, zero) = (Tensor::output(DType::F32, &each), Tensor::output(DType::U8, &each));
        let given = (to == DType::U8).then(|| zero.operand());
        let operands = (dst.operand(), scale.operand(), given, src.operand());
        let command =
            Command::dynamic_quantize(operands.0, operands.1, operands.2, operands.3, range);
        assert_same_bits_in_any_order(command.as_ref().unwrap(), &dst);
        assert_same_bits_in_any_order(&command.unwrap(), &scale);
    }
}

/// With few parts threads share the elements of each, with many they share the parts.
#[test]
fn each_part_has_the_bits_that_it_has_as_a_tensor_of_its_own() {
    for (parts, size, to) in [(2, 3, DType::U8), (5, 1, DType::I8), (12, 2, DType::U8)] {
        let (outer, inner) = (3, 1500);
        let shape = [outer, parts * size, inner];
        // Every part has a range of its own.
        let part_of = |at: usize| at / inner % (parts * size) / size;
        let mut values = noise(outer * parts * size * inner, 7);
        for (at, value) in values.iter_mut().enumerate() {
            *value = *value * 10f64.powi(part_of(at) as i32 - 3) + part_of(at) as f64;
        }
        let range = DynamicRange::Parts { axis: 1, parts: parts as u32 };
        let (dst, scale, zero) = made(&values, to, range, &shape);
        let (dst, scale) = (dst.bytes(), scale.values::<f32>());
        for (part, scale) in scale.iter().enumerate() {
            let own = |at: &usize| part_of(*at) == part;
            let places: Vec<usize> = (0..values.len()).filter(own).collect();
            let numbers: Vec<f64> = places.iter().map(|&at| values[at]).collect();
            let (alone, of_alone, zero_alone) = made(&numbers, to, Whole, &[outer, size, inner]);
            let joined: Vec<u8> = places.iter().map(|&at| dst[at]).collect();
            assert_eq!(joined, alone.bytes()[..places.len()], "part {part} of {parts}");
            assert_eq!(scale.to_bits(), of_alone.values::<f32>()[0].to_bits());
            if to == DType::U8 {
                assert_eq!(zero.values::<u8>()[part], zero_alone.values::<u8>()[0]);
            }
        }
    }
}

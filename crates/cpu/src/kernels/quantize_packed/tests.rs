use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

/// Numbers of 4 bits, by their bits.
fn packed(dtype: DType, shape: &[usize], bits: &[u8]) -> Tensor {
    let tensor = Tensor::uninit(Layout::contiguous(dtype, shape).unwrap());
    let bytes = bits.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |high| high << 4));
    let bytes: Vec<u8> = bytes.collect();
    let address = tensor.operand().buffer.address as *mut u8;
    // SAFETY: the tensor has these bytes, and no command runs.
    unsafe { address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    tensor
}

#[test]
fn all_bits_of_all_types_are_known() {
    let bits: Vec<u8> = (0..16).collect();
    let scale = Tensor::new(&[], &[2.0f32]);
    let halves = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];
    for (dtype, expected) in [
        (DType::U4, (0..16).map(|n| 2.0 * f64::from(n)).collect::<Vec<_>>()),
        (DType::I4, (0..8).chain(-8..0).map(|n| 2.0 * f64::from(n)).collect()),
        (DType::F4E2M1, halves.iter().copied().chain(halves.iter().map(|n| -n)).collect()),
    ] {
        for to in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let (src, dst) = (packed(dtype, &[16], &bits), Tensor::output(to, &[16]));
            let inputs = (src.operand(), scale.operand());
            run(Command::dequantize(dst.operand(), inputs.0, inputs.1, None, None));
            assert_eq!(dst.to_f64(), expected, "{dtype} to {to}");
            // And back. A zero point is added, also where it is 0, so that -0 comes back as 0.
            let back = Tensor::output(dtype, &[16]);
            run(Command::quantize(back.operand(), dst.operand(), scale.operand(), None, None));
            let mut known = bits.clone();
            if dtype == DType::F4E2M1 {
                known[8] = 0;
            }
            assert_eq!(back.bytes(), packed(dtype, &[16], &known).bytes(), "{to} to {dtype}");
        }
    }
}

#[test]
fn blocks_along_any_axis_have_scales_and_zero_points_of_their_own() {
    // Three columns, blocks of two rows: the last is shorter. An odd number, so that rows share bytes.
    let src = packed(DType::U4, &[3, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let scale = Tensor::new(&[2, 3], &[1.0f32, 10.0, 100.0, 1000.0, 1e4, 1e5]);
    let zero = packed(DType::U4, &[2, 3], &[1, 0, 3, 0, 8, 10]);
    let dst = Tensor::output(DType::F32, &[3, 3]);
    let (to, from) = (dst.operand(), src.operand());
    let by = (scale.operand(), Some(zero.operand()));
    run(Command::dequantize_blocks(to, from, by.0, by.1, 0, 2));
    assert_eq!(dst.values::<f32>(), [0.0, 20.0, 0.0, 3.0, 50.0, 300.0, 7000.0, 0.0, -1e5]);
    let back = Tensor::output(DType::U4, &[3, 3]);
    let by = (scale.operand(), Some(zero.operand()));
    run(Command::quantize_blocks(back.operand(), dst.operand(), by.0, by.1, 0, 2));
    assert_eq!(back.bytes(), src.bytes());
}

#[test]
fn integers_are_rounded_to_even_and_saturated_and_nan_is_the_zero_point() {
    let src = Tensor::new(&[7], &[0.5f32, 1.5, -0.5, 100.0, -100.0, f32::NAN, f32::INFINITY]);
    let scale = Tensor::new(&[], &[1.0f32]);
    for (dtype, zero, expected) in
        [(DType::U4, 3, [3, 5, 3, 15, 0, 3, 15]), (DType::I4, 15, [15, 1, 15, 7, 8, 15, 7])]
    {
        let (dst, zero) = (Tensor::output(dtype, &[7]), packed(dtype, &[1], &[zero]));
        let (to, from) = (dst.operand(), src.operand());
        run(Command::quantize(to, from, scale.operand(), Some(zero.operand()), None));
        assert_eq!(dst.bytes(), packed(dtype, &[7], &expected).bytes(), "{dtype}");
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (rows, columns) = (97, 301);
    let codes: Vec<u8> = (0..rows * columns).map(|i| (i * 7 % 16) as u8).collect();
    let src = packed(DType::I4, &[rows, columns], &codes);
    let scales: Vec<f32> = (0..rows * 19).map(|i| 0.01 * (i % 50 + 1) as f32).collect();
    let scale = Tensor::new(&[rows, 19], &scales);
    let dst = Tensor::output(DType::F32, &[rows, columns]);
    let command =
        Command::dequantize_blocks(dst.operand(), src.operand(), scale.operand(), None, 1, 16);
    assert_same_bits_in_any_order(&command.unwrap(), &dst);
    let back = Tensor::output(DType::I4, &[rows, columns]);
    let (to, from) = (back.operand(), dst.operand());
    let command = Command::quantize_blocks(to, from, scale.operand(), None, 1, 16);
    assert_same_bits_in_any_order(&command.unwrap(), &back);
    assert_eq!(back.bytes(), src.bytes());
}

#[test]
fn scales_along_an_axis_meet_operands_of_any_layout() {
    let src = packed(DType::I4, &[3, 2, 3], &(0..18).map(|i| i * 5 % 16).collect::<Vec<_>>());
    let scales: Vec<half::f16> = [1.0, 0.5, 2.0].map(half::f16::from_f32).to_vec();
    for (axis, size) in [(0, 3), (1, 2), (2, 3)] {
        let scale = Tensor::new(&[size], &scales[..size]);
        let zero = packed(DType::I4, &[size], &[1, 15, 7][..size]);
        // Turned, with a gap behind every element.
        let layout = Layout::strided(DType::F32, &[3, 2, 3], &[2, 18, 6], 3).unwrap();
        let dst = Tensor::uninit(layout);
        let by = (scale.operand(), Some(zero.operand()));
        run(Command::dequantize(dst.operand(), src.operand(), by.0, by.1, Some(axis)));
        let number = |code: i32| if code >= 8 { code - 16 } else { code };
        let expected: Vec<f32> = (0..18)
            .map(|i: usize| {
                let place = [i / 6, i / 3 % 2, i % 3][axis];
                let difference = number(i as i32 * 5 % 16) - [1, -1, 7][place];
                difference as f32 * [1.0, 0.5, 2.0][place]
            })
            .collect();
        assert_eq!(dst.values::<f32>(), expected, "axis {axis}");
        let back = Tensor::output(DType::I4, &[3, 2, 3]);
        let by = (scale.operand(), Some(zero.operand()));
        run(Command::quantize(back.operand(), dst.operand(), by.0, by.1, Some(axis)));
        assert_eq!(back.bytes(), src.bytes(), "axis {axis}");
    }
}

use half::f16;
use millstream_core::{DType, Layout};

use super::*;
use crate::kernels::shared::streaming;
use crate::kernels::shared::testing::Tensor;

/// Layouts of one shape: dense, with gaps, transposed.
fn layouts(dtype: DType) -> [Layout; 3] {
    let dense = Layout::contiguous(dtype, &[5, 37]).unwrap();
    let gaps = Layout::strided(dtype, &[5, 37], &[80, 2], 3).unwrap();
    let transposed = Layout::contiguous(dtype, &[37, 5]).unwrap().transpose(0, 1).unwrap();
    [dense, gaps, transposed]
}

/// Adds one to all elements, in blocks that end anywhere.
fn add_one(dst: &Tensor, src: &Tensor) {
    let walk = Walk::in_order([&dst.layout, &src.layout]);
    let (to, from) = (dst.operand(), src.operand());
    // SAFETY: the operands are host memory that nobody else touches, and blocks are read before they are written.
    unsafe {
        let (output, input) = (Output::<f32>::new(&to, 0), Input::<f32>::new(&from, 1, &to));
        let output = output.of_elements(walk.elements());
        for start in (0..walk.elements()).step_by(50) {
            let len = 50.min(walk.elements() - start);
            let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
            let values = input.read(&walk, start, len, &mut values);
            output.write(&walk, start, len, &mut results, |block| {
                for (to, &value) in block.iter_mut().zip(values) {
                    to.write(value + 1.0);
                }
            });
        }
        output.end_chunk();
    }
}

#[test]
fn blocks_of_any_type_and_layout_are_converted_both_ways() {
    let values: Vec<f64> = (0..185).map(f64::from).collect();
    let expected: Vec<f64> = values.iter().map(|value| value + 1.0).collect();
    let test = || {
        for from in [DType::F32, DType::F16, DType::BF16, DType::F64].map(layouts).as_flattened() {
            for to in [DType::F32, DType::F16, DType::BF16, DType::F64].map(layouts).as_flattened()
            {
                let (dst, src) = (Tensor::uninit(*to), Tensor::floats_strided(*from, &values));
                add_one(&dst, &src);
                assert_eq!(dst.to_f64(), expected, "{from:?} to {to:?}");
            }
        }
    };
    test();
    streaming::always(test);
}

#[test]
fn an_operand_may_be_its_own_output() {
    let values: Vec<f64> = (0..185).map(f64::from).collect();
    for layout in [DType::F32, DType::F16].map(layouts).as_flattened() {
        let tensor = Tensor::floats_strided(*layout, &values);
        add_one(&tensor, &tensor);
        assert!(tensor.to_f64().iter().zip(&values).all(|(new, old)| *new == old + 1.0));
    }
}

#[test]
fn nothing_is_written_between_elements() {
    let layout = Layout::strided(DType::F16, &[5, 37], &[80, 2], 3).unwrap();
    let (dst, src) = (Tensor::uninit(layout), Tensor::floats(DType::F32, &[5, 37], &[1.0; 185]));
    add_one(&dst, &src);
    let ours: Vec<usize> = (0..185).map(|index| layout.position(index)).collect();
    for (place, bytes) in dst.bytes().chunks(2).enumerate() {
        let expected = match ours.contains(&place) {
            true => f16::from_f32(2.0).to_ne_bytes(),
            false => [0xA5; 2],
        };
        assert_eq!(bytes, expected, "element {place}");
    }
}

#[test]
fn single_elements_are_converted() {
    let tensor = Tensor::floats(DType::BF16, &[3], &[1.0, 2.0, 3.0]);
    let operand = tensor.operand();
    // SAFETY: the places are elements of the operand, which nobody else touches.
    unsafe {
        let (output, input) = (Output::<f32>::new(&operand, 0), Input::<f32>::apart(&operand, 0));
        assert_eq!(input.get(2), 3.0);
        output.set(1, -7.5);
        assert_eq!(input.moved(1).get(0), -7.5);
    }
    assert_eq!(tensor.to_f64(), [1.0, -7.5, 3.0]);
}

use proptest::prelude::*;

use super::*;

fn positions(layout: &Layout) -> Vec<usize> {
    (0..layout.elements()).map(|index| layout.position(index)).collect()
}

#[test]
fn merged_heads_need_a_copy_and_split_heads_do_not() {
    let rows = Layout::contiguous(DType::F32, &[2, 5, 12]).unwrap();
    let split = reshape(&rows, &[2, 5, 3, 4]).unwrap();
    let heads = split.permute(&[0, 2, 1, 3]).unwrap();
    assert_eq!(reshape(&heads, &[6, 5, 4]), None);
    // One batch element: the heads are the only axis that is not in order.
    let one = Layout::contiguous(DType::F32, &[1, 5, 12]).unwrap();
    let heads = reshape(&one, &[1, 5, 3, 4]).unwrap().permute(&[0, 2, 1, 3]).unwrap();
    assert_eq!(reshape(&heads, &[3, 5, 4]).unwrap().strides(), [4, 12, 1]);
}

#[test]
fn repeated_elements_can_be_cut_but_not_joined_with_others() {
    let row = Layout::contiguous(DType::F32, &[1, 4]).unwrap().broadcast_to(&[6, 4]).unwrap();
    assert_eq!(reshape(&row, &[2, 3, 4]).unwrap().strides(), [0, 0, 1]);
    assert_eq!(reshape(&row, &[24]), None);
}

#[test]
fn a_view_that_does_not_exist_is_an_error() {
    let spec = TensorSpec::new(DType::F32, &[2, 3]).unwrap();
    assert!(View::Reshape(Sizes::from_slice(&[7])).infer(&spec).is_err());
    assert!(View::Permute(Sizes::from_slice(&[0, 0])).infer(&spec).is_err());
    assert!(View::Slice { axis: 1, start: 2, count: 2, step: 1 }.infer(&spec).is_err());
    assert!(View::Bits(DType::F16).infer(&spec).is_err());
    assert_eq!(View::Bits(DType::I32).infer(&spec).unwrap().to_string(), "i32[2, 3]");
}

proptest! {
    /// Whatever `reshape` gives names the same elements in the same order.
    #[test]
    fn a_reshape_keeps_the_order_of_elements(
        sizes in prop::collection::vec(1usize..5, 1..5),
        order in any::<[u8; 4]>(),
        first in 0usize..3,
        cut in prop::collection::vec(1usize..7, 1..5),
    ) {
        let mut layout = Layout::contiguous(DType::U8, &sizes).unwrap();
        let mut axes: Vec<usize> = (0..sizes.len()).collect();
        axes.sort_by_key(|&axis| order[axis]);
        layout = layout.permute(&axes).unwrap();
        let start = first.min(layout.shape()[0] - 1);
        layout = layout.slice(0, start, layout.shape()[0] - start, 1).unwrap();
        // A shape of as many elements: sizes that divide what is left, and the rest.
        let (mut shape, mut left) = (Vec::new(), layout.elements());
        for size in cut {
            if left % size == 0 {
                shape.push(size);
                left /= size;
            }
        }
        shape.push(left);
        if let Some(viewed) = reshape(&layout, &shape) {
            prop_assert_eq!(viewed.shape(), &shape[..]);
            prop_assert_eq!(positions(&viewed), positions(&layout));
        } else {
            prop_assert!(!layout.is_contiguous());
        }
    }
}

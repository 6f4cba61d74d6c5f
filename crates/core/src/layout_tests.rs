use proptest::prelude::*;

use super::*;

fn dense(shape: &[usize]) -> Layout {
    Layout::contiguous(DType::F32, shape).unwrap()
}

#[test]
fn contiguous_strides_are_row_major() {
    let layout = dense(&[2, 3, 4]);
    assert_eq!(layout.strides(), [12, 4, 1]);
    assert_eq!(layout.elements(), 24);
    assert_eq!(layout.extent_bytes(), 96);
    assert!(layout.is_contiguous() && layout.is_injective());
}

#[test]
fn rank_zero_has_one_element() {
    let layout = dense(&[]);
    assert_eq!((layout.elements(), layout.extent_bytes()), (1, 4));
    assert_eq!(layout, Layout::scalar(DType::F32));
}

#[test]
fn empty_layouts_touch_nothing() {
    let layout = dense(&[3, 0, 2]);
    assert!(layout.is_empty() && layout.is_contiguous() && layout.is_injective());
    assert_eq!(layout.extent_bytes(), 0);
}

#[test]
fn rank_nine_is_an_error() {
    assert!(Layout::contiguous(DType::U8, &[1; 9]).is_err());
}

#[test]
fn extents_that_overflow_are_errors() {
    assert!(Layout::contiguous(DType::F32, &[usize::MAX, 2]).is_err());
    assert!(Layout::strided(DType::F32, &[2], &[usize::MAX], 0).is_err());
    assert!(Layout::strided(DType::F32, &[1], &[1], usize::MAX).is_err());
    assert!(Layout::strided(DType::U8, &[1 << 40, 1 << 40], &[0, 0], 0).is_err());
}

#[test]
fn broadcasting_repeats_with_stride_zero() {
    let layout = dense(&[3, 1]).broadcast_to(&[2, 3, 4]).unwrap();
    assert_eq!(layout.strides(), [0, 1, 0]);
    assert!(!layout.is_injective());
    assert!(dense(&[3]).broadcast_to(&[2]).is_err());
    assert!(dense(&[2, 3]).broadcast_to(&[3]).is_err());
}

#[test]
fn slices_out_of_range_are_errors() {
    let layout = dense(&[4, 5]);
    assert_eq!(layout.slice(1, 1, 2, 2).unwrap().strides(), [5, 2]);
    assert_eq!(layout.slice(0, 4, 0, 1).unwrap().elements(), 0);
    assert!(layout.slice(1, 1, 3, 2).is_err());
    assert!(layout.slice(2, 0, 1, 1).is_err());
    assert!(layout.slice(0, 0, 1, 0).is_err());
    assert!(layout.slice(0, 1, usize::MAX, usize::MAX).is_err());
}

#[test]
fn permute_needs_every_axis_once() {
    let layout = dense(&[2, 3]);
    assert_eq!(layout.permute(&[1, 0]).unwrap().shape(), [3, 2]);
    assert!(layout.permute(&[0, 0]).is_err());
    assert!(layout.permute(&[0]).is_err());
}

#[test]
fn reshape_needs_a_contiguous_layout_of_equal_size() {
    assert_eq!(dense(&[4, 6]).reshape(&[2, 12]).unwrap().strides(), [12, 1]);
    assert!(dense(&[4, 6]).reshape(&[5]).is_err());
    assert!(dense(&[4, 6]).transpose(0, 1).unwrap().reshape(&[24]).is_err());
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..5, 0..=MAX_RANK)
}

proptest! {
    #[test]
    fn positions_of_an_injective_layout_are_distinct_and_inside(
        shape in shapes(), gap in 1usize..3, offset in 0usize..7, seed in any::<u64>()
    ) {
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        let mut state = seed;
        for axis in (1..rank).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            order.swap(axis, (state >> 33) as usize % (axis + 1));
        }
        let mut strides = vec![0; rank];
        let mut step = gap;
        for &axis in &order {
            strides[axis] = step;
            step *= shape[axis].max(1);
        }
        let layout = Layout::strided(DType::F32, &shape, &strides, offset).unwrap();
        prop_assert!(layout.is_injective());
        let mut positions: Vec<usize> =
            (0..layout.elements()).map(|index| layout.position(index)).collect();
        for &position in &positions {
            prop_assert!((position + 1) * 4 <= layout.extent_bytes());
            prop_assert!(position * 4 >= layout.start_bytes());
        }
        positions.sort_unstable();
        positions.dedup();
        prop_assert_eq!(positions.len(), layout.elements());
    }

    #[test]
    fn broadcast_shape_is_symmetric_and_reachable(left in shapes(), right in shapes()) {
        let forward = broadcast_shapes(&left, &right);
        prop_assert_eq!(&forward.clone().ok(), &broadcast_shapes(&right, &left).ok());
        if let Ok(shape) = forward {
            prop_assert!(dense(&left).broadcast_to(&shape).is_ok());
            prop_assert!(dense(&right).broadcast_to(&shape).is_ok());
        }
    }
}

#[test]
fn elements_of_4_bits_lie_densely_from_a_byte_on() {
    let layout = Layout::contiguous(DType::I4, &[3, 5]).unwrap();
    assert_eq!((layout.dense_bytes(), layout.extent_bytes(), layout.start_bytes()), (8, 8, 0));
    let moved = layout.shifted(6).unwrap();
    assert_eq!((moved.start_bytes(), moved.extent_bytes()), (3, 11));
    assert_eq!(
        moved.storage_bytes(),
        Layout::contiguous(DType::U8, &[8]).unwrap().shifted(3).unwrap()
    );
    assert_eq!(layout.reshape(&[15]).unwrap().dense_bytes(), 8);
    assert!(layout.shifted(3).is_err(), "in the middle of a byte");
    assert!(layout.transpose(0, 1).is_err() && layout.permute(&[1, 0]).is_err());
    assert!(layout.slice(1, 0, 2, 1).is_err() && layout.slice(0, 1, 2, 1).is_err());
    assert!(layout.broadcast_to(&[2, 3, 5]).is_err());
    // What is dense again may be chosen.
    assert_eq!(layout.slice(0, 2, 1, 1).unwrap().start_bytes(), 5);
    assert_eq!(layout.slice(0, 0, 2, 1).unwrap().extent_bytes(), 5);
    assert!(Layout::strided(DType::U4, &[3], &[2], 0).is_err());
    let transposed = Layout::strided(DType::U8, &[5, 3], &[1, 5], 0).unwrap();
    assert_eq!(
        transposed.with_dtype(DType::F4E2M1).extent_bytes(),
        usize::MAX,
        "it fits no buffer"
    );
    assert_eq!(Layout::contiguous(DType::I4, &[0, 3]).unwrap().extent_bytes(), 0);
    assert_eq!(Layout::scalar(DType::U4).dense_bytes(), 1);
}

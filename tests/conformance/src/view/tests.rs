use super::*;

#[test]
fn writable_views_do_not_overlap() {
    for shape in [&[][..], &[5], &[3, 4], &[2, 3, 4], &[1, 3, 1], &[2, 0, 3]] {
        for view in View::WRITABLE {
            assert!(view.layout(DType::F32, shape).is_injective(), "{view:?} of {shape:?}");
        }
    }
    assert!(!View::Repeated.layout(DType::F32, &[3, 4]).is_injective());
    assert_eq!(View::Transposed.layout(DType::F32, &[3, 4]).strides(), [1, 3]);
    assert_eq!(View::Stepped.layout(DType::F32, &[3, 4]).strides(), [24, 2]);
}

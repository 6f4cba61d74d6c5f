use super::*;

#[test]
fn nothing_wraps_around() {
    assert_eq!(bytes(MAX_BYTES / 4, DType::F32), Some(MAX_BYTES / 4 * 4));
    assert_eq!(bytes(MAX_BYTES / 4 + 1, DType::F32), None);
    assert_eq!(bytes(usize::MAX, DType::F32), None);
    assert_eq!(bytes(7, DType::I4), Some(4));
    assert_eq!(bytes(2 * MAX_BYTES, DType::I4), Some(MAX_BYTES));
    assert_eq!(bytes(usize::MAX, DType::I4), None);
    assert_eq!(product(&[1 << 40, 1 << 40]), usize::MAX);
    assert_eq!(product(&[1 << 40, 1 << 40, 0]), 0);
    assert_eq!(product(&[]), 1);
    assert_eq!(advance(1, 2, usize::MAX), usize::MAX);
    assert_eq!(advance(1, 2, 3), 7);
    assert_eq!(checked_advance(1, 0, usize::MAX), Some(1));
    assert_eq!(checked_advance(1, 1, usize::MAX), None);
}

use super::*;

#[test]
fn room_that_nobody_has_is_an_error() {
    assert!(room::<u64>(usize::MAX).unwrap_err().is_retryable());
    assert!(filled(0u8, usize::MAX, usize::MAX).is_err());
    assert!(collected(usize::MAX, std::iter::empty::<u64>()).is_err());
    assert_eq!(filled(7, 2, 3).unwrap(), [7; 6]);
    assert_eq!(collected(2, 0..9).unwrap(), [0, 1]);
}

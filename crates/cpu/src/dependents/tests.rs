use super::*;

#[test]
fn every_stream_is_taken_once() {
    let dependents = Dependents::new();
    for stream in [63, 0, 5, 0] {
        assert!(!dependents.add_and_check(stream, || false));
    }
    assert!(dependents.take().eq([0, 5, 63]));
    assert_eq!(dependents.take().next(), None);
}

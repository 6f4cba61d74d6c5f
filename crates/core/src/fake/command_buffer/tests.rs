use super::*;

#[test]
fn the_proper_order_passes() {
    let mut buffer = CommandBuffer::new();
    buffer.begin_encoding().unwrap();
    buffer.end_encoding().unwrap();
    buffer.add_handler().unwrap();
    buffer.commit().unwrap();
}

#[test]
fn the_classic_failures_are_noticed() {
    let mut buffer = CommandBuffer::new();
    buffer.begin_encoding().unwrap();
    assert!(buffer.begin_encoding().is_err(), "two encoders");
    assert!(buffer.commit().is_err(), "commit with an open encoder");
    buffer.end_encoding().unwrap();
    assert!(buffer.end_encoding().is_err(), "end twice");
    buffer.commit().unwrap();
    assert!(buffer.commit().is_err(), "commit twice");
    assert!(buffer.add_handler().is_err(), "handler after commit");
    assert!(buffer.begin_encoding().is_err(), "encoder after commit");
}

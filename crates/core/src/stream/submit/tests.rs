use super::*;
use crate::{Command, Config, DType, Layout, Stream, fake};

/// The batch of a waiter goes to the device between its first look and its lock, and another thread begins
/// the next one. Were that submitted as the waiter's own, nobody would execute it.
#[test]
fn a_waiter_leaves_alone_what_comes_after_what_it_waits_for() {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let layout = Layout::contiguous(DType::F32, &[16]).unwrap();
    let record = || stream.record(Command::fill(buffer.operand(layout), 1.0f32).unwrap());
    let point = record().unwrap();
    stream.flush().unwrap();
    let next = record().unwrap();
    let submit_up_to = |sequence| {
        let submitted = stream.inner.submit_up_to(&mut stream.inner.lock(), sequence, Reason::Wait);
        submitted.map(|_| ())
    };
    submit_up_to(point.sequence()).unwrap();
    assert!(!next.is_submitted());
    submit_up_to(next.sequence()).unwrap();
    assert!(next.is_submitted());
}

//! What blocks remember of those who use them.

use std::sync::mpsc;
use std::time::Duration;

use crate::{Buffer, Command, Config, DType, Layout, Stream, Timepoint, fake};

/// A guard against a hang, far above what any machine takes.
const LONG: Duration = Duration::from_secs(10);

fn streams<const COUNT: usize>() -> [Stream; COUNT] {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    [(); COUNT].map(|()| Stream::new(&device).unwrap())
}

fn whole(buffer: &Buffer) -> crate::Operand<&Buffer> {
    buffer.operand(Layout::contiguous(DType::U8, &[buffer.bytes()]).unwrap())
}

fn fill(stream: &Stream, buffer: &Buffer) -> Timepoint {
    stream.record(Command::fill(whole(buffer), 1i32).unwrap()).unwrap()
}

fn read(stream: &Stream, buffer: &Buffer) -> Timepoint {
    let own = stream.allocate(buffer.bytes()).unwrap();
    stream.record(Command::copy(whole(&own), whole(buffer)).unwrap()).unwrap()
}

/// Invariant 6: weights that settled are untracked. Reading them takes no lock and leaves no trace, also where
/// several streams used them before.
#[test]
fn invariant_06_reading_weights_takes_no_lock_and_leaves_no_trace() {
    let [home, second, third] = &streams();
    for shared_before in [false, true] {
        let weights = home.allocate(256).unwrap();
        fill(home, &weights);
        if shared_before {
            read(second, &weights);
        }
        weights.settle().unwrap();
        let uses = weights.block().foreign_uses();
        let (done, is_done) = mpsc::channel();
        let in_time = std::thread::scope(|scope| {
            let lock = weights.block().lock_uses();
            let weights = &weights;
            scope.spawn(move || {
                for stream in [home, second, third] {
                    read(stream, weights).wait().unwrap();
                }
                done.send(()).unwrap();
            });
            let in_time = is_done.recv_timeout(LONG).is_ok();
            drop(lock);
            in_time
        });
        assert_eq!(weights.block().foreign_uses(), uses, "reading weights was noted");
        assert!(in_time, "reading weights waits for a lock");
    }
}

/// Invariant 11: a block remembers one use per stream, the later one, however often it is used.
#[test]
fn a_block_remembers_the_last_use_of_each_stream() {
    let [home, second, third] = &streams();
    let buffer = home.allocate(256).unwrap();
    fill(home, &buffer);
    let mut last = Vec::new();
    for _ in 0..50 {
        fill(home, &buffer);
        last = vec![read(second, &buffer), fill(third, &buffer)];
    }
    assert_eq!(buffer.block().foreign_uses().into_vec(), last);
}

/// A stream that waits for others to submit comes next, for some time. If it gives up and the block gets new
/// holders, these do not wait for it.
#[test]
fn who_gave_up_has_no_precedence_in_the_next_allocation() {
    let [home, second, third] = &streams();
    let first = home.allocate(256).unwrap();
    fill(home, &first);
    read(second, &first).wait().unwrap();
    first.block().lock_uses().claim(third.inner());
    assert!(first.block().lock_uses().is_claimed_from(second.inner()));
    let address = first.block().allocation().0;
    home.synchronize().unwrap();
    drop(first);
    let again = home.allocate(256).unwrap();
    assert_eq!(again.block().allocation().0, address, "the same block");
    assert!(!again.block().lock_uses().is_claimed_from(second.inner()));
}

/// Who is short of memory tries again when something was freed, and waits each time until the device is idle. So what
/// freed nothing must not look like a free.
#[test]
fn freeing_nothing_is_no_reason_to_look_for_memory_again() {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let stream = Stream::new(&device).unwrap();
    drop(stream.allocate(1 << 16).unwrap());
    let finished = || device.inner().memory().pending_frees.finished();
    let before = finished();
    device.empty_cache().unwrap();
    let after = finished();
    assert!(after > before, "the cache had a block");
    device.empty_cache().unwrap();
    assert_eq!(finished(), after);
    assert!(!device.inner().memory().pending_frees.any_since(after, None), "nothing is waited for");
}

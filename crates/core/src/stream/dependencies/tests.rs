use std::sync::mpsc::channel;
use std::time::Duration;

use crate::{Command, Config, DType, Layout, Stream, fake};

/// Streams that read settled contents share no lock, also where several used them before.
#[test]
fn settled_contents_are_read_without_their_lock() {
    let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    let (home, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let layout = Layout::contiguous(DType::F32, &[16]).unwrap();
    let [weights, copied] = [(); 2].map(|()| home.allocate(64).unwrap());
    home.record(Command::fill(weights.operand(layout), 1.0f32).unwrap()).unwrap();
    let copy = || Command::copy(copied.operand(layout), weights.operand(layout)).unwrap();
    other.record(copy()).unwrap();
    weights.settle().unwrap();
    let locked = weights.block().lock_uses();
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(other.record(copy())).unwrap());
        let recorded = is_done.recv_timeout(Duration::from_secs(60));
        drop(locked);
        recorded.expect("nobody is waited for").unwrap();
    });
}

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn tasks_become_first_in_the_order_of_arrival_and_only_the_first_is_woken() {
    let queue = WakerQueue::default();
    let woken: Vec<_> = (0..3).map(|_| Arc::new(Woken::default())).collect();
    let wakers: Vec<_> = woken.iter().map(|woken| Waker::from(Arc::clone(woken))).collect();
    let mut positions: Vec<_> = (0..3).map(|_| Position::default()).collect();
    for (index, (position, waker)) in positions.iter_mut().zip(&wakers).enumerate() {
        assert_eq!(queue.poll(position, waker), index == 0);
    }
    let counts = || woken.iter().map(|woken| woken.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
    assert!(queue.is_occupied());
    queue.leave(&mut positions[1]);
    assert_eq!(counts(), [0, 0, 0], "the first is still there");
    queue.leave(&mut positions[0]);
    assert_eq!(counts(), [0, 0, 1]);
    assert!(queue.poll(&mut positions[2], &wakers[2]));
    queue.leave(&mut positions[2]);
    queue.leave(&mut positions[2]);
    assert!(!queue.is_occupied());
    assert!(woken.iter().all(|woken| Arc::strong_count(woken) == 2), "no waker is kept");
}

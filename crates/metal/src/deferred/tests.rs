use super::*;
use crate::queue::{Completion, Open};

/// Says when it is dropped.
struct Noted(Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn commit(timeline: &Timeline, tick: u64) {
    timeline.open(Open { commands: tick as usize, completes: Completion::Batch(tick) });
}

#[test]
fn what_is_deferred_goes_when_all_that_was_committed_before_has_been_handled() {
    let (deferred, dropped) = (DeferredReleases::default(), Arc::<AtomicUsize>::default());
    let timelines = [(); 2].map(|()| Arc::<Timeline>::default());
    timelines.iter().for_each(|timeline| deferred.add(timeline));
    let defer = || deferred.defer(Noted(Arc::clone(&dropped)));
    let count = || dropped.load(Ordering::Relaxed);
    defer();
    assert_eq!(count(), 1, "nothing is in flight");
    timelines.iter().for_each(|timeline| commit(timeline, 1));
    defer();
    // What is committed later does not matter.
    commit(&timelines[0], 2);
    timelines[0].handle(1);
    deferred.sweep();
    assert_eq!(count(), 1);
    assert!(!deferred.wait(Duration::from_millis(1)), "the other has not been handled");
    timelines[1].handle(1);
    deferred.sweep();
    assert_eq!(count(), 2);
    assert!(!deferred.wait(Duration::from_millis(1)), "there is nothing to wait for");
}

#[test]
fn a_closed_timeline_counts_until_all_of_it_was_handled() {
    let (deferred, dropped) = (DeferredReleases::default(), Arc::<AtomicUsize>::default());
    let timeline = Arc::<Timeline>::default();
    deferred.add(&timeline);
    commit(&timeline, 1);
    deferred.close(&timeline);
    deferred.defer(Noted(Arc::clone(&dropped)));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| deferred.wait(Duration::from_secs(60)));
        timeline.handle(1);
        deferred.sweep();
        // It may have come too late to see anything.
        let _ = waiting.join().unwrap();
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert!(deferred.lock().items.is_empty());
    deferred.defer(());
    assert!(deferred.lock().timelines.is_empty(), "it is forgotten");
}

use std::sync::mpsc;

use super::*;
use crate::queue::Completion;

/// Says when it is dropped.
struct Noted(Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn commit(timeline: &Timeline, tick: u64) {
    timeline.commit(Completion::Batch(tick), |_| {});
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
    let moment = Duration::from_millis(1);
    assert_eq!(deferred.retry(moment, || None::<()>), None, "the other has not been handled");
    timelines[1].handle(1);
    deferred.sweep();
    assert_eq!(count(), 2);
    // Nothing to wait for: it ends at once, whatever time it has.
    assert_eq!(deferred.retry(Duration::from_secs(3600), || None::<()>), None);
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
        let has_gone = || (dropped.load(Ordering::Relaxed) == 1).then_some(());
        let deferred = &deferred;
        let waiting = scope.spawn(move || deferred.retry(Duration::from_secs(60), has_gone));
        timeline.handle(1);
        deferred.sweep();
        assert_eq!(waiting.join().unwrap(), Some(()));
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert!(deferred.lock().items.is_empty());
    deferred.defer(());
    assert!(deferred.lock().timelines.is_empty(), "it is forgotten");
}

/// Stays in its drop until a message lets it go on.
struct Slow {
    began: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.began.send(()).unwrap();
        // An error is the end of a test that has failed.
        let _ = self.go_on.recv();
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// An item that is off the list and has not been dropped still holds its memory: who needs it waits.
#[test]
fn what_is_being_released_is_waited_for() {
    let (deferred, gone) = (DeferredReleases::default(), Arc::<AtomicUsize>::default());
    let timeline = Arc::<Timeline>::default();
    deferred.add(&timeline);
    commit(&timeline, 1);
    let ((began, has_begun), (release, go_on)) = (mpsc::channel(), mpsc::channel());
    deferred.defer(Slow { began, go_on, gone: Arc::clone(&gone) });
    timeline.handle(1);
    let has_gone = || (gone.load(Ordering::Relaxed) == 1).then_some(());
    std::thread::scope(|scope| {
        // Goes when an assertion fails, so that the other thread ends.
        let release = release;
        scope.spawn(|| deferred.sweep());
        has_begun.recv().unwrap();
        let (moment, start) = (Duration::from_millis(50), Instant::now());
        assert_eq!(deferred.retry(moment, has_gone), None);
        assert!(start.elapsed() >= moment, "it did not wait");
        release.send(()).unwrap();
        assert_eq!(deferred.retry(Duration::from_secs(60), has_gone), Some(()));
    });
}

/// What nobody has swept yet can go all the same.
#[test]
fn the_last_attempt_comes_behind_what_can_go() {
    let (deferred, dropped) = (DeferredReleases::default(), Arc::<AtomicUsize>::default());
    let timeline = Arc::<Timeline>::default();
    deferred.add(&timeline);
    commit(&timeline, 1);
    deferred.defer(Noted(Arc::clone(&dropped)));
    timeline.handle(1);
    let has_gone = || (dropped.load(Ordering::Relaxed) == 1).then_some(());
    assert_eq!(deferred.retry(Duration::ZERO, has_gone), Some(()));
}

/// Who waits for memory hears of what goes at once, with others still on the list.
#[test]
fn what_goes_at_once_counts_as_a_release() {
    let (deferred, dropped) = (DeferredReleases::default(), Arc::<AtomicUsize>::default());
    let timeline = Arc::<Timeline>::default();
    deferred.add(&timeline);
    commit(&timeline, 1);
    deferred.defer(());
    timeline.handle(1);
    let seen = deferred.lock().releases;
    // The other is still there, and nothing is in flight.
    deferred.defer(Noted(Arc::clone(&dropped)));
    assert_eq!((dropped.load(Ordering::Relaxed), deferred.lock().items.len()), (1, 1));
    assert!(deferred.wait_past(seen, Instant::now() + Duration::from_secs(5)));
}

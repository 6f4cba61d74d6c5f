use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

/// A sleeper comes while the watcher forgets what nobody sleeps for.
#[test]
fn loom_a_sleeper_is_never_forgotten() {
    loom::model(|| {
        let shared = Arc::new((WatchList::default(), AtomicUsize::new(0)));
        shared.0.add(5);
        let sleeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.fetch_add(1, Ordering::Relaxed);
                shared.0.add(5);
            })
        };
        shared.0.remove_unless(5, || shared.1.load(Ordering::Relaxed) > 0);
        sleeper.join().unwrap();
        assert_eq!(shared.0.all(), 1 << 5);
    });
}

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;

/// As `note_error` and `StreamPool::stream` do it, with flags for the stream in the pool and for its loss.
#[test]
fn loom_a_new_stream_or_the_loss_of_its_device_sees_the_other() {
    loom::model(|| {
        let shared =
            Arc::new((FaultLog::default(), AtomicBool::new(false), AtomicBool::new(false)));
        let loser = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (fault_log, published, lost) = &*shared;
                let reason = "planted".into();
                fault_log.note(&Error::DeviceLost { device: "fake".into(), reason });
                if published.load(Ordering::Acquire) {
                    lost.store(true, Ordering::Relaxed);
                }
            })
        };
        let (fault_log, published, lost) = &*shared;
        published.store(true, Ordering::Release);
        if fault_log.is_lost() {
            lost.store(true, Ordering::Relaxed);
        }
        loser.join().unwrap();
        assert!(lost.load(Ordering::Relaxed));
    });
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Settled contents: whoever sees the flag reads without any other order.
#[test]
fn loom_a_set_flag_shows_what_was_written_before() {
    loom::model(|| {
        let shared = Arc::new((Flag::default(), UnsafeCell::new(0)));
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // SAFETY: the other thread reads only when the flag is set; loom checks that.
                shared.1.with_mut(|value| unsafe { *value = 7 });
                shared.0.set();
            })
        };
        if shared.0.is_set() {
            // SAFETY: the writer is through; loom reports it if that is not enough.
            shared.1.with(|value| assert_eq!(unsafe { *value }, 7));
        }
        writer.join().unwrap();
    });
}

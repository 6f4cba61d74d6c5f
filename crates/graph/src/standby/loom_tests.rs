//! Work that is given while threads come, wait and end: each piece is worked on once or given back.

use loom::thread;

use super::*;

#[test]
fn loom_work_that_was_given_is_taken() {
    loom::model(|| {
        let standby = Arc::new(Standby::new());
        assert!(standby.join(1));
        let own = Arc::clone(&standby);
        let thread = thread::spawn(move || {
            let mut sum = 0;
            while let Some(work) = own.take(Duration::ZERO) {
                sum += work;
            }
            sum
        });
        let given: u32 = [1, 2].into_iter().filter(|&work| standby.give(work).is_ok()).sum();
        // Without a clock, a thread that waits ends by this.
        standby.close();
        assert_eq!(thread.join().unwrap(), given);
        let state = lock(&standby.state);
        assert_eq!((state.threads, state.waiting, state.work.len()), (0, 0, 0));
    });
}

#[test]
fn loom_two_threads_share_what_is_given() {
    loom::model(|| {
        let standby = Arc::new(Standby::new());
        let threads = [0; 2].map(|_| {
            assert!(standby.join(2));
            let own = Arc::clone(&standby);
            thread::spawn(move || own.take(Duration::ZERO).unwrap_or(0))
        });
        let given = if standby.give(1).is_ok() { 1 } else { 0 };
        standby.close();
        let taken: u32 = threads.map(|thread| thread.join().unwrap()).iter().sum();
        assert_eq!(taken, given);
    });
}

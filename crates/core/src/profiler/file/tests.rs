use super::*;

#[test]
fn a_lock_that_somebody_keeps_is_not_waited_for() {
    let mutex = Mutex::new(7);
    let kept = mutex.lock().unwrap();
    assert!(lock_within(&mutex, Instant::now()).is_none());
    drop(kept);
    assert_eq!(lock_within(&mutex, Instant::now()).as_deref(), Some(&7));
}

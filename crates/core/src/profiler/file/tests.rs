use super::*;

#[test]
fn a_file_shows_so_many_closed_devices_at_most() {
    let name = format!("millstream-many-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    for device in 0..MAX_CLOSED + 3 {
        device_closed(&path, Trace { device: format!("{device}."), ..Trace::default() });
    }
    let json = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(json.matches("process_name").count(), MAX_CLOSED);
    assert!(json.contains("millstream 3.:") && !json.contains("millstream 2.:"), "{json}");
}

#[test]
fn a_lock_that_somebody_keeps_is_not_waited_for() {
    let mutex = Mutex::new(7);
    let kept = mutex.lock().unwrap();
    assert!(lock_within(&mutex, Instant::now()).is_none());
    drop(kept);
    assert_eq!(lock_within(&mutex, Instant::now()).as_deref(), Some(&7));
}

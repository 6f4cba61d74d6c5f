use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicPtr;
use loom::thread;

use super::{PUBLISH, READ};

type Slot = AtomicPtr<UnsafeCell<u32>>;

/// As `opened` does it, with something that loom can look into.
fn value(slot: &Slot) -> u32 {
    let mut found = slot.load(READ);
    if found.is_null() {
        let new = Box::into_raw(Box::new(UnsafeCell::new(0)));
        // SAFETY: made here, and nobody else has it.
        unsafe { &*new }.with_mut(|value| unsafe { *value = 7 });
        match slot.compare_exchange(ptr::null_mut(), new, PUBLISH, READ) {
            Ok(_) => found = new,
            Err(current) => {
                // SAFETY: made here a moment ago and never shared.
                drop(unsafe { Box::from_raw(new) });
                found = current;
            }
        }
    }
    // SAFETY: published, and freed only at the end of the model.
    unsafe { &*found }.with(|value| unsafe { *value })
}

#[test]
fn loom_two_who_open_the_first_device_share_one_map() {
    loom::model(|| {
        let slot = Arc::new(Slot::new(ptr::null_mut()));
        let other = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || value(&slot))
        };
        assert_eq!(value(&slot), 7);
        assert_eq!(other.join().unwrap(), 7);
        // SAFETY: from `Box::into_raw`, and nobody uses it any more.
        drop(unsafe { Box::from_raw(slot.load(READ)) });
    });
}

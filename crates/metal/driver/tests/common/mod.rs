//! What both tests share.
#![allow(dead_code, reason = "each uses a part")]

pub mod gpu;

use std::sync::{Mutex, MutexGuard};

/// Violations, seeds and faults belong to the process: one test at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    millstream_metal_driver::rules::take();
    turn
}

//! Ways in which this driver behaves otherwise than Metal is thought to: for tests of the probe, which must notice each.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Something that Metal is not thought to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Deviation {
    /// Arithmetic keeps subnormal numbers.
    KeepsSubnormals = 1,
    /// A failed command buffer sets its events.
    SignalsOnFailure = 1 << 1,
    /// Completed handlers come when a command buffer begins.
    HandlerFirst = 1 << 2,
    /// A queue never blocks, however many command buffers it has.
    NeverBlocks = 1 << 3,
    /// Command buffers do not wait for events.
    NeverWaits = 1 << 4,
    /// Timestamps of the GPU count ticks of 24 MHz.
    CountsTicks = 1 << 5,
    /// Functions are off by a hundred units in the last place.
    Imprecise = 1 << 6,
    /// A barrier orders nothing.
    NoBarriers = 1 << 7,
    /// What a residency set gets counts at once.
    CommitsSets = 1 << 8,
}

static DEVIATIONS: AtomicU32 = AtomicU32::new(0);
static WATCHDOG_MILLIS: AtomicU64 = AtomicU64::new(0);

/// The driver behaves so from now on, in this process.
pub fn deviate(deviation: Deviation) {
    DEVIATIONS.fetch_or(deviation as u32, Ordering::Relaxed);
}

pub(crate) fn deviates(deviation: Deviation) -> bool {
    DEVIATIONS.load(Ordering::Relaxed) & deviation as u32 != 0
}

/// An encoder that runs longer ends its command buffer with a timeout; 0: none does. `METAL_DRIVER_WATCHDOG_MS` says the same. The
/// kernel itself is not stopped.
pub fn set_watchdog(time: Duration) {
    WATCHDOG_MILLIS.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

pub(crate) fn watchdog() -> Option<Duration> {
    static FROM_ENVIRONMENT: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let given = FROM_ENVIRONMENT.get_or_init(|| {
        let set = std::env::var("METAL_DRIVER_WATCHDOG_MS").ok();
        set.and_then(|time| time.parse().ok()).unwrap_or(0)
    });
    let millis = match WATCHDOG_MILLIS.load(Ordering::Relaxed) {
        0 => *given,
        millis => millis,
    };
    (millis > 0).then(|| Duration::from_millis(millis))
}

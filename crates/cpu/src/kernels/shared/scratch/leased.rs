//! Scratch memory for threads that execute batches.
//!
//! Of many callers few execute at a time. If each kept buffers of its own, they would be many, and cold when its turn comes.
//! So a thread leases buffers for as long as it executes a batch: the first that nobody has, which most likely were used a
//! moment ago.

use std::marker::PhantomData;
use std::sync::LazyLock;

use millstream_core::sync::Checkout;

use super::store::STORE;
use super::thread::{SCRATCH, ThreadScratch};

/// How many threads can have a lease at a time: as many as a device has streams. Further ones use buffers of their own.
const PLACES: usize = millstream_core::MAX_STREAMS as usize;

static POOL: LazyLock<Box<[Place]>> = LazyLock::new(|| (0..PLACES).map(|_| Place::new()).collect());

/// Buffers that one thread has at a time.
struct Place {
    checkout: Checkout,
    /// Touched by who has checked it out.
    scratch: ThreadScratch,
}

// SAFETY: `checkout` hands the scratch memory from one thread to the next, and nobody else touches it.
unsafe impl Sync for Place {}
// SAFETY: buffers are plain memory, which any thread may use and free.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Self {
        Self { checkout: Checkout::new(), scratch: ThreadScratch::new(&STORE) }
    }
}

/// The calling thread's lease. It ends when this is dropped, on the same thread.
pub(crate) struct ScratchLease {
    place: Option<&'static Place>,
    /// The buffers lie in a variable of the thread.
    not_send: PhantomData<*const ()>,
}

/// Leases buffers to the calling thread, for a batch. Its own are put aside.
pub(crate) fn lease() -> ScratchLease {
    let found = POOL.iter().find(|place| !place.checkout.is_out() && place.checkout.take());
    // A thread that is ending may have no variables left.
    let place = found.filter(|place| {
        let leased = SCRATCH.try_with(|own| own.swap(&place.scratch)).is_ok();
        if !leased {
            place.checkout.release();
        }
        leased
    });
    ScratchLease { place, not_send: PhantomData }
}

impl Drop for ScratchLease {
    fn drop(&mut self) {
        let Self { place, not_send: _ } = self;
        if let Some(place) = place {
            // A thread that is ending may have no variables left; then the buffers that were put aside stay in the place.
            let _ = SCRATCH.try_with(|own| own.swap(&place.scratch));
            place.checkout.release();
        }
    }
}

/// Frees the buffers that nobody has leased.
pub(crate) fn free_idle() {
    for place in POOL.iter().filter(|place| place.checkout.take()) {
        place.scratch.clear();
        place.checkout.release();
    }
}

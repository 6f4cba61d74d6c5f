//! A pool of equal values that many use in turn, few at a time. Whoever has reserved one finds one.
//!
//! A reservation is a count, so that any number of users can hold one while there are only as many values as can be
//! in use at a time. The number of reservations and that of the values are in one word: values are only taken out of
//! the pool if enough are left for the reservations at that moment. All steps are lock-free.

use super::shim::{AtomicPtr, AtomicU64, Ordering};

/// The most values of a pool.
pub const MAX_VALUES: usize = if cfg!(loom) { 2 } else { 64 };

/// Values that are shared, and how many have reserved one.
///
/// # Thread safety
///
/// Any thread may call anything. What a user did with a value before [`put`](Self::put) is visible to the next one.
pub struct ReservePool<T> {
    /// The users of values at a time. More reservations need no more values.
    users: u64,
    /// Reservations in the upper half, values in the lower.
    counts: AtomicU64,
    /// A bit for each place that has a value.
    filled: AtomicU64,
    /// A bit for each value that nobody uses.
    free: AtomicU64,
    places: [AtomicPtr<T>; MAX_VALUES],
}

/// A value in use. The user has it alone until it is [put](ReservePool::put) back.
pub struct Taken<T> {
    place: u32,
    value: *mut T,
}

// SAFETY: stands for a `Box<T>`.
unsafe impl<T: Send> Send for Taken<T> {}
// SAFETY: gives out shared references to the value only.
unsafe impl<T: Sync> Sync for Taken<T> {}
// SAFETY: owns the values, and hands each to one user at a time.
unsafe impl<T: Send> Send for ReservePool<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for ReservePool<T> {}

const RESERVATION: u64 = 1 << 32;

fn split(counts: u64) -> (u64, u64) {
    (counts >> 32, counts & (RESERVATION - 1))
}

impl<T> Taken<T> {
    /// The value.
    pub fn value(&self) -> &T {
        // SAFETY: from `Box::into_raw`, and freed by nobody while it is in use.
        unsafe { &*self.value }
    }
}

impl<T> ReservePool<T> {
    /// An empty pool, of whose values at most `users` are in use at a time.
    pub fn new(users: usize) -> Self {
        Self {
            users: users.clamp(1, MAX_VALUES) as u64,
            counts: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            free: AtomicU64::new(0),
            places: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// Reserves a value. False if there are too few; then one has to be [added](Self::add_reserved).
    pub fn try_reserve(&self) -> bool {
        let mut counts = self.counts.load(Ordering::Relaxed);
        loop {
            let (reservations, values) = split(counts);
            if values < self.users.min(reservations + 1) {
                return false;
            }
            // Pairs with `add_reserved` and `cancel`: a value that counts is in its place, or put back.
            let to = counts + RESERVATION;
            match self.counts.compare_exchange_weak(
                counts,
                to,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(current) => counts = current,
            }
        }
    }

    /// Adds a value and reserves one. Gives the value back if the pool is full, which has enough for everybody.
    pub fn add_reserved(&self, value: Box<T>) -> Option<Box<T>> {
        let left = self.fill(value);
        let value = u64::from(left.is_none());
        // Pairs with `try_reserve`.
        self.counts.fetch_add(RESERVATION + value, Ordering::Release);
        left
    }

    /// Adds a value and takes it, beyond what is counted on. For a user with a reservation who found none, because
    /// others keep values for longer.
    pub fn add_taken(&self, value: Box<T>) -> Result<Taken<T>, Box<T>> {
        let place = match self.claim_place() {
            Some(place) => place,
            None => return Err(value),
        };
        let value = Box::into_raw(value);
        self.places[place as usize].store(value, Ordering::Relaxed);
        self.counts.fetch_add(1, Ordering::Relaxed);
        Ok(Taken { place, value })
    }

    /// Takes back a reservation whose value is not in use, or no longer.
    pub fn cancel(&self) {
        // Pairs with `try_reserve`: what was put back before is seen to be free.
        self.counts.fetch_sub(RESERVATION, Ordering::Release);
    }

    /// A value that nobody uses, for a user with a reservation. Of several it is always the first: it was most
    /// likely used a moment ago. `None` only if more values are in use than was said.
    pub fn take(&self) -> Option<Taken<T>> {
        let mut free = self.free.load(Ordering::Relaxed);
        while free != 0 {
            let bit = free & free.wrapping_neg();
            // Pairs with `put`.
            free = self.free.fetch_and(!bit, Ordering::Acquire);
            if free & bit != 0 {
                let place = bit.trailing_zeros();
                let value = self.places[place as usize].load(Ordering::Relaxed);
                return Some(Taken { place, value });
            }
        }
        None
    }

    /// Puts a value back. The reservation stays.
    pub fn put(&self, taken: Taken<T>) {
        // Pairs with `take`.
        self.free.fetch_or(1 << taken.place, Ordering::Release);
    }

    /// Removes a value that nobody needs; `None` if there is none.
    pub fn try_remove(&self) -> Option<Box<T>> {
        let mut counts = self.counts.load(Ordering::Relaxed);
        loop {
            let (reservations, values) = split(counts);
            if values <= self.users.min(reservations) {
                return None;
            }
            // Who does not see yet that a value is free leaves it.
            match self.counts.compare_exchange_weak(
                counts,
                counts - 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(current) => counts = current,
            }
        }
        let Some(taken) = self.take() else {
            // All are in use for longer.
            self.counts.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Pairs with `claim_place`.
        self.filled.fetch_and(!(1 << taken.place), Ordering::Release);
        // SAFETY: from `Box::into_raw`; it was taken, and its place is free for others.
        Some(unsafe { Box::from_raw(taken.value) })
    }

    /// Whether there are more values than can be in use at a time.
    pub fn has_too_many(&self) -> bool {
        split(self.counts.load(Ordering::Relaxed)).1 > self.users
    }

    /// How many values there are, and how many of them nobody uses.
    pub fn values(&self) -> (usize, usize) {
        let count = |mask: &AtomicU64| mask.load(Ordering::Relaxed).count_ones() as usize;
        let filled = count(&self.filled);
        (filled, count(&self.free).min(filled))
    }

    fn fill(&self, value: Box<T>) -> Option<Box<T>> {
        let Some(place) = self.claim_place() else { return Some(value) };
        self.places[place as usize].store(Box::into_raw(value), Ordering::Relaxed);
        // Pairs with `take`.
        self.free.fetch_or(1 << place, Ordering::Release);
        None
    }

    /// A place without a value, which is the caller's to fill.
    fn claim_place(&self) -> Option<u32> {
        let mut filled = self.filled.load(Ordering::Relaxed);
        loop {
            let place = filled.trailing_ones();
            if place as usize >= MAX_VALUES {
                return None;
            }
            // Pairs with `try_remove`.
            match self.filled.compare_exchange_weak(
                filled,
                filled | 1 << place,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(place),
                Err(current) => filled = current,
            }
        }
    }
}

impl<T> Drop for ReservePool<T> {
    fn drop(&mut self) {
        while let Some(taken) = self.take() {
            // SAFETY: from `Box::into_raw`, and nobody uses it.
            drop(unsafe { Box::from_raw(taken.value) });
        }
    }
}

impl<T> std::fmt::Debug for ReservePool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reservations, _) = split(self.counts.load(Ordering::Relaxed));
        let (values, free) = self.values();
        write!(f, "ReservePool({values} values, {free} free, {reservations} reservations)")
    }
}

impl<T> std::fmt::Debug for Taken<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

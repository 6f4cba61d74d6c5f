//! A pool of tokens with one atomic on the fast path and waiters served in the order of arrival.
//!
//! The stream pool leases slots with it, and the CPU device admits batches with it.
//!
//! All state that decides is one word: the free tokens and a flag that somebody waits. While the flag
//! is set the word has no free token and a returned token goes straight to the oldest waiter, so
//! nobody can overtake and no wake-up is lost. The flag changes only under the queue's lock.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::shim::{Arc, AtomicU64, Condvar, Mutex, Ordering, lock, wait_until};

const WAITING: u64 = 1 << 63;

/// How free tokens are kept in the low 63 bits of a word.
pub trait Tokens {
    /// What is taken and given back.
    type Token: Copy + Send;

    /// The word without one token, and that token; `None` when there is none.
    fn take(free: u64) -> Option<(u64, Self::Token)>;

    /// The word with a token more.
    fn put(free: u64, token: Self::Token) -> u64;
}

/// Tokens with an identity: bits of a mask, at most 63.
#[derive(Debug)]
pub enum Slots {}

impl Tokens for Slots {
    type Token = u32;

    fn take(free: u64) -> Option<(u64, u32)> {
        let slot = (free != 0).then(|| free.trailing_zeros())?;
        Some((free & !(1 << slot), slot))
    }

    fn put(free: u64, slot: u32) -> u64 {
        debug_assert_eq!(free & (1 << slot), 0, "slot {slot} was given back twice");
        free | (1 << slot)
    }
}

/// Tokens without identity: a count.
#[derive(Debug)]
pub enum Permits {}

impl Tokens for Permits {
    type Token = ();

    fn take(free: u64) -> Option<(u64, ())> {
        Some((free.checked_sub(1)?, ()))
    }

    fn put(free: u64, (): ()) -> u64 {
        free + 1
    }
}

/// A pool of tokens. See the module's documentation.
pub struct FairPool<T: Tokens> {
    word: AtomicU64,
    queue: Mutex<VecDeque<Arc<Waiter<T::Token>>>>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Tokens> std::fmt::Debug for FairPool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FairPool").field("word", &self.word).finish_non_exhaustive()
    }
}

struct Waiter<Token> {
    granted: Mutex<Option<Token>>,
    changed: Condvar,
}

/// How a waiter finds tokens that their holders do not need.
struct Reclaim<'a> {
    pause: &'a dyn Fn(usize, u32) -> Duration,
    run: &'a mut dyn FnMut(),
}

impl FairPool<Slots> {
    /// A pool of slots `0..count`.
    ///
    /// # Panics
    ///
    /// More than 63 slots.
    pub fn slots(count: u32) -> Self {
        assert!(count <= 63, "at most 63 slots fit, {count} asked for");
        Self::with_word((1 << count) - 1)
    }
}

impl FairPool<Permits> {
    /// A pool of `count` permits.
    pub fn permits(count: u32) -> Self {
        Self::with_word(u64::from(count))
    }
}

impl<T: Tokens> FairPool<T> {
    fn with_word(word: u64) -> Self {
        Self { word: AtomicU64::new(word), queue: Mutex::new(VecDeque::new()), kind: PhantomData }
    }

    /// Takes a token if one is free and nobody waits for it.
    pub fn try_take(&self) -> Option<T::Token> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & WAITING != 0 {
                return None;
            }
            let (rest, token) = T::take(word)?;
            // Pairs with `put`.
            match self.word.compare_exchange_weak(word, rest, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(token),
                Err(current) => word = current,
            }
        }
    }

    /// Takes a token, in the order of arrival. `None` if the deadline passes first.
    pub fn take(&self, deadline: Option<Instant>) -> Option<T::Token> {
        self.enqueue_and_wait(deadline, None)
    }

    /// Like [`take`](Self::take), for tokens whose holders may not need them. `reclaim` finds such tokens and
    /// [puts](Self::put) them back. It is called with no lock held: once when the caller is in the queue, so that
    /// a holder that becomes idle later sees that somebody waits; and now and then while the caller is the first.
    /// `pause` says how long it waits before it checks for that: of how many were before it when it came, and of how often it has
    /// checked.
    pub fn take_with(
        &self,
        deadline: Option<Instant>,
        pause: impl Fn(usize, u32) -> Duration,
        mut reclaim: impl FnMut(),
    ) -> Option<T::Token> {
        self.enqueue_and_wait(deadline, Some(Reclaim { pause: &pause, run: &mut reclaim }))
    }

    fn enqueue_and_wait(
        &self,
        deadline: Option<Instant>,
        reclaim: Option<Reclaim<'_>>,
    ) -> Option<T::Token> {
        if let Some(token) = self.try_take() {
            return Some(token);
        }
        let waiter = Arc::new(Waiter { granted: Mutex::new(None), changed: Condvar::new() });
        let place = {
            let mut queue = lock(&self.queue);
            if queue.is_empty() {
                // The flag is clear here, and giving back a token competes for the same word: either
                // that comes first and the token is seen, or it sees the flag and asks for the lock.
                let mut word = self.word.load(Ordering::Relaxed);
                loop {
                    let (next, taken) = match T::take(word) {
                        Some((rest, token)) => (rest, Some(token)),
                        None => (word | WAITING, None),
                    };
                    // Pairs with `put`.
                    match self.word.compare_exchange_weak(
                        word,
                        next,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) if taken.is_some() => return taken,
                        Ok(_) => break,
                        Err(current) => word = current,
                    }
                }
            }
            queue.push_back(Arc::clone(&waiter));
            queue.len() - 1
        };
        self.await_grant(&waiter, place, deadline, reclaim)
    }

    fn await_grant(
        &self,
        waiter: &Arc<Waiter<T::Token>>,
        place: usize,
        deadline: Option<Instant>,
        mut reclaim: Option<Reclaim<'_>>,
    ) -> Option<T::Token> {
        let mut deadline = deadline;
        let mut checks = 0;
        // Without the locks of the queue and of the waiter: what it puts back may be for this very waiter.
        if let Some(reclaim) = &mut reclaim {
            (reclaim.run)();
        }
        loop {
            let pause_ends =
                reclaim.as_ref().map(|reclaim| Instant::now() + (reclaim.pause)(place, checks));
            let until = match (pause_ends, deadline) {
                (Some(pause_ends), Some(deadline)) => Some(pause_ends.min(deadline)),
                (pause_ends, deadline) => pause_ends.or(deadline),
            };
            let mut granted = lock(&waiter.granted);
            let mut in_time = true;
            while in_time && granted.is_none() {
                (granted, in_time) = wait_until(&waiter.changed, granted, until);
            }
            if let Some(token) = granted.take() {
                return Some(token);
            }
            drop(granted);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                if self.leave(waiter) {
                    return None;
                }
                // Already out of the queue: the token is coming and must not be lost.
                deadline = None;
                reclaim = None;
            }
            if let Some(reclaim) = reclaim.as_mut().filter(|_| self.is_first(waiter)) {
                (reclaim.run)();
            }
            checks = checks.saturating_add(1);
        }
    }

    fn is_first(&self, waiter: &Arc<Waiter<T::Token>>) -> bool {
        lock(&self.queue).front().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    /// Leaves the line; false when a token was already assigned.
    fn leave(&self, waiter: &Arc<Waiter<T::Token>>) -> bool {
        let mut queue = lock(&self.queue);
        let place = queue.iter().position(|other| Arc::ptr_eq(other, waiter));
        if let Some(place) = place {
            queue.remove(place);
            if queue.is_empty() {
                self.word.fetch_and(!WAITING, Ordering::Relaxed);
            }
        }
        place.is_some()
    }

    /// Gives a token back, to the oldest waiter if there is one.
    pub fn put(&self, token: T::Token) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & WAITING == 0 {
                let next = T::put(word, token);
                // Pairs with whoever takes the token from the word. Steps on the flag keep the release sequence;
                // to a waiter the token goes through a lock.
                match self.word.compare_exchange_weak(
                    word,
                    next,
                    Ordering::Release,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return,
                    Err(current) => word = current,
                }
                continue;
            }
            let mut queue = lock(&self.queue);
            if let Some(waiter) = queue.pop_front() {
                if queue.is_empty() {
                    self.word.fetch_and(!WAITING, Ordering::Relaxed);
                }
                drop(queue);
                *lock(&waiter.granted) = Some(token);
                waiter.changed.notify_one();
                return;
            }
            // The last waiter left in the meantime and cleared the flag.
            drop(queue);
            word = self.word.load(Ordering::Relaxed);
        }
    }

    /// Whether somebody waits in line.
    pub fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITING != 0
    }

    /// How many wait in line; for statistics and tests.
    pub fn waiters(&self) -> usize {
        lock(&self.queue).len()
    }

    /// The free tokens as a word; for statistics and tests.
    pub fn free_word(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & !WAITING
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

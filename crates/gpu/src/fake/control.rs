//! Controlling a fake GPU from a test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::memory::Allocation;
use super::{Fake, FakeSegment};
use crate::failure::Failure;

/// The state of a fake GPU, and which failures are planted.
pub(super) struct State {
    /// Memories that are alive.
    allocations: Mutex<HashMap<FakeSegment, Arc<Allocation>>>,
    pub next_segment: AtomicU64,
    pub next_address: AtomicUsize,
    /// Bytes of the device that are allocated.
    pub allocated: AtomicUsize,
    pub replays: AtomicU64,
    /// Whether `orders` has any. As long as it has none, calls read nothing else.
    is_armed: AtomicBool,
    orders: Mutex<Vec<Order>>,
    violations: Mutex<Vec<String>>,
    held: Mutex<bool>,
    released: Condvar,
}

/// A call that is to fail.
struct Order {
    call: &'static str,
    /// How many calls succeed before it fails.
    after: usize,
    /// How often it fails.
    times: usize,
    failure: Failure,
}

impl Default for State {
    fn default() -> Self {
        Self {
            allocations: Mutex::default(),
            next_segment: AtomicU64::new(1),
            // Far away from all memory of the process.
            next_address: AtomicUsize::new(1 << 50),
            allocated: AtomicUsize::new(0),
            replays: AtomicU64::new(0),
            is_armed: AtomicBool::new(false),
            orders: Mutex::default(),
            violations: Mutex::default(),
            held: Mutex::default(),
            released: Condvar::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A call of the platform: fails if a failure is planted.
    pub fn call(&self, call: &'static str) -> Result<(), Failure> {
        if !self.is_armed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut orders = lock(&self.orders);
        let Some(index) = orders.iter().position(|order| order.call == call) else {
            return Ok(());
        };
        let order = &mut orders[index];
        if order.after > 0 {
            order.after -= 1;
            return Ok(());
        }
        let failure = order.failure.clone();
        order.times = order.times.saturating_sub(1);
        if order.times == 0 {
            orders.remove(index);
        }
        Err(failure)
    }

    pub fn add_allocation(&self, segment: FakeSegment, allocation: Arc<Allocation>) {
        lock(&self.allocations).insert(segment, allocation);
    }

    pub fn remove_allocation(&self, segment: FakeSegment) {
        lock(&self.allocations).remove(&segment);
    }

    /// The memory of a segment, if it still exists.
    pub fn allocation(&self, segment: FakeSegment) -> Option<Arc<Allocation>> {
        lock(&self.allocations).get(&segment).cloned()
    }

    pub fn violate(&self, what: String) {
        lock(&self.violations).push(what);
    }

    /// Blocks while the device is held.
    pub fn wait_until_released(&self) {
        let mut held = lock(&self.held);
        while *held {
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Controls a fake GPU.
pub struct FakeControl(Fake);

impl FakeControl {
    pub(super) fn new(platform: Fake) -> Self {
        Self(platform)
    }

    fn state(&self) -> &State {
        &self.0.0.state
    }

    /// Makes a call of [`Platform`](crate::Platform) fail `times` times, after `after` calls that succeed.
    /// `batch` is no call: the device then says of a whole batch that it was not run.
    pub fn fail(&self, call: &'static str, after: usize, times: usize, failure: Failure) {
        let state = self.state();
        lock(&state.orders).push(Order { call, after, times, failure });
        state.is_armed.store(true, Ordering::Release);
    }

    /// Holds all queues: they begin no work until [`release`](Self::release).
    pub fn hold(&self) {
        *lock(&self.state().held) = true;
    }

    /// Lets the queues continue.
    pub fn release(&self) {
        *lock(&self.state().held) = false;
        self.state().released.notify_all();
    }

    /// Launches of captured lists so far.
    pub fn replays(&self) -> u64 {
        self.state().replays.load(Ordering::Relaxed)
    }

    /// Living allocations, of the device and of the host.
    pub fn allocations(&self) -> usize {
        lock(&self.state().allocations).len()
    }

    /// Launches that named memory that was freed or too small.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.state().violations).clone()
    }
}

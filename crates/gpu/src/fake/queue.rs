//! Queues of a fake GPU: threads that do their work in order.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use millstream_kernels::{FAULT_HEADER_WORDS, Key, fault_record_bytes};

use super::execute::{Executor, Place};
use super::{Fake, FakeHostMemory, FakeMemory, FakeProduct};
use crate::failure::Failure;
use crate::lowering::Item;
use crate::memory::Page;
use crate::platform::{Binding, Memory};

/// One piece of work.
#[derive(Clone)]
pub(super) enum Work {
    Kernel {
        key: Key,
        places: Box<[Place]>,
        params: Box<[u64]>,
    },
    Product(Box<FakeProduct>),
    Copy {
        target: Place,
        source: Place,
        bytes: usize,
    },
    Time(Place),
    Finish,
    /// Another queue waits for all work before this point.
    Record(Arc<Event>),
    Wait(Arc<Event>),
}

impl Work {
    /// The work of an item of a list. A copy that finishes a batch is one piece of work.
    pub fn from_item(item: &Item<'_, Fake>) -> Vec<Work> {
        match *item {
            Item::Kernel { kernel, bindings, params, .. } => {
                let (places, params) = (bindings.into(), params.into());
                vec![Work::Kernel { key: kernel.0, places, params }]
            }
            Item::Product(product) => vec![Work::Product(Box::new(*product))],
            Item::Copy { target, source, bytes } => vec![Work::Copy { target, source, bytes }],
            Item::Time { target } => vec![Work::Time(target)],
            Item::Finish => vec![Work::Finish],
            Item::CopyAndFinish { target, source, bytes } => {
                vec![Work::Copy { target, source, bytes }, Work::Finish]
            }
        }
    }
}

/// A point in the work of a queue that other queues wait for.
#[derive(Default)]
pub(super) struct Event {
    passed: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn record(&self) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        while !*passed {
            passed = self.changed.wait(passed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A captured launch list: what each item is, and whether it waits for those before it.
pub struct FakeCaptured(pub(super) Vec<(bool, Vec<Work>)>);

/// Puts the launches of a list into an order that the list allows.
pub(super) struct AnyOrder {
    done: Vec<Work>,
    /// What may run in any order.
    run: Vec<Work>,
    draws: TimeLost,
}

impl AnyOrder {
    pub fn new(seed: u64) -> Self {
        Self { done: Vec::new(), run: Vec::new(), draws: TimeLost(seed) }
    }

    pub fn add(&mut self, waits: bool, work: impl IntoIterator<Item = Work>) {
        if waits {
            self.end_run();
        }
        for work in work {
            if matches!(work, Work::Finish) {
                self.end_run();
                self.done.push(work);
            } else {
                self.run.push(work);
            }
        }
    }

    fn end_run(&mut self) {
        for last in (1..self.run.len()).rev() {
            self.run.swap(last, (self.draws.next() >> 32) as usize % (last + 1));
        }
        self.done.append(&mut self.run);
    }

    pub fn finish(mut self) -> Vec<Work> {
        self.end_run();
        self.done
    }
}

/// A seed of its own for a number; 0 stays 0.
pub(super) fn seed(seed: u64, number: u64) -> u64 {
    if seed == 0 { 0 } else { seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number) | 1 }
}

/// A queue of a fake GPU.
pub struct FakeQueue(Arc<Shared>);

/// The thread of a queue. When this is dropped, the thread finishes its work and ends.
pub struct FakeEncoder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
    page: Page<FakeHostMemory>,
    fault_record: FakeMemory,
    /// Batches that were not run, by tick.
    failed: Mutex<HashMap<u64, Failure>>,
}

#[derive(Default)]
struct Pending {
    work: VecDeque<Work>,
    stop: bool,
}

/// A queue and its thread.
pub(super) fn new(platform: &Fake, commands: usize) -> Result<(FakeQueue, FakeEncoder), Failure> {
    let page = FakeHostMemory::new(platform, Page::<FakeHostMemory>::bytes(commands))?;
    let fault_record = FakeMemory::new(platform, fault_record_bytes(commands))?;
    let shared = Arc::new(Shared {
        pending: Mutex::default(),
        changed: Condvar::new(),
        page: Page::new(page, commands),
        fault_record,
        failed: Mutex::default(),
    });
    let number = platform.0.queues.fetch_add(1, Ordering::Relaxed) as u64;
    let time_lost = TimeLost(seed(platform.0.options.seed, number));
    let executor = Executor { platform: platform.clone(), time_lost };
    // Nothing is launched yet: a fault record begins as zeros.
    executor.zero(record(&shared), fault_record_bytes(commands));
    let own = Arc::clone(&shared);
    let builder = std::thread::Builder::new().name("fake gpu queue".into());
    let thread = builder
        .spawn(move || own.run(executor))
        .map_err(|error| Failure::new("new_queue", "NO_THREAD", error.to_string()))?;
    let encoder = FakeEncoder { shared: Arc::clone(&shared), thread: Some(thread) };
    Ok((FakeQueue(shared), encoder))
}

fn record(shared: &Shared) -> Place {
    Binding { segment: shared.fault_record.segment(), offset: 0 }
}

impl FakeQueue {
    pub(super) fn push(&self, work: impl IntoIterator<Item = Work>) {
        let mut pending = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.work.extend(work);
        self.0.changed.notify_one();
    }

    pub(super) fn page(&self) -> &Page<FakeHostMemory> {
        &self.0.page
    }

    pub(super) fn failure(&self, tick: u64) -> Option<Failure> {
        self.0.failed.lock().unwrap_or_else(PoisonError::into_inner).get(&tick).cloned()
    }

    pub(super) fn fault_record(&self) -> Place {
        record(&self.0)
    }
}

impl Shared {
    /// The next piece of work; `None` if nothing is left and the thread must end.
    fn next(&self) -> Option<Work> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(work) = pending.work.pop_front() {
                return Some(work);
            }
            if pending.stop {
                return None;
            }
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, mut executor: Executor) {
        let mut completed = 0;
        while let Some(work) = self.next() {
            executor.platform.0.state.wait_until_released();
            executor.time_lost.lose_some();
            match work {
                Work::Record(event) => event.record(),
                Work::Wait(event) => event.wait(),
                Work::Finish => {
                    completed += 1;
                    if let Err(failure) = executor.platform.0.state.call("batch") {
                        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.insert(completed, failure);
                    }
                    let bytes = fault_record_bytes(self.page.commands());
                    let codes = executor.words(record(self), bytes);
                    let faulted = codes.first().is_some_and(|first| *first != 0);
                    if faulted {
                        executor.zero(record(self), bytes);
                    }
                    let faults = faulted.then(|| &codes[FAULT_HEADER_WORDS..]);
                    self.page.complete(completed, faults);
                }
                Work::Kernel { key, places, params } => executor.kernel(&key, &places, &params),
                Work::Product(product) => executor.product(&product.0),
                Work::Copy { target, source, bytes } => executor.copy(target, source, bytes),
                Work::Time(target) => executor.time(target),
            }
        }
    }
}

impl Drop for FakeEncoder {
    fn drop(&mut self) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, work is undone, which tests notice.
            let _ = thread.join();
        }
    }
}

/// Loses time as a seed says.
pub(super) struct TimeLost(u64);

impl TimeLost {
    /// The next number of a sequence, by xorshift; always 0 if the seed is 0.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn lose_some(&mut self) {
        let draw = self.next() >> 32;
        // Usually little; now and then so much that other queues overtake this one.
        let yields = if draw.is_multiple_of(16) { draw % 64 } else { draw % 4 };
        for _ in 0..yields {
            std::thread::yield_now();
        }
    }
}

//! The simulated device, behind one lock. It is a tool for tests and need not be fast.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use super::arenas::Arenas;
use super::host::{self, HostMemory};
use super::order::{Accesses, Clock, MemoryAccess, join};
use crate::command::Access;
use crate::{Batch, Error, Fault, HostPool, MAX_STREAMS, Progress, Result};

pub(super) struct Shared {
    pub memory_bytes: usize,
    in_flight_cap: usize,
    pub host: HostPool<HostMemory>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub queues: BTreeMap<u32, QueueState>,
    accesses: Accesses,
    arenas: Arenas,
    /// Live segments, by address.
    segments: BTreeMap<usize, usize>,
    next_address: usize,
    pub memory_taken: usize,
    pub violations: Vec<String>,
    pub faults: Faults,
    pub submits: u64,
    pub closed: bool,
    pub at_next_queue: Option<Box<dyn FnOnce() + Send>>,
    pub at_next_wait: Option<Box<dyn FnOnce() + Send>>,
    /// Streams whose tasks must be woken after the lock is released.
    advanced: Vec<Arc<Progress>>,
    random: u64,
}

pub(super) struct QueueState {
    pub progress: Arc<Progress>,
    pub submitted: u64,
    pub hung: bool,
    pub submitting: bool,
    pending: VecDeque<Pending>,
    /// The clock after each batch, for waits; kept while the test runs.
    history: Vec<(u64, Clock)>,
}

struct Pending {
    batch: Batch,
    /// Why the batch does not run, if it was refused.
    refused: Option<Fault>,
}

/// The faults that a test has asked for.
#[derive(Default)]
pub(super) struct Faults {
    /// Submits left until one is refused.
    pub refuse_submit_in: Option<u64>,
    /// Submits left until the device is lost.
    pub lose_in: Option<u64>,
    pub lost: Option<Error>,
    /// Commands that fail when they run: stream and sequence number.
    pub failing: Vec<(u32, u64)>,
    /// Allocations left until there is no memory.
    pub no_memory_in: Option<u64>,
}

fn countdown(counter: &mut Option<u64>) -> bool {
    match counter {
        Some(0) => true,
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

impl Shared {
    pub fn new(memory_bytes: usize, in_flight_cap: usize, seed: u64) -> Self {
        let state = State { next_address: 1 << 20, random: seed | 1, ..State::default() };
        let host = HostPool::new(host::BOUNDS);
        Self { memory_bytes, in_flight_cap, host, state: Mutex::new(state) }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Finishes one batch of any stream that can advance, and wakes the tasks that wait for it. Returns false if no
    /// stream can.
    pub fn step(&self) -> bool {
        let (moved, advanced) = {
            let mut state = self.lock();
            (state.step(), std::mem::take(&mut state.advanced))
        };
        advanced.iter().for_each(|progress| progress.wake_tasks());
        moved
    }

    pub fn allocate(&self, bytes: usize) -> Option<usize> {
        let mut state = self.lock();
        if countdown(&mut state.faults.no_memory_in)
            || state.memory_taken + bytes > self.memory_bytes
        {
            return None;
        }
        let address = state.next_address;
        // Addresses are never reused and have gaps between them, so that a stray operand is noticed.
        state.next_address += bytes.next_multiple_of(256) + 4096;
        state.segments.insert(address, bytes);
        state.memory_taken += bytes;
        Some(address)
    }

    pub fn free(&self, address: usize) {
        let mut state = self.lock();
        let bytes = state.segments.remove(&address).unwrap_or(0);
        state.memory_taken -= bytes;
        if let Some(access) = state.accesses.within(&(address..address + bytes)).cloned()
            && !state.is_finished(access.stream, access.sequence)
        {
            state.violations.push(format!(
                "memory freed while stream {} may use it at {}",
                access.stream, access.sequence
            ));
        }
    }

    pub fn add_queue(&self, stream: u32, progress: Arc<Progress>) {
        let queue = QueueState {
            progress,
            submitted: 0,
            hung: false,
            submitting: false,
            pending: VecDeque::new(),
            history: Vec::new(),
        };
        if self.lock().queues.insert(stream, queue).is_some() {
            self.lock().violations.push(format!("stream {stream} got two queues"));
        }
    }

    pub fn submit(&self, stream: u32, batch: Batch) -> Result<()> {
        let mut state = self.lock();
        let state = &mut *state;
        state.submits += 1;
        if let Some(lost) = &state.faults.lost {
            return Err(lost.clone());
        }
        if countdown(&mut state.faults.lose_in) {
            let lost = Error::DeviceLost { device: "fake".into(), reason: "planted".into() };
            state.faults.lost = Some(lost.clone());
            return Err(lost);
        }
        let refused = countdown(&mut state.faults.refuse_submit_in).then(|| {
            state.faults.refuse_submit_in = None;
            Fault::new(batch.fault(stream, 0, "submit refused"))
        });
        state.check_protocol(stream, &batch, self.in_flight_cap);
        let clock = state.clock_of(stream, &batch);
        let queue = state.queues.get_mut(&stream).expect("a queue was made for the stream");
        queue.submitted = batch.last;
        queue.history.push((batch.last, clock));
        state.check_accesses(stream, &batch, &clock);
        let wrong = state.arenas.check(stream, &batch);
        state.violations.extend(wrong);
        let queue = state.queues.get_mut(&stream).expect("a queue was made for the stream");
        queue.pending.push_back(Pending { batch, refused });
        Ok(())
    }
}

impl State {
    fn is_finished(&self, stream: u32, sequence: u64) -> bool {
        self.queues.get(&stream).is_none_or(|queue| queue.progress.passed(sequence))
    }

    fn check_protocol(&mut self, stream: u32, batch: &Batch, in_flight_cap: usize) {
        let queue = &self.queues[&stream];
        let mut wrong = Vec::new();
        if self.closed {
            wrong.push("submit to a closed device".into());
        }
        if batch.commands.is_empty() || batch.last - batch.first + 1 != batch.commands.len() as u64
        {
            wrong.push(format!(
                "batch {}..={} has {} commands",
                batch.first,
                batch.last,
                batch.commands.len()
            ));
        }
        if batch.first <= queue.submitted {
            wrong.push(format!("batch from {} after {}", batch.first, queue.submitted));
        }
        let unfinished = queue
            .pending
            .iter()
            .filter(|pending| !queue.progress.passed(pending.batch.last))
            .count();
        if unfinished >= in_flight_cap {
            wrong.push(format!("{unfinished} batches in flight, {in_flight_cap} allowed"));
        }
        for wait in &batch.waits {
            let known = self.queues.get(&wait.stream).map_or(0, |other| other.submitted);
            if wait.stream == stream || wait.sequence > known {
                wrong.push(format!("stream {stream} waits for unsubmitted {wait:?}"));
            }
        }
        self.violations.append(&mut wrong);
    }

    /// Nothing may be in flight: what a queue is made of may serve another one from here on.
    pub fn close(&mut self) {
        self.closed = true;
        for (stream, queue) in &self.queues {
            if let Some(pending) = queue.pending.back() {
                let last = pending.batch.last;
                self.violations.push(format!("stream {stream} is closed with {last} in flight"));
            }
        }
    }

    fn completed(&self) -> Clock {
        let mut completed = [0; MAX_STREAMS as usize];
        for (&stream, queue) in &self.queues {
            completed[stream as usize] = queue.progress.completed();
        }
        completed
    }

    /// Everything that certainly comes before a batch that is submitted now.
    fn clock_of(&self, stream: u32, batch: &Batch) -> Clock {
        let mut clock = self.completed();
        if let Some((_, previous)) = self.queues[&stream].history.last() {
            join(&mut clock, previous);
        }
        for wait in &batch.waits {
            let Some(other) = self.queues.get(&wait.stream) else { continue };
            let reached = other.history.iter().find(|(last, _)| *last >= wait.sequence);
            if let Some((_, past)) = reached {
                join(&mut clock, past);
            }
            let entry = &mut clock[wait.stream as usize];
            *entry = (*entry).max(wait.sequence);
        }
        clock[stream as usize] = batch.last;
        clock
    }

    fn check_accesses(&mut self, stream: u32, batch: &Batch, clock: &Clock) {
        let queues = &self.queues;
        self.accesses.forget(|access| queues[&access.stream].progress.passed(access.sequence));
        for (sequence, command) in (batch.first..).zip(&batch.commands) {
            for (access, operand) in command.accesses() {
                let (start, end) = (operand.layout.start_bytes(), operand.layout.extent_bytes());
                if start >= end {
                    continue;
                }
                let range = operand.buffer.address + start..operand.buffer.address + end;
                let segment = self.segments.range(..=range.start).next_back();
                if segment.is_none_or(|(address, bytes)| range.end > address + bytes) {
                    self.violations.push(format!(
                        "{} on stream {stream} uses {range:x?}, which is not allocated",
                        command.op().name()
                    ));
                }
                let access =
                    MemoryAccess { range, stream, sequence, write: access == Access::Write };
                if let Some(other) = self.accesses.add(access.clone(), clock) {
                    self.violations.push(format!(
                        "{} on stream {stream} at {sequence} races with stream {} at {} for {:x?}",
                        command.op().name(),
                        other.stream,
                        other.sequence,
                        access.range
                    ));
                }
            }
        }
    }

    /// Finishes one batch of any stream that can advance. Returns false if no stream can. The caller must wake its
    /// tasks.
    pub fn step(&mut self) -> bool {
        if self.faults.lost.is_some() {
            return false;
        }
        let ready: Vec<u32> = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.hung)
            .filter_map(|(&stream, queue)| Some((stream, queue.pending.front()?)))
            .filter(|(_, pending)| {
                let mut waits = pending.batch.waits.iter();
                waits.all(|wait| self.is_finished(wait.stream, wait.sequence))
            })
            .map(|(stream, _)| stream)
            .collect();
        if ready.is_empty() {
            return false;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let stream = ready[(self.random % ready.len() as u64) as usize];
        self.finish_front(stream);
        true
    }

    fn finish_front(&mut self, stream: u32) {
        let queue = self.queues.get_mut(&stream).expect("known stream");
        let Pending { batch, refused } = queue.pending.pop_front().expect("a batch is pending");
        let failing = &mut self.faults.failing;
        batch.resolve(&queue.progress, |index| {
            let sequence = batch.first + index as u64;
            let planted = failing.iter().position(|&fault| fault == (stream, sequence));
            let planted = planted.map(|index| failing.swap_remove(index));
            let fault = planted.map(|_| Fault::new(batch.fault(stream, index, "planted")));
            refused.clone().or(fault)
        });
        let last = batch.last;
        let progress = Arc::clone(&queue.progress);
        progress.recycle(batch);
        progress.advance(last);
        self.advanced.push(progress);
    }
}

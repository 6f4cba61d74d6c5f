//! Command buffers.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::buffer::Buffer;
use super::counters::{PassDescriptor, SampleBuffer};
use super::encoder::{Encoder, Kind};
use super::event::SharedEvent;
use super::lock;
use super::pass::Pass;
use super::queue::Queue;
use super::residency::ResidencySet;
use crate::control::{self, Refusal};
use crate::foundation::{Any, Error};
use crate::gpu::Jitter;
use crate::objc::{Block, BlockRef, Id, Raw, Sel, This, autoreleased, class, method, new};
use crate::own_time;
use crate::rules::{Rule, violation};

/// `MTLCommandBufferStatus`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(usize)]
pub enum Status {
    #[default]
    NotEnqueued = 0,
    Committed = 2,
    Scheduled = 3,
    Completed = 4,
    Failed = 5,
}

/// What a command buffer has in order.
pub enum Op {
    Pass(Pass),
    Wait(Id<SharedEvent>, u64),
    Signal(Id<SharedEvent>, u64),
}

/// `MTLCommandBuffer`.
pub struct Commands {
    pub queue: Id<Queue>,
    retains: bool,
    /// The thread that is inside a method, as a number.
    user: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    status: Status,
    ops: Vec<Op>,
    open: bool,
    handlers: Vec<BlockRef>,
    scheduled: Vec<BlockRef>,
    error: Option<Id<Error>>,
    start: f64,
    end: f64,
    /// What it uses, by address: how many command buffers do, and the object itself if it retains it.
    used: HashMap<usize, (Arc<AtomicUsize>, Option<Any>)>,
    /// Those that are buffers.
    buffers: HashSet<usize>,
    sets: Vec<Id<ResidencySet>>,
}

class!(
    /// The class of command buffers.
    COMMANDS, "MillstreamCommandBuffer", Commands,
    [
        method!(c"computeCommandEncoder", c"@@:", compute, fn(This<Commands>, Sel) -> Raw),
        method!(c"computeCommandEncoderWithDispatchType:", c"@@:Q", compute_of, fn(This<Commands>, Sel, usize) -> Raw),
        method!(c"computeCommandEncoderWithDescriptor:", c"@@:@", compute_with, fn(This<Commands>, Sel, This<PassDescriptor>) -> Raw),
        method!(c"blitCommandEncoder", c"@@:", blit, fn(This<Commands>, Sel) -> Raw),
        method!(c"encodeSignalEvent:value:", c"v@:@Q", signal, fn(This<Commands>, Sel, This<SharedEvent>, u64)),
        method!(c"encodeWaitForEvent:value:", c"v@:@Q", wait_for, fn(This<Commands>, Sel, This<SharedEvent>, u64)),
        method!(c"addCompletedHandler:", c"v@:@?", add_handler, fn(This<Commands>, Sel, *mut Block)),
        method!(c"addScheduledHandler:", c"v@:@?", add_scheduled, fn(This<Commands>, Sel, *mut Block)),
        method!(c"useResidencySet:", c"v@:@", use_set, fn(This<Commands>, Sel, This<ResidencySet>)),
        method!(c"commit", c"v@:", commit, fn(This<Commands>, Sel)),
        method!(c"enqueue", c"v@:", enqueue, fn(This<Commands>, Sel)),
        method!(c"waitUntilCompleted", c"v@:", wait_completed, fn(This<Commands>, Sel)),
        method!(c"waitUntilScheduled", c"v@:", wait_scheduled, fn(This<Commands>, Sel)),
        method!(c"status", c"Q@:", status, fn(This<Commands>, Sel) -> usize),
        method!(c"error", c"@@:", error, fn(This<Commands>, Sel) -> Raw),
        method!(c"retainedReferences", c"C@:", retained_references, fn(This<Commands>, Sel) -> bool),
        method!(c"GPUStartTime", c"d@:", start_time, fn(This<Commands>, Sel) -> f64),
        method!(c"GPUEndTime", c"d@:", end_time, fn(This<Commands>, Sel) -> f64),
    ]
);

impl Commands {
    pub fn new(queue: Id<Queue>, retains: bool) -> Self {
        Self {
            queue,
            retains,
            user: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether the calling thread may encode now: one thread at a time, and not after the commit.
    pub fn enter(&self, call: &str) -> Option<Entered<'_>> {
        let me = thread_number();
        if self.user.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            violation(
                Rule::CommandBufferShared,
                format_args!("{call} while another thread is inside"),
            );
            return None;
        }
        let entered = Entered(self);
        if lock(&self.state).status >= Status::Committed {
            violation(Rule::AfterCommit, format_args!("{call} after the commit"));
            return None;
        }
        Some(entered)
    }

    /// Notes that it uses a buffer.
    pub fn use_buffer(&self, buffer: This<Buffer>) {
        lock(&self.state).buffers.insert(buffer.address());
        self.use_object(buffer.address(), &buffer.in_flight, || Any::from(buffer.retain()));
    }

    /// Notes that it uses a buffer that only an indirect command names: it is not retained.
    pub fn note_buffer(&self, address: usize, in_flight: &Arc<AtomicUsize>) {
        lock(&self.state).buffers.insert(address);
        self.note_use(address, in_flight);
    }

    /// Notes that it uses something that it does not retain.
    pub fn note_use(&self, address: usize, in_flight: &Arc<AtomicUsize>) {
        if let Entry::Vacant(place) = lock(&self.state).used.entry(address) {
            in_flight.fetch_add(1, Ordering::AcqRel);
            place.insert((Arc::clone(in_flight), None));
        }
    }

    /// Whether residency sets say what is resident.
    pub fn has_residency(&self) -> bool {
        !lock(&self.state).sets.is_empty() || self.queue.has_residency()
    }

    /// Notes that it uses something that must live until it is through.
    pub fn use_object(
        &self,
        address: usize,
        in_flight: &Arc<AtomicUsize>,
        retain: impl FnOnce() -> Any,
    ) {
        let mut state = lock(&self.state);
        if let Entry::Vacant(place) = state.used.entry(address) {
            in_flight.fetch_add(1, Ordering::AcqRel);
            place.insert((Arc::clone(in_flight), self.retains.then(retain)));
        }
    }

    /// An encoder is through.
    pub fn end_pass(&self, pass: Pass) {
        let mut state = lock(&self.state);
        state.ops.push(Op::Pass(pass));
        state.open = false;
    }

    /// An encoder went without an end.
    pub fn abandon_encoder(&self) {
        lock(&self.state).open = false;
    }

    pub fn take_ops(&self) -> Vec<Op> {
        std::mem::take(&mut lock(&self.state).ops)
    }

    /// The queue takes it up.
    pub fn begin(this: &Id<Self>) {
        let mut state = lock(&this.state);
        (state.status, state.start) = (Status::Scheduled, super::now());
        let handlers = std::mem::take(&mut state.scheduled);
        drop(state);
        this.changed.notify_all();
        call_handlers(this, handlers);
    }

    /// Another object that says the same.
    fn layer(&self) -> Id<Self> {
        let state = lock(&self.state);
        let layer = Self::new(self.queue.clone(), self.retains);
        let State { status, start, end, .. } = *state;
        *lock(&layer.state) =
            State { status, start, end, error: state.error.clone(), ..State::default() };
        new(layer)
    }

    /// Its handlers, which are not called later then.
    pub fn take_handlers(&self) -> Vec<BlockRef> {
        std::mem::take(&mut lock(&self.state).handlers)
    }

    /// It is through. Its handlers are the queue's to call, later.
    pub fn finish(&self, error: Option<Id<Error>>) -> Vec<BlockRef> {
        let mut state = lock(&self.state);
        state.status = if error.is_some() { Status::Failed } else { Status::Completed };
        (state.error, state.end) = (error, super::now());
        // What it used may go from now on. The event that it signaled came before.
        let used = std::mem::take(&mut state.used);
        for (in_flight, _) in used.values() {
            in_flight.fetch_sub(1, Ordering::AcqRel);
        }
        let handlers = std::mem::take(&mut state.handlers);
        drop(state);
        self.changed.notify_all();
        handlers
    }

    fn encoder(
        this: This<Self>,
        call: &str,
        kind: Kind,
        samples: Option<(Id<SampleBuffer>, [usize; 2])>,
    ) -> Raw {
        if control::refused(Refusal::Encoder) {
            return std::ptr::null_mut();
        }
        let Some(_entered) = this.enter(call) else { return std::ptr::null_mut() };
        let mut state = lock(&this.state);
        if state.open {
            violation(Rule::SecondEncoder, format_args!("{call} while an encoder is open"));
            return std::ptr::null_mut();
        }
        state.open = true;
        drop(state);
        autoreleased(Some(new(Encoder::new(this.retain(), kind, samples))))
    }

    fn event(&self, call: &str, op: Op) {
        let Some(_entered) = self.enter(call) else { return };
        let mut state = lock(&self.state);
        if state.open {
            violation(Rule::EventInsideEncoder, format_args!("{call} while an encoder is open"));
            return;
        }
        state.ops.push(op);
    }

    fn wait(&self, least: Status) {
        let mut state = lock(&self.state);
        if state.status < Status::Committed {
            violation(Rule::WaitBeforeCommit, "a wait that would never end");
            return;
        }
        while state.status < least {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let state = lock(&self.state);
        if state.status < Status::Committed {
            for (in_flight, _) in state.used.values() {
                in_flight.fetch_sub(1, Ordering::AcqRel);
            }
            self.queue.give_back_place();
        }
    }
}

/// A thread inside a method of a command buffer.
pub struct Entered<'a>(&'a Commands);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.user.store(0, Ordering::Release);
    }
}

fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

/// Calls handlers on this thread, which has no lock.
pub fn call_handlers(commands: &Id<Commands>, handlers: Vec<BlockRef>) {
    let layer = control::layered().then(|| commands.layer());
    let commands = layer.as_ref().unwrap_or(commands);
    for block in handlers {
        type Handler = unsafe extern "C" fn(*mut Block, This<Commands>);
        // SAFETY: a block of this signature, as `addCompletedHandler` takes it.
        unsafe {
            let call = std::mem::transmute::<*const (), Handler>(block.invoke());
            own_time::of_caller(|| call(block.as_ptr(), commands.this()));
        }
    }
}

unsafe extern "C" fn compute(this: This<Commands>, sel: Sel) -> Raw {
    Commands::encoder(this, sel.name(), Kind::Serial, None)
}

unsafe extern "C" fn compute_of(this: This<Commands>, sel: Sel, dispatch_type: usize) -> Raw {
    Commands::encoder(
        this,
        sel.name(),
        if dispatch_type == 1 { Kind::Concurrent } else { Kind::Serial },
        None,
    )
}

unsafe extern "C" fn compute_with(
    this: This<Commands>,
    sel: Sel,
    descriptor: This<PassDescriptor>,
) -> Raw {
    let concurrent = descriptor.concurrent.load(Ordering::Relaxed);
    let kind = if concurrent { Kind::Concurrent } else { Kind::Serial };
    Commands::encoder(this, sel.name(), kind, descriptor.samples())
}

unsafe extern "C" fn blit(this: This<Commands>, sel: Sel) -> Raw {
    Commands::encoder(this, sel.name(), Kind::Blit, None)
}

unsafe extern "C" fn signal(this: This<Commands>, sel: Sel, event: This<SharedEvent>, value: u64) {
    this.event(sel.name(), Op::Signal(event.retain(), value));
}

unsafe extern "C" fn wait_for(
    this: This<Commands>,
    sel: Sel,
    event: This<SharedEvent>,
    value: u64,
) {
    this.event(sel.name(), Op::Wait(event.retain(), value));
}

unsafe extern "C" fn add_handler(this: This<Commands>, sel: Sel, block: *mut Block) {
    let Some(_entered) = this.enter(sel.name()) else { return };
    // SAFETY: the caller passes a block.
    lock(&this.state).handlers.extend(unsafe { BlockRef::copy(block) });
}

unsafe extern "C" fn add_scheduled(this: This<Commands>, sel: Sel, block: *mut Block) {
    let Some(_entered) = this.enter(sel.name()) else { return };
    // SAFETY: the caller passes a block.
    lock(&this.state).scheduled.extend(unsafe { BlockRef::copy(block) });
}

unsafe extern "C" fn use_set(this: This<Commands>, sel: Sel, set: This<ResidencySet>) {
    let Some(_entered) = this.enter(sel.name()) else { return };
    lock(&this.state).sets.push(set.retain());
}

unsafe extern "C" fn commit(this: This<Commands>, sel: Sel) {
    // Another thread may commit first.
    Jitter::new().pause();
    let Some(entered) = this.enter(sel.name()) else { return };
    let mut state = lock(&this.state);
    if state.open {
        violation(Rule::CommitWithEncoder, "commit while an encoder is open");
        state.open = false;
    }
    this.queue.check_residency(&state.sets, state.buffers.iter().copied());
    state.status = Status::Committed;
    control::count_commit();
    drop((state, entered));
    this.queue.commit(this.retain());
}

unsafe extern "C" fn enqueue(_: This<Commands>, _: Sel) {}

unsafe extern "C" fn wait_completed(this: This<Commands>, _: Sel) {
    this.wait(Status::Completed);
}

unsafe extern "C" fn wait_scheduled(this: This<Commands>, _: Sel) {
    this.wait(Status::Scheduled);
}

unsafe extern "C" fn status(this: This<Commands>, _: Sel) -> usize {
    lock(&this.state).status as usize
}

unsafe extern "C" fn error(this: This<Commands>, _: Sel) -> Raw {
    autoreleased(lock(&this.state).error.clone())
}

unsafe extern "C" fn retained_references(this: This<Commands>, _: Sel) -> bool {
    this.retains
}

unsafe extern "C" fn start_time(this: This<Commands>, _: Sel) -> f64 {
    lock(&this.state).start
}

unsafe extern "C" fn end_time(this: This<Commands>, _: Sel) -> f64 {
    lock(&this.state).end
}

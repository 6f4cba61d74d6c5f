//! Command queues: two threads each, which start passes as soon as Metal's rules allow it.
//!
//! Command buffers are taken up in the order of their commits. A pass waits for earlier passes of the queue only where
//! a fence, or memory that Metal tracks, orders them; otherwise it may run beside them. A wait for an event holds up
//! everything behind it. A signal comes when the passes before it in its own command buffer are through, which is
//! before the command buffer is. Command buffers complete in order, and handlers are called later still, on a third
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::commands::{Commands, Op, call_handlers};
use super::event::SharedEvent;
use super::lock;
use super::residency::{Residency, ResidencySet};
use super::schedule::{Failure, Running, Stage, State, Work};
use crate::control::{self, CommandBufferError, Fault, Refusal};
use crate::deviations::{Deviation, deviates, watchdog};
use crate::foundation::{Error, leave_temporary};
use crate::gpu::Jitter;
use crate::objc::{BlockRef, Id, Raw, Sel, This, autoreleased, class, method, new};
use crate::rules::{Rule, violation};

/// `MTLCommandQueue`.
pub struct Queue {
    shared: Arc<Shared>,
    cap: usize,
    sets: Mutex<Vec<Id<ResidencySet>>>,
}

class!(
    /// The class of command queues.
    QUEUE, "MillstreamCommandQueue", Queue,
    [
        method!(c"commandBuffer", c"@@:", command_buffer, fn(This<Queue>, Sel) -> Raw),
        method!(c"commandBufferWithUnretainedReferences", c"@@:", unretained, fn(This<Queue>, Sel) -> Raw),
        method!(c"addResidencySet:", c"v@:@", add_set, fn(This<Queue>, Sel, This<ResidencySet>)),
        method!(c"removeResidencySet:", c"v@:@", remove_set, fn(This<Queue>, Sel, This<ResidencySet>)),
    ]
);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    pub fn make(cap: usize) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (handlers, calls) = channel();
        for _ in 0..2 {
            let (shared, handlers) = (Arc::clone(&shared), handlers.clone());
            std::thread::spawn(move || run(&shared, &handlers));
        }
        std::thread::spawn(move || call_late(&calls));
        Self { shared, cap, sets: Mutex::default() }
    }

    /// A command buffer that was never committed is gone.
    pub fn give_back_place(&self) {
        lock(&self.shared.state).outstanding -= 1;
        self.shared.changed.notify_all();
    }

    pub fn commit(&self, commands: Id<Commands>) {
        if control::at_once() {
            return self.run_at_once(&commands);
        }
        let mut state = lock(&self.shared.state);
        state.commit(commands);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Runs a command buffer on this thread, in the order of what was encoded.
    fn run_at_once(&self, commands: &Id<Commands>) {
        let mut jitter = Jitter::new();
        Commands::begin(commands);
        for op in commands.take_ops() {
            match op {
                Op::Pass(pass) => pass.run(&mut jitter),
                Op::Signal(event, value) => SharedEvent::set(&event, value),
                Op::Wait(event, value) => {
                    while event.value() < value {
                        std::thread::yield_now();
                    }
                }
            }
        }
        let handlers = commands.finish(None);
        self.give_back_place();
        call_handlers(commands, handlers);
    }

    pub fn has_residency(&self) -> bool {
        !lock(&self.sets).is_empty()
    }

    /// Where a queue has residency sets, everything that is used must be in one.
    pub fn check_residency(&self, own: &[Id<ResidencySet>], used: impl Iterator<Item = usize>) {
        let sets = lock(&self.sets);
        if sets.is_empty() && own.is_empty() {
            return;
        }
        for buffer in used {
            let mut pending = false;
            let resident = sets.iter().chain(own).any(|set| match set.look_up(buffer) {
                Residency::Resident => true,
                Residency::Pending => {
                    pending = true;
                    false
                }
                Residency::Absent => false,
            });
            if !resident {
                let rule = if pending { Rule::ResidencyNotCommitted } else { Rule::NotResident };
                violation(
                    rule,
                    "a command buffer uses a buffer that is in no committed residency set",
                );
            }
        }
    }

    fn new_commands(this: This<Self>, retains: bool) -> Raw {
        if control::refused(Refusal::CommandBuffer) {
            return std::ptr::null_mut();
        }
        let until = Instant::now() + control::queue_timeout();
        let mut state = lock(&this.shared.state);
        while state.outstanding >= this.cap && !deviates(Deviation::NeverBlocks) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                violation(
                    Rule::QueueFull,
                    format_args!("{} command buffers exist, and none completes", this.cap),
                );
                return std::ptr::null_mut();
            }
            state = wait(&this.shared, state, Some(left));
        }
        state.outstanding += 1;
        drop(state);
        autoreleased(Some(new(Commands::new(this.retain(), retains))))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.changed.notify_all();
    }
}

fn wait<'a>(
    shared: &Shared,
    state: MutexGuard<'a, State>,
    time: Option<Duration>,
) -> MutexGuard<'a, State> {
    let changed = &shared.changed;
    match time {
        Some(time) => {
            changed.wait_timeout(state, time).unwrap_or_else(|poisoned| poisoned.into_inner()).0
        }
        None => changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
    }
}

fn run(shared: &Shared, handlers: &Sender<(Id<Commands>, Vec<BlockRef>)>) {
    let mut jitter = Jitter::new();
    let mut state = lock(&shared.state);
    loop {
        match state.next() {
            Work::Pass(number, pass) => {
                drop(state);
                let start = Instant::now();
                pass.run(&mut jitter);
                drop(pass);
                let too_long = watchdog().is_some_and(|time| start.elapsed() > time);
                state = lock(&shared.state);
                state.set_done(number);
                if too_long {
                    state.time_out(number);
                }
            }
            Work::Begin(commands) => {
                drop(state);
                begin(shared, &commands, &mut jitter);
                // The last reference takes the queue with it, which needs the lock.
                drop(commands);
                state = lock(&shared.state);
            }
            Work::Signal(number, event, value) => {
                drop(state);
                jitter.pause();
                SharedEvent::set(&event, value);
                drop(event);
                jitter.pause();
                state = lock(&shared.state);
                state.set_done(number);
            }
            Work::Finish(running) => {
                state.outstanding -= 1;
                drop(state);
                finish(running, handlers);
                state = lock(&shared.state);
            }
            Work::Poll => {
                state = wait(shared, state, Some(Duration::from_micros(200)));
                continue;
            }
            Work::Idle => {
                state = wait(shared, state, None);
                continue;
            }
            Work::Stop => {
                drop(state);
                shared.changed.notify_all();
                return;
            }
        }
        shared.changed.notify_all();
    }
}

fn begin(shared: &Shared, commands: &Id<Commands>, jitter: &mut Jitter) {
    jitter.pause();
    Commands::begin(commands);
    if deviates(Deviation::HandlerFirst) {
        call_handlers(commands, commands.take_handlers());
    }
    let fault = if control::lost() {
        Some(Fault::Fail(CommandBufferError::DeviceRemoved, None))
    } else {
        control::take_fault()
    };
    if let Some(Fault::Hang(time)) = fault {
        std::thread::sleep(time);
    }
    let mut state = lock(&shared.state);
    let Some(running) = state.submitted.iter_mut().find(|running| running.commands.is(commands))
    else {
        return;
    };
    running.stage = Stage::Begun;
    match fault {
        Some(Fault::Fail(error, code)) => {
            let underlying = code.map(|code| ("IOGPUCommandQueueErrorDomain", code));
            running.fail(Failure { underlying, ..error.into() })
        }
        Some(Fault::FailBelow(error, domain, code)) => {
            running.fail(Failure { underlying: Some((domain, code)), ..error.into() });
        }
        Some(Fault::FailSaying(error, words)) => {
            running.fail(Failure { words: Some(words), ..error.into() });
        }
        Some(Fault::FailHalfway(error)) => {
            running.fail_halfway = Some(error);
            running.fail_if_halfway();
        }
        Some(Fault::Hang(_)) | None => {}
    }
}

fn finish(running: Running, handlers: &Sender<(Id<Commands>, Vec<BlockRef>)>) {
    let error = running.failure.map(|Failure { error, underlying, words }| {
        let below = underlying.map(|(domain, code)| {
            Error::make(domain, code as isize, format!("{domain} error {code}"), None)
        });
        Error::make(
            "MTLCommandBufferErrorDomain",
            error as isize,
            words.map_or_else(|| format!("{error:?} (driver)"), str::to_owned),
            below,
        )
    });
    let calls = running.commands.finish(error);
    // The thread that calls them ends after the queue's own threads, so it is there.
    let _ = handlers.send((running.commands, calls));
}

/// Handlers come late: also after `waitUntilCompleted` has returned.
fn call_late(calls: &Receiver<(Id<Commands>, Vec<BlockRef>)>) {
    let mut jitter = Jitter::new();
    while let Ok((commands, handlers)) = calls.recv() {
        jitter.pause();
        call_handlers(&commands, handlers);
    }
}

unsafe extern "C" fn command_buffer(this: This<Queue>, _: Sel) -> Raw {
    Queue::new_commands(this, true)
}

unsafe extern "C" fn unretained(this: This<Queue>, _: Sel) -> Raw {
    Queue::new_commands(this, false)
}

unsafe extern "C" fn add_set(this: This<Queue>, _: Sel, set: This<ResidencySet>) {
    leave_temporary();
    let mut sets = lock(&this.sets);
    if sets.len() >= 32 {
        violation(Rule::TooManyResidencySets, "a queue takes 32 residency sets");
        return;
    }
    sets.push(set.retain());
}

unsafe extern "C" fn remove_set(this: This<Queue>, _: Sel, set: This<ResidencySet>) {
    let set = set.retain();
    lock(&this.sets).retain(|other| !other.is(&set));
}

//! Command queues: two threads each, which start passes as soon as Metal's rules allow it.
//!
//! Command buffers are taken up in the order of their commits. A pass waits for earlier passes of the queue only where
//! a fence, or memory that Metal tracks, orders them; otherwise it may run beside them. A wait for an event holds up
//! everything behind it. A signal comes when the passes before it in its own command buffer are through, which is
//! before the command buffer is. Command buffers complete in order, and handlers are called later still, on a third
//! thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::commands::{Commands, Op, call_handlers};
use super::event::SharedEvent;
use super::lock;
use super::pass::Pass;
use super::residency::{Residency, ResidencySet};
use crate::control::{self, CommandBufferError, Fault};
use crate::foundation::Error;
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

#[derive(Default)]
struct State {
    submitted: VecDeque<Running>,
    /// Command buffers that exist and are not through.
    outstanding: usize,
    stop: bool,
    next_number: u64,
}

/// A committed command buffer.
struct Running {
    commands: Id<Commands>,
    ops: Vec<Scheduled>,
    stage: Stage,
    failure: Option<(CommandBufferError, Option<i64>)>,
    fail_halfway: Option<CommandBufferError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Committed,
    /// A thread finds out whether it fails. Nothing of it runs meanwhile.
    Beginning,
    Begun,
}

struct Scheduled {
    /// Its number in the queue; passes name those that they wait for.
    number: u64,
    op: OpState,
    after: Vec<u64>,
    fences: Fences,
}

/// What orders a pass with others.
struct Fences {
    updates: Vec<u64>,
    tracked: Vec<usize>,
}

enum OpState {
    Pass(Arc<Pass>),
    Running,
    Wait(Id<SharedEvent>, u64),
    Signal(Id<SharedEvent>, u64),
    Done,
}

/// What a thread of the queue does next.
enum Work {
    Pass(u64, Arc<Pass>),
    Begin(Id<Commands>),
    Finish(Running),
    Signal(Id<SharedEvent>, u64),
    /// An event that is not there yet is looked at again soon.
    Poll,
    Idle,
    Stop,
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
        let ops = commands.take_ops();
        let mut state = lock(&self.shared.state);
        let mut running = Running {
            commands,
            ops: Vec::new(),
            stage: Stage::Committed,
            failure: None,
            fail_halfway: None,
        };
        for op in ops {
            let number = state.next_number;
            state.next_number += 1;
            let scheduled = state.schedule(number, op, &running);
            running.ops.push(scheduled);
        }
        state.submitted.push_back(running);
        drop(state);
        self.shared.changed.notify_all();
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
        let until = Instant::now() + control::queue_patience();
        let mut state = lock(&this.shared.state);
        while state.outstanding >= this.cap {
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

impl State {
    /// What an op waits for: passes before it that are not through, where something orders them.
    fn schedule(&self, number: u64, op: Op, own: &Running) -> Scheduled {
        let earlier = || self.submitted.iter().chain([own]).flat_map(|running| &running.ops);
        let unfinished = |scheduled: &&Scheduled| !matches!(scheduled.op, OpState::Done);
        let (op, after, fences) = match op {
            Op::Pass(pass) => {
                let ordered = |scheduled: &&Scheduled| {
                    let fences = &scheduled.fences;
                    fences.updates.iter().any(|fence| pass.waits.contains(fence))
                        || fences.tracked.iter().any(|address| pass.tracked.contains(address))
                };
                let after = earlier()
                    .filter(unfinished)
                    .filter(ordered)
                    .map(|scheduled| scheduled.number)
                    .collect();
                let fences =
                    Fences { updates: pass.updates.clone(), tracked: pass.tracked.clone() };
                (OpState::Pass(Arc::new(pass)), after, fences)
            }
            Op::Wait(event, value) => (OpState::Wait(event, value), Vec::new(), Fences::none()),
            Op::Signal(event, value) => {
                let after = own.ops.iter().map(|scheduled| scheduled.number).collect();
                (OpState::Signal(event, value), after, Fences::none())
            }
        };
        Scheduled { number, op, after, fences }
    }

    fn is_done(&self, number: u64) -> bool {
        let all = self.submitted.iter().flat_map(|running| &running.ops);
        all.into_iter()
            .find(|scheduled| scheduled.number == number)
            .is_none_or(|scheduled| matches!(scheduled.op, OpState::Done))
    }

    fn set_done(&mut self, number: u64) {
        for running in &mut self.submitted {
            if let Some(scheduled) =
                running.ops.iter_mut().find(|scheduled| scheduled.number == number)
            {
                scheduled.op = OpState::Done;
                running.fail_if_halfway();
            }
        }
    }

    /// The next thing that can be done, in the order of commits.
    fn next(&mut self) -> Work {
        if let Some(first) = self.submitted.front()
            && first.stage == Stage::Begun
            && first.ops.iter().all(|scheduled| matches!(scheduled.op, OpState::Done))
            && let Some(first) = self.submitted.pop_front()
        {
            return Work::Finish(first);
        }
        for index in 0..self.submitted.len() {
            let running = &mut self.submitted[index];
            match running.stage {
                Stage::Committed => {
                    running.stage = Stage::Beginning;
                    return Work::Begin(running.commands.clone());
                }
                Stage::Beginning => return Work::Idle,
                Stage::Begun => {}
            }
            for place in 0..self.submitted[index].ops.len() {
                let scheduled = &self.submitted[index].ops[place];
                let ready = scheduled.after.iter().all(|number| self.is_done(*number));
                let own = &mut self.submitted[index].ops[place];
                match &own.op {
                    OpState::Done | OpState::Running => {}
                    OpState::Wait(event, value) if event.value() >= *value => {
                        own.op = OpState::Done
                    }
                    // Everything behind it waits too.
                    OpState::Wait(..) => return Work::Poll,
                    OpState::Pass(pass) if ready => {
                        let work = Work::Pass(own.number, Arc::clone(pass));
                        own.op = OpState::Running;
                        return work;
                    }
                    OpState::Signal(event, value) if ready => {
                        let work = Work::Signal(event.clone(), *value);
                        own.op = OpState::Done;
                        return work;
                    }
                    OpState::Pass(_) | OpState::Signal(..) => {}
                }
            }
        }
        if self.submitted.is_empty() && self.stop { Work::Stop } else { Work::Idle }
    }
}

impl Fences {
    fn none() -> Self {
        Self { updates: Vec::new(), tracked: Vec::new() }
    }
}

impl Running {
    /// A command buffer that fails runs nothing more, and gives no signal.
    fn fail(&mut self, error: CommandBufferError, underlying: Option<i64>) {
        self.failure = Some((error, underlying));
        for scheduled in &mut self.ops {
            if !matches!(scheduled.op, OpState::Running) {
                scheduled.op = OpState::Done;
            }
        }
    }

    fn fail_if_halfway(&mut self) {
        let done =
            self.ops.iter().filter(|scheduled| matches!(scheduled.op, OpState::Done)).count();
        if let Some(error) = self.fail_halfway
            && done * 2 >= self.ops.len()
        {
            self.fail_halfway = None;
            self.fail(error, None);
        }
    }
}

fn run(shared: &Shared, handlers: &Sender<(Id<Commands>, Vec<BlockRef>)>) {
    let mut jitter = Jitter::new();
    let mut state = lock(&shared.state);
    loop {
        match state.next() {
            Work::Pass(number, pass) => {
                drop(state);
                pass.run(&mut jitter);
                drop(pass);
                state = lock(&shared.state);
                state.set_done(number);
            }
            Work::Begin(commands) => {
                drop(state);
                begin(shared, &commands, &mut jitter);
                // The last reference takes the queue with it, which needs the lock.
                drop(commands);
                state = lock(&shared.state);
            }
            Work::Signal(event, value) => {
                drop(state);
                jitter.pause();
                SharedEvent::set(&event, value);
                drop(event);
                jitter.pause();
                state = lock(&shared.state);
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
        Some(Fault::Fail(error, underlying)) => running.fail(error, underlying),
        Some(Fault::FailHalfway(error)) => {
            running.fail_halfway = Some(error);
            running.fail_if_halfway();
        }
        Some(Fault::Hang(_)) | None => {}
    }
}

fn finish(running: Running, handlers: &Sender<(Id<Commands>, Vec<BlockRef>)>) {
    let error = running.failure.map(|(error, underlying)| {
        let below = underlying.map(|code| {
            Error::make(
                "IOGPUCommandQueueErrorDomain",
                code as isize,
                format!("IOGPU error {code}"),
                None,
            )
        });
        Error::make(
            "MTLCommandBufferErrorDomain",
            error as isize,
            format!("{error:?} (driver)"),
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

//! The order of a queue: what can run next, by Metal's rules.

use std::collections::VecDeque;
use std::sync::Arc;

use super::commands::{Commands, Op};
use super::event::SharedEvent;
use super::pass::Pass;
use crate::control::CommandBufferError;
use crate::deviations::{Deviation, deviates};
use crate::objc::Id;

#[derive(Default)]
pub struct State {
    pub submitted: VecDeque<Running>,
    /// Command buffers that exist and are not through.
    pub outstanding: usize,
    pub stop: bool,
    next_number: u64,
}

/// A committed command buffer.
pub struct Running {
    pub commands: Id<Commands>,
    ops: Vec<Scheduled>,
    pub stage: Stage,
    pub failure: Option<Failure>,
    pub fail_halfway: Option<CommandBufferError>,
}

/// Why a command buffer failed.
pub struct Failure {
    pub error: CommandBufferError,
    /// Domain and code of the underlying error, which is the kernel driver's mostly.
    pub underlying: Option<(&'static str, i64)>,
    pub words: Option<&'static str>,
}

impl From<CommandBufferError> for Failure {
    fn from(error: CommandBufferError) -> Self {
        Self { error, underlying: None, words: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Committed,
    /// A thread finds out whether it fails. Nothing of it runs meanwhile.
    Beginning,
    Begun,
}

pub struct Scheduled {
    /// Its number in the queue; passes name those that they wait for.
    number: u64,
    op: OpState,
    after: Vec<u64>,
    fences: Fences,
    is_signal: bool,
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
pub enum Work {
    Pass(u64, Arc<Pass>),
    Begin(Id<Commands>),
    Finish(Running),
    Signal(u64, Id<SharedEvent>, u64),
    /// An event that is not there yet is looked at again soon.
    Poll,
    Idle,
    Stop,
}

impl State {
    /// Takes a command buffer up behind the others.
    pub fn commit(&mut self, commands: Id<Commands>) {
        let ops = commands.take_ops();
        let mut running = Running {
            commands,
            ops: Vec::new(),
            stage: Stage::Committed,
            failure: None,
            fail_halfway: None,
        };
        for op in ops {
            let number = self.next_number;
            self.next_number += 1;
            let scheduled = self.schedule(number, op, &running);
            running.ops.push(scheduled);
        }
        self.submitted.push_back(running);
    }

    /// What an op waits for: passes before it that are not through, where something orders them.
    fn schedule(&self, number: u64, op: Op, own: &Running) -> Scheduled {
        let earlier = || self.submitted.iter().chain([own]).flat_map(|running| &running.ops);
        let unfinished = |scheduled: &&Scheduled| !matches!(scheduled.op, OpState::Done);
        let is_signal = matches!(op, Op::Signal(..));
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
                // Signals of a queue come in their order, whatever runs at once.
                let signals = earlier().filter(unfinished).filter(|other| other.is_signal);
                let own_ops = own.ops.iter().chain(signals);
                let after = own_ops.map(|scheduled| scheduled.number).collect();
                (OpState::Signal(event, value), after, Fences::none())
            }
        };
        Scheduled { number, op, after, fences, is_signal }
    }

    fn is_done(&self, number: u64) -> bool {
        let all = self.submitted.iter().flat_map(|running| &running.ops);
        all.into_iter()
            .find(|scheduled| scheduled.number == number)
            .is_none_or(|scheduled| matches!(scheduled.op, OpState::Done))
    }

    pub fn set_done(&mut self, number: u64) {
        for running in &mut self.submitted {
            if let Some(scheduled) =
                running.ops.iter_mut().find(|scheduled| scheduled.number == number)
            {
                scheduled.op = OpState::Done;
                running.fail_if_halfway();
            }
        }
    }

    /// A pass took longer than the watchdog allows: its command buffer fails.
    pub fn time_out(&mut self, number: u64) {
        let has = |running: &&mut Running| running.ops.iter().any(|op| op.number == number);
        if let Some(running) = self.submitted.iter_mut().find(has) {
            running.fail(CommandBufferError::Timeout.into());
        }
    }

    /// The next thing that can be done, in the order of commits.
    pub fn next(&mut self) -> Work {
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
                    OpState::Wait(event, value)
                        if event.value() >= *value || deviates(Deviation::NeverWaits) =>
                    {
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
                        let work = Work::Signal(own.number, event.clone(), *value);
                        own.op = OpState::Running;
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
    pub fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        for scheduled in &mut self.ops {
            if let OpState::Signal(event, value) = &scheduled.op
                && deviates(Deviation::SignalsOnFailure)
            {
                SharedEvent::set(event, *value);
            }
            if !matches!(scheduled.op, OpState::Running) {
                scheduled.op = OpState::Done;
            }
        }
    }

    pub fn fail_if_halfway(&mut self) {
        let done =
            self.ops.iter().filter(|scheduled| matches!(scheduled.op, OpState::Done)).count();
        if let Some(error) = self.fail_halfway
            && done * 2 >= self.ops.len()
        {
            self.fail_halfway = None;
            self.fail(error.into());
        }
    }
}

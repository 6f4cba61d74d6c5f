//! Recording: from a Command with buffers to a bound Command in the stream's batch.
//!
//! Dependencies on other streams are settled before the stream's own lock is taken, so two stream
//! locks are never held together, and every wait names work that was submitted before.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::submit::{Reason, Submitted};
use super::turn::{Manners, Next, thread_number};
use super::{StreamInner, Timepoint};
use crate::command::Access;
use crate::counters::LiveCounters;
use crate::profiler::now_ns;
use crate::progress::Outcome;
use crate::{Buffer, Command, Error, Result, WaitFor};

type Waits = SmallVec<[WaitFor; 2]>;

/// Leaves a Command that is of no use: it is large, so it is not handed from one to the next.
pub(super) fn record(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
) -> Result<Timepoint> {
    let device = stream.device_inner();
    device.check()?;
    command.verify()?;
    device.check_support(command.op())?;
    let mut epoch = stream.progress().epoch();
    let mut waits = dependencies(stream, command)?;
    let thread = thread_number();
    let mut manners = Manners::default();
    loop {
        let mut recorder = stream.lock();
        if stream.is_shared() {
            match stream.take_turn(&mut recorder, thread, &mut manners)? {
                Next::Record => {}
                Next::LetFinish(first) => {
                    drop(recorder);
                    stream.let_finish(first);
                    continue;
                }
                Next::MakeRoom(until) => {
                    drop(recorder);
                    stream.wait_for_room(until)?;
                    continue;
                }
            }
        }
        if recorder.commands.len() >= device.config().batch_commands {
            // The last submit found the device full. Make room before the batch grows further.
            if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Full)? {
                drop(recorder);
                stream.wait_for_room(until)?;
                continue;
            }
        }
        if recorder.commands.is_empty() {
            recorder.epoch = stream.progress().epoch();
            if recorder.epoch != epoch {
                // Something here failed since the look at what the command depends on.
                epoch = recorder.epoch;
                drop(recorder);
                waits = dependencies(stream, command)?;
                continue;
            }
            recorder.turn.thread = thread;
            recorder.begun_ns = stream.profile().enabled().then(now_ns);
        }
        command.claim_host()?;
        let sequence = recorder.recorded + 1;
        for (access, operand) in command.accesses() {
            let block = operand.buffer.block();
            if !block.is_settled() {
                block.note_use(stream, access, sequence);
            }
        }
        for &wait in &waits {
            recorder.add_wait(wait);
        }
        let counters = stream.counters();
        LiveCounters::add_locked(&counters.commands, 1);
        LiveCounters::add_locked(&counters.bytes, command.bytes() as u64);
        command.bind_into(&mut recorder.commands, |buffer| buffer.raw());
        recorder.recorded = sequence;
        stream.set_recorded(sequence);
        if recorder.commands.len() >= device.config().batch_commands {
            // A full device is not this call's trouble yet, and a refused batch is reported to those
            // who wait for it: the command was recorded.
            let _ = stream.submit(&mut recorder, Reason::Full);
        }
        return Ok(Timepoint::new(stream, sequence));
    }
}

/// Everything of other streams that the command must wait for, submitted.
fn dependencies(stream: &'static StreamInner, command: &Command<&Buffer>) -> Result<Waits> {
    let mut points = SmallVec::<[(Access, Timepoint); 4]>::new();
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        if !std::ptr::eq(block.home.device_inner(), stream.device_inner()) {
            return Err(Error::WrongDevice {
                what: "a buffer",
                found: block.home.device_inner().name().to_owned(),
                expected: stream.device_inner().name().to_owned(),
            });
        }
        if !block.is_settled() {
            block.dependencies(stream, access, |point| points.push((access, point)));
        } else if access == Access::Write {
            return Err(Error::Settled { op: command.op().name() });
        }
    }
    let mut waits = Waits::new();
    for (access, point) in points {
        match depend_on(stream, point) {
            Ok(wait) => waits.extend(wait),
            // What failed cannot be read, but it can be overwritten.
            Err(error) if access == Access::Read => return Err(error),
            Err(_) => stream.device_inner().check()?,
        }
    }
    Ok(waits)
}

/// Submits a point's work if nobody has. `None` when `stream` need not wait for it.
fn depend_on(stream: &'static StreamInner, point: Timepoint) -> Result<Option<WaitFor>> {
    match point.stream().progress().outcome(point.sequence()) {
        Outcome::Done => return Ok(None),
        Outcome::Failed(error) => return Err(error),
        Outcome::Pending if std::ptr::eq(point.stream(), stream) => return Ok(None),
        Outcome::Pending => point.submit()?,
    }
    Ok(Some(WaitFor { stream: point.stream().id(), sequence: point.sequence() }))
}

pub(super) fn wait_for(stream: &'static StreamInner, point: Timepoint) -> Result<()> {
    let device = stream.device_inner();
    device.check()?;
    if !std::ptr::eq(point.stream().device_inner(), device) {
        return Err(Error::WrongDevice {
            what: "a timepoint",
            found: point.stream().device_inner().name().to_owned(),
            expected: device.name().to_owned(),
        });
    }
    let Some(wait) = depend_on(stream, point)? else { return Ok(()) };
    loop {
        let mut recorder = stream.lock();
        if recorder.commands.is_empty() {
            recorder.epoch = stream.progress().epoch();
            recorder.add_wait(wait);
            return Ok(());
        }
        // Commands already recorded must not wait for it: they go in a batch before.
        if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Flush)? {
            drop(recorder);
            stream.wait_for_room(until)?;
        }
    }
}

impl StreamInner {
    /// Blocks, with no lock held, until a batch in flight has passed.
    pub(super) fn wait_for_room(&'static self, sequence: u64) -> Result<()> {
        self.counters().blocks.fetch_add(1, Ordering::Relaxed);
        // Only the room matters: a fault there is for those who wait for that work.
        match self.wait_until_passed(sequence, None) {
            Err(error @ (Error::Timeout { .. } | Error::DeviceLost { .. })) => Err(error),
            _ => Ok(()),
        }
    }
}

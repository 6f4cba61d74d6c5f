//! Recording: from a Command with buffers to a bound Command in the stream's batch.
//!
//! A Command is added under its stream's own lock. What it comes after is looked up, and its own uses are
//! noted, in one go (see [`Block`](crate::memory::Block)). Every wait names work that was submitted before:
//! where something is still unsubmitted, all locks are given up, that stream is asked to submit, and the look
//! is repeated. So locks of two streams are never held together.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::inner::Recorder;
use super::submit::{Deadline, Reason, Submitted};
use super::turn::{Manners, Next, thread_number};
use super::{StreamInner, Timepoint};
use crate::backend::Origin;
use crate::command::Access;
use crate::counters::LiveCounters;
use crate::fault::Value;
use crate::memory::{Block, Uses};
use crate::profiler::now_ns;
use crate::{Buffer, Command, DType, Error, LayerName, Layout, Operand, Result, WaitFor};

type Waits = SmallVec<[WaitFor; 2]>;

/// What must be done, with no lock held, before a Command can be added.
enum Before<'a> {
    /// It need not be added.
    Nothing,
    /// Submit this.
    Submit(Timepoint),
    /// Let streams other than home use the block.
    Share(&'a Block),
    /// Clear what nobody has written.
    Clear(&'a Buffer),
}

/// Leaves a Command that is of no use: it is large, so it is not handed from one to the next.
pub(super) fn record(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
) -> Result<Timepoint> {
    let sequence = record_unless(stream, command, |_| false)?;
    Ok(Timepoint::new(stream, sequence.unwrap_or(0)))
}

/// Records a Command unless `in_vain` says of one of its blocks, at the moment when it would be added, that
/// there is no need.
fn record_unless(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
    in_vain: impl Fn(&Block) -> bool,
) -> Result<Option<u64>> {
    let device = stream.device_inner();
    device.check()?;
    command.verify()?;
    device.check_command(command)?;
    check_device(stream, command)?;
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
                    stream.wait_for_room(until, Deadline::usual(device))?;
                    continue;
                }
            }
        }
        if recorder.batch.len() >= device.config().batch_commands {
            // The last submit found the device full. Make room before the batch grows further.
            if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Full)? {
                drop(recorder);
                stream.wait_for_room(until, Deadline::usual(device))?;
                continue;
            }
        }
        let sequence = recorder.recorded + 1;
        match add_uses(stream, command, sequence, &in_vain)? {
            Ok(waits) => waits.into_iter().for_each(|wait| recorder.add_wait(wait)),
            Err(before) => {
                drop(recorder);
                match before {
                    Before::Nothing => return Ok(None),
                    Before::Submit(point) => point.submit(Deadline::usual(device))?,
                    Before::Share(block) => block.share(),
                    Before::Clear(buffer) => clear_rest(stream, buffer)?,
                }
                continue;
            }
        }
        if recorder.batch.is_empty() {
            recorder.turn.thread = thread;
            recorder.begun_ns = stream.profile().enabled().then(now_ns);
        }
        push(stream, &mut recorder, command);
        stream.set_recorded(sequence);
        if recorder.batch.len() >= device.config().batch_commands {
            // A full device is not this call's trouble yet, and the command was recorded.
            let _ = stream.submit(&mut recorder, Reason::Full);
        }
        return Ok(Some(sequence));
    }
}

fn check_device(stream: &'static StreamInner, command: &Command<&Buffer>) -> Result<()> {
    let device = stream.device_inner();
    for (_, operand) in command.accesses() {
        let found = operand.buffer.block().home.device_inner();
        if !std::ptr::eq(found, device) {
            return Err(Error::WrongDevice {
                what: "a buffer",
                found: found.name().to_owned(),
                expected: device.name().to_owned(),
            });
        }
    }
    Ok(())
}

/// Adds the Command, whose uses are noted, to the batch.
fn push(stream: &StreamInner, recorder: &mut Recorder, command: &mut Command<&Buffer>) {
    let counters = stream.counters();
    LiveCounters::add_locked(&counters.commands, 1);
    LiveCounters::add_locked(&counters.bytes, command.bytes() as u64);
    let batch = &mut recorder.batch;
    // A batch has few thousand operands.
    batch.origins.push(Origin { values: batch.values.len() as u32, layer: LayerName::current() });
    for (_, operand) in command.accesses() {
        let block = operand.buffer.block();
        let settled = Value { block: None, generation: 0 };
        batch.values.push(if block.is_settled() { settled } else { block.value() });
    }
    command.bind_into(&mut batch.commands, |buffer| buffer.raw());
    recorder.recorded += 1;
}

/// The shared blocks of a Command, locked in the order of their addresses.
type Locked<'a> = SmallVec<[(&'a Block, MutexGuard<'a, Uses>); 4]>;

/// Looks up what a Command comes after and notes its own uses, in one go. The caller holds the stream's
/// lock and adds the Command under it.
fn add_uses<'a>(
    stream: &'static StreamInner,
    command: &Command<&'a Buffer>,
    sequence: u64,
    in_vain: impl Fn(&Block) -> bool,
) -> Result<std::result::Result<Waits, Before<'a>>> {
    let mut shared = SmallVec::<[&Block; 4]>::new();
    for (_, operand) in command.accesses() {
        let block = operand.buffer.block();
        if block.is_settled() {
            // For good, and all streams read it: not even its lock is taken.
            continue;
        }
        if block.is_shared() {
            shared.push(block);
        } else if !std::ptr::eq(block.home, stream) {
            return Ok(Err(Before::Share(block)));
        }
    }
    shared.sort_unstable_by_key(|block| std::ptr::from_ref(*block).addr());
    shared.dedup_by_key(|block| std::ptr::from_ref(*block).addr());
    let mut locked: Locked = shared.iter().map(|block| (*block, block.lock_uses())).collect();
    let mut waits = Waits::new();
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        // Only now, since nobody settles a block whose uses are locked, or whose home stream is.
        if block.is_settled() {
            if access == Access::Write {
                return Err(Error::Settled { op: command.op().name() });
            }
            continue;
        }
        if in_vain(block) {
            return Ok(Err(Before::Nothing));
        }
        if !is_covered(block, access, &operand.layout) {
            return Ok(Err(Before::Clear(operand.buffer)));
        }
        let Some((_, uses)) = locked.iter().find(|(other, _)| std::ptr::eq(*other, block)) else {
            continue;
        };
        let mut unsubmitted = None;
        uses.dependencies(stream, access, |point| {
            if point.passed() {
            } else if point.is_submitted() {
                waits.push(WaitFor { stream: point.stream().id(), sequence: point.sequence() });
            } else {
                unsubmitted = Some(point);
            }
        });
        if let Some(point) = unsubmitted {
            return Ok(Err(Before::Submit(point)));
        }
    }
    // The last thing that can fail: from here on it is recorded.
    command.claim_host()?;
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        if block.is_settled() {
            continue;
        }
        if access == Access::Write {
            let end = operand.layout.extent_bytes();
            block.set_covered(block.covered().max(end));
        }
        match locked.iter_mut().find(|(other, _)| std::ptr::eq(*other, block)) {
            Some((_, uses)) => uses.note(stream, access, sequence),
            None if access == Access::Write => block.note_write_at_home(sequence),
            None => {}
        }
    }
    Ok(Ok(waits))
}

/// Whether everything that an access leaves readable was written by this holder of the block: what it
/// reads, and what lies before and between what it writes.
fn is_covered(block: &Block, access: Access, layout: &Layout) -> bool {
    let covered = block.covered();
    layout.extent_bytes() <= covered
        || (access == Access::Write && layout.start_bytes() <= covered && layout.is_dense())
}

/// Clears what nobody has written of a buffer: it may be what another caller left there.
pub(crate) fn clear_rest(stream: &'static StreamInner, buffer: &Buffer) -> Result<()> {
    let (covered, bytes) = (buffer.block().covered(), buffer.bytes());
    let rest = Layout::contiguous(DType::U8, &[bytes.saturating_sub(covered)])?.shifted(covered)?;
    let mut fill = Command::fill(Operand::new(buffer, rest), 0i32)?;
    // What another thread has written meanwhile must stay.
    record_unless(stream, &mut fill, |block| block.covered() != covered).map(drop)
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
    if point.passed() || std::ptr::eq(point.stream(), stream) {
        return Ok(());
    }
    let deadline = Deadline::usual(device);
    point.submit(deadline)?;
    let wait = WaitFor { stream: point.stream().id(), sequence: point.sequence() };
    loop {
        let mut recorder = stream.lock();
        if recorder.batch.is_empty() {
            recorder.add_wait(wait);
            return Ok(());
        }
        // Commands already recorded must not wait for it: they go in a batch before.
        if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Flush)? {
            drop(recorder);
            stream.wait_for_room(until, deadline)?;
        }
    }
}

impl StreamInner {
    /// Blocks, with no lock held, until a batch in flight has passed.
    pub(super) fn wait_for_room(&'static self, sequence: u64, deadline: Deadline) -> Result<()> {
        self.counters().blocks.fetch_add(1, Ordering::Relaxed);
        self.wait_passed(sequence, deadline)
    }
}

//! Recording: from a Command with buffers to a bound Command in the stream's batch.
//!
//! A Command is added under its stream's own lock. What it comes after is looked up, and its own uses are
//! noted, in one go (see [`Block`](crate::memory::Block)). Every wait names work that was submitted before:
//! where something is still unsubmitted, all locks are given up, that stream is asked to submit, and the look
//! is repeated. So locks of two streams are never held together.

use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

use super::guard::RecorderGuard;
use super::inner::Recorder;
use super::submit::{Deadline, Reason, Submitted};
use super::turn::{Next, TurnWait, thread_number};
use super::{StreamInner, Timepoint};
use crate::command::Access;
use crate::counters::LiveCounters;
use crate::device::DeviceInner;
use crate::memory::{Block, Uses};
use crate::profiler::now_ns;
use crate::sync::schedule::MutexGuard;
use crate::{Buffer, Command, DType, Error, LayerName, Layout, Operand, Result, WaitFor};

type Waits = SmallVec<[WaitFor; 2]>;

/// What must be done, with no lock held, before a Command can be added.
pub(super) enum Prerequisite<'a> {
    /// It need not be added.
    Nothing,
    /// Submit these.
    Submit(Vec<Timepoint>),
    /// Let another stream go first.
    Wait,
    /// Let streams other than home use the block.
    Share(&'a Block),
    /// Clear what nobody has written.
    Clear(&'a Buffer),
}

impl Prerequisite<'_> {
    /// Whether other streams must come along first, and may come back as soon as they have.
    fn is_for_others(&self) -> bool {
        matches!(self, Prerequisite::Submit(_) | Prerequisite::Wait)
    }
}

/// One call that records: its deadline, and what it has waited for so far.
pub(super) struct RecordCall {
    device: &'static DeviceInner,
    turn_wait: TurnWait,
    /// The deadline of the whole call. Set at the first wait.
    limit: Option<Deadline>,
    asked: bool,
}

impl RecordCall {
    pub fn new(device: &'static DeviceInner) -> Self {
        Self { device, turn_wait: TurnWait::default(), limit: None, asked: false }
    }

    /// Locks the recorder when it is the thread's turn to record.
    pub fn lock_in_turn(
        &mut self,
        stream: &'static StreamInner,
        thread: usize,
    ) -> Result<RecorderGuard<'static>> {
        loop {
            let mut recorder = stream.lock();
            if !stream.is_shared() {
                return Ok(recorder);
            }
            match stream.take_turn(&mut recorder, thread, &mut self.turn_wait)? {
                Next::Record => return Ok(recorder),
                Next::LetFinish(first) => {
                    drop(recorder);
                    stream.let_finish(first);
                }
                Next::MakeRoom(until) => {
                    drop(recorder);
                    stream.wait_for_room(until, self.deadline())?;
                }
            }
        }
    }

    pub fn deadline(&mut self) -> Deadline {
        *self.limit.get_or_insert_with(|| Deadline::usual(self.device))
    }

    /// Does what must be done before something can be recorded, with no lock held.
    pub fn resolve(
        &mut self,
        before: Prerequisite<'_>,
        stream: &'static StreamInner,
        sequence: u64,
        name: &'static str,
    ) -> Result<()> {
        let deadline = self.deadline();
        if before.is_for_others() {
            // However short the time, everything is asked for once.
            if self.asked && deadline.is_over() {
                return Err(deadline.timeout(stream, sequence, name));
            }
            self.asked = true;
        }
        match before {
            Prerequisite::Nothing => Ok(()),
            Prerequisite::Submit(points) => {
                points.iter().try_for_each(|point| point.submit(deadline))
            }
            Prerequisite::Wait => {
                std::thread::sleep(BACKOFF);
                Ok(())
            }
            Prerequisite::Share(block) => {
                block.share();
                Ok(())
            }
            Prerequisite::Clear(buffer) => clear_rest(stream, buffer),
        }
    }
}

/// How long a stream waits before it tries again, when another stream goes first.
const BACKOFF: Duration = Duration::from_micros(50);

/// Leaves a Command that is of no use: it is large, so it is not handed from one to the next.
pub(super) fn record(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
) -> Result<Timepoint> {
    let sequence = record_unless(stream, command, |_| false)?;
    Ok(Timepoint::new(stream, sequence.unwrap_or(0)))
}

/// Records a Command unless `is_needless` says of one of its blocks, at the moment when it would be added, that
/// there is no need.
fn record_unless(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
    is_needless: impl Fn(&Block) -> bool,
) -> Result<Option<u64>> {
    let device = stream.device_inner();
    device.check()?;
    command.verify()?;
    let bytes = command.bytes();
    device.check_command(command, bytes)?;
    let thread = thread_number();
    let mut call = RecordCall::new(device);
    loop {
        let mut recorder = call.lock_in_turn(stream, thread)?;
        if recorder.batch.len() >= device.config().batch_commands {
            // The last submit found the device full. Make room before the batch grows further.
            if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Full)? {
                drop(recorder);
                stream.wait_for_room(until, call.deadline())?;
                continue;
            }
        }
        let sequence = recorder.recorded + 1;
        if let Some(before) = add_uses(stream, command, sequence, &mut recorder, &is_needless)? {
            drop(recorder);
            if let Prerequisite::Nothing = before {
                return Ok(None);
            }
            call.resolve(before, stream, sequence, command.op().name())?;
            continue;
        }
        begin_batch(stream, &mut recorder, thread);
        push(stream, &mut recorder, command, bytes);
        stream.set_recorded(sequence);
        if recorder.batch.len() >= device.config().batch_commands {
            // A full device is not this call's trouble yet, and the command was recorded.
            let _ = stream.submit(&mut recorder, Reason::Full);
        }
        return Ok(Some(sequence));
    }
}

/// Notes whose batch begins and when, if one does.
pub(super) fn begin_batch(stream: &StreamInner, recorder: &mut Recorder, thread: usize) {
    if recorder.batch.is_empty() {
        recorder.turn.thread = thread;
        recorder.begun_ns = stream.profile().enabled().then(now_ns);
    }
}

/// Adds the Command, whose uses are noted, to the batch.
fn push(
    stream: &StreamInner,
    recorder: &mut Recorder,
    command: &mut Command<&Buffer>,
    bytes: usize,
) {
    let counters = stream.counters();
    LiveCounters::add_locked(&counters.commands, 1);
    LiveCounters::add_locked(&counters.bytes, bytes as u64);
    let batch = &mut recorder.batch;
    batch.set_layer(LayerName::current());
    for (_, operand) in command.accesses() {
        batch.values.push(operand.buffer.block().value());
    }
    command.bind_into(&mut batch.commands, |buffer| buffer.raw());
    recorder.recorded += 1;
}

/// The shared blocks of a Command, locked in the order of their addresses.
type Locked<'a> = SmallVec<[(&'a Block, MutexGuard<'a, Uses>); 4]>;

/// Looks up what a Command comes after and notes its own uses, in one go. The caller holds the stream's
/// lock and adds the Command under it; or does first what this gives.
pub(super) fn add_uses<'a>(
    stream: &'static StreamInner,
    command: &Command<&'a Buffer>,
    sequence: u64,
    recorder: &mut Recorder,
    is_needless: impl Fn(&Block) -> bool,
) -> Result<Option<Prerequisite<'a>>> {
    let mut shared = SmallVec::<[&Block; 4]>::new();
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        let at_home = std::ptr::eq(block.home, stream);
        if !at_home {
            check_device(stream, block)?;
        }
        if block.is_settled() {
            // It stays so: reading it costs nothing, whoever has used it before.
            if access == Access::Write {
                return Err(Error::Settled { op: command.op().name() });
            }
        } else if block.is_shared() {
            shared.push(block);
        } else if !at_home {
            return Ok(Some(Prerequisite::Share(block)));
        } else if is_needless(block) {
            return Ok(Some(Prerequisite::Nothing));
        } else if !is_covered(block, access, &operand.layout) {
            return Ok(Some(Prerequisite::Clear(operand.buffer)));
        }
    }
    if shared.is_empty() {
        // The last thing that can fail: from here on it is recorded.
        command.claim_host()?;
        for (access, operand) in command.accesses() {
            let block = operand.buffer.block();
            if access == Access::Write {
                cover(block, &operand.layout);
                block.note_write_at_home(sequence);
            }
        }
        return Ok(None);
    }
    add_shared_uses(stream, command, sequence, recorder, shared, is_needless)
}

/// Notes that what an operand spans will be written.
fn cover(block: &Block, layout: &Layout) {
    let covered = block.covered();
    if covered < block.bytes() {
        block.set_covered(covered.max(layout.extent_bytes()));
    }
}

/// The same for a Command of which some blocks are shared with other streams.
#[cold]
fn add_shared_uses<'a>(
    stream: &'static StreamInner,
    command: &Command<&'a Buffer>,
    sequence: u64,
    recorder: &mut Recorder,
    mut shared: SmallVec<[&'a Block; 4]>,
    is_needless: impl Fn(&Block) -> bool,
) -> Result<Option<Prerequisite<'a>>> {
    let mut waits = Waits::new();
    let mut locked = lock_in_order(&mut shared);
    if let Some(before) =
        collect_dependencies(stream, command, &mut locked, &mut waits, is_needless)?
    {
        return Ok(Some(before));
    }
    command.claim_host()?;
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        if block.is_settled() {
            continue;
        }
        if access == Access::Write {
            cover(block, &operand.layout);
        }
        match locked.iter_mut().find(|(other, _)| std::ptr::eq(*other, block)) {
            Some((_, uses)) => uses.note(stream, access, sequence),
            None if access == Access::Write => block.note_write_at_home(sequence),
            None => {}
        }
    }
    locked.iter_mut().for_each(|(_, uses)| uses.release(stream));
    waits.into_iter().for_each(|wait| recorder.add_wait(wait));
    Ok(None)
}

fn check_device(stream: &'static StreamInner, block: &Block) -> Result<()> {
    let (found, expected) = (block.home.device_inner(), stream.device_inner());
    if std::ptr::eq(found, expected) {
        return Ok(());
    }
    Err(Error::WrongDevice {
        what: "a buffer",
        found: found.label().to_owned(),
        expected: expected.label().to_owned(),
    })
}

fn lock_in_order<'a>(shared: &mut SmallVec<[&'a Block; 4]>) -> Locked<'a> {
    shared.sort_unstable_by_key(|block| std::ptr::from_ref(*block).addr());
    shared.dedup_by_key(|block| std::ptr::from_ref(*block).addr());
    shared.iter().map(|block| (*block, block.lock_uses())).collect()
}

/// Looks up what a Command that uses shared blocks comes after.
fn collect_dependencies<'a>(
    stream: &'static StreamInner,
    command: &Command<&'a Buffer>,
    locked: &mut Locked<'a>,
    waits: &mut Waits,
    is_needless: impl Fn(&Block) -> bool,
) -> Result<Option<Prerequisite<'a>>> {
    if locked.iter().any(|(_, uses)| uses.is_claimed_from(stream)) {
        return Ok(Some(Prerequisite::Wait));
    }
    let mut unsubmitted = Vec::new();
    for (access, operand) in command.accesses() {
        let block = operand.buffer.block();
        let Some((_, uses)) = locked.iter().find(|(other, _)| std::ptr::eq(*other, block)) else {
            continue;
        };
        // Only now, since nobody settles a block whose uses are locked.
        if block.is_settled() {
            if access == Access::Write {
                return Err(Error::Settled { op: command.op().name() });
            }
            continue;
        }
        if is_needless(block) {
            return Ok(Some(Prerequisite::Nothing));
        }
        if !is_covered(block, access, &operand.layout) {
            return Ok(Some(Prerequisite::Clear(operand.buffer)));
        }
        uses.dependencies(stream, access, |point| {
            if point.passed() {
            } else if point.is_submitted() {
                waits.push(WaitFor { stream: point.stream().id(), sequence: point.sequence() });
            } else {
                unsubmitted.push(point);
            }
        });
    }
    if unsubmitted.is_empty() {
        return Ok(None);
    }
    // All blocks in one go, so that no two streams keep them from each other.
    locked.iter_mut().for_each(|(_, uses)| uses.claim(stream));
    Ok(Some(Prerequisite::Submit(unsubmitted)))
}

/// Whether everything that an access leaves readable was written by this holder of the block.
fn is_covered(block: &Block, access: Access, layout: &Layout) -> bool {
    access.is_covered(layout, block.covered(), block.bytes())
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
            found: point.stream().device_inner().label().to_owned(),
            expected: device.label().to_owned(),
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

#[cfg(all(test, not(loom)))]
mod tests;

//! Recording: from a Command with buffers to a bound Command in the stream's batch.
//!
//! A Command is added under its stream's own lock. Its dependencies are collected and its own uses added in one
//! step (see [`Block`](crate::memory::Block)). A wait may only name submitted work. If a dependency is not submitted
//! yet, all locks are released, the other stream submits, and the step is repeated. So the locks of two streams are
//! never held together.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::dependencies::{Prerequisite, add_uses};
use super::guard::RecorderGuard;
use super::inner::Recorder;
use super::submit::{Deadline, Reason, Submitted};
use super::turn::{Next, TurnWait, thread_number};
use super::{StreamInner, Timepoint};
use crate::counters::LiveCounters;
use crate::device::DeviceInner;
use crate::memory::Block;
use crate::profiler::now_ns;
use crate::{Buffer, Command, DType, LayerName, Layout, Operand, Result};

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
            // Tried once, even if the deadline is over.
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

/// Consumes the Command in place: it is large, so it is not moved.
pub(super) fn record(
    stream: &'static StreamInner,
    command: &mut Command<&Buffer>,
) -> Result<Timepoint> {
    let sequence = record_unless(stream, command, |_| false)?;
    Ok(Timepoint::new(stream, sequence.unwrap_or(0)))
}

/// Records a Command, unless `is_needless` is true of one of its blocks at the moment when it would be added.
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
        if device.is_full(&recorder.batch) {
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
        if device.is_full(&recorder.batch) {
            // A full device is no error of this call: the Command was recorded.
            let _ = stream.submit(&mut recorder, Reason::Full);
        }
        return Ok(Some(sequence));
    }
}

/// If a batch begins, notes its thread and its start.
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

/// Clears the bytes of a buffer that were not written: they may be another caller's data.
pub(crate) fn clear_rest(stream: &'static StreamInner, buffer: &Buffer) -> Result<()> {
    let (covered, bytes) = (buffer.block().covered(), buffer.bytes());
    let rest = Layout::contiguous(DType::U8, &[bytes.saturating_sub(covered)])?.shifted(covered)?;
    let mut fill = Command::fill(Operand::new(buffer, rest), 0i32)?;
    // Skipped if another thread has written meanwhile.
    record_unless(stream, &mut fill, |block| block.covered() != covered).map(drop)
}

impl StreamInner {
    /// Blocks, with no lock held, until a batch in flight has passed.
    pub(super) fn wait_for_room(&'static self, sequence: u64, deadline: Deadline) -> Result<()> {
        self.counters().blocks.fetch_add(1, Ordering::Relaxed);
        self.wait_passed(sequence, deadline)
    }
}

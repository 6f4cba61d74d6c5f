//! Running a plan: records all its Commands under one lock.

use super::dependencies::add_uses;
use super::inner::Recorder;
use super::record::{RecordCall, begin_batch, clear_rest};
use super::submit::{Reason, Submitted};
use super::turn::thread_number;
use super::{StreamInner, Timepoint};
use crate::counters::LiveCounters;
use crate::memory::{self, ArenaLease};
use crate::plan::{Base, Bases, Part};
use crate::{Buffer, Command, Error, Plan, Result};

pub(super) fn run(
    stream: &'static StreamInner,
    plan: &Plan,
    inputs: &[&Buffer],
    outputs: &[&Buffer],
) -> Result<Timepoint> {
    stream.device_inner().check()?;
    check_ends(stream, plan, inputs, outputs)?;
    let ends = Command::of_ends(
        outputs.iter().copied().zip(plan.outputs()),
        inputs.iter().copied().zip(plan.inputs()),
    );
    let mut arena = RunArena::default();
    let parts = plan.parts();
    // Memory that was not written yet may hold another caller's data.
    for output in plan.states().iter().map(|&index| outputs[index]) {
        if !is_written(output) {
            clear_rest(stream, output)?;
        }
    }
    if parts.len() > 1 {
        // The first batch counts the outputs as written, and the later ones may fail to be recorded.
        for output in outputs.iter().filter(|output| !is_written(output)) {
            clear_rest(stream, output)?;
        }
    }
    let mut call = RecordCall::new(stream.device_inner());
    let mut last = 0;
    for part in parts {
        last = run_part(stream, (plan, part), &ends, &mut arena, &mut call)?;
    }
    // The memory is returned to the stream here: later Commands of the stream run later.
    drop(arena);
    Ok(Timepoint::new(stream, last))
}

fn is_written(buffer: &Buffer) -> bool {
    // Checked again under the lock when it is cleared.
    buffer.is_settled() || buffer.block().covered() >= buffer.bytes()
}

/// Checks that the buffers of this run fit the plan.
fn check_ends(
    stream: &'static StreamInner,
    plan: &Plan,
    inputs: &[&Buffer],
    outputs: &[&Buffer],
) -> Result<()> {
    if !std::ptr::eq(plan.device_inner(), stream.device_inner()) {
        return Err(Error::WrongDevice {
            what: "a plan",
            found: plan.device_inner().label().to_owned(),
            expected: stream.device_inner().label().to_owned(),
        });
    }
    let fits = |buffers: &[&Buffer], layouts: &[crate::Layout]| {
        buffers.len() == layouts.len()
            && buffers
                .iter()
                .zip(layouts)
                .all(|(buffer, layout)| layout.extent_bytes() <= buffer.bytes())
    };
    if fits(inputs, plan.inputs())
        && fits(outputs, plan.outputs())
        && are_outputs_apart(inputs, outputs)
    {
        return Ok(());
    }
    Err(misfit(plan, inputs, outputs))
}

/// Inputs and outputs up to which each is compared with each.
const FEW_ENDS: usize = 32;

/// Whether no output has its memory in common with another or with an input.
fn are_outputs_apart(inputs: &[&Buffer], outputs: &[&Buffer]) -> bool {
    if inputs.len() + outputs.len() > FEW_ENDS {
        return are_many_apart(inputs, outputs);
    }
    let is = |one: &Buffer, other: &Buffer| std::ptr::eq(one.block(), other.block());
    outputs.iter().enumerate().all(|(index, output)| {
        !outputs[..index].iter().any(|other| is(other, output))
            && !inputs.iter().any(|input| is(input, output))
    })
}

#[cold]
fn are_many_apart(inputs: &[&Buffer], outputs: &[&Buffer]) -> bool {
    let block = |buffer: &&Buffer| std::ptr::from_ref(buffer.block()) as usize;
    let mut written: Vec<usize> = outputs.iter().map(block).collect();
    written.sort_unstable();
    written.is_sorted_by(|one, next| one < next)
        && !inputs.iter().any(|input| written.binary_search(&block(input)).is_ok())
}

#[cold]
fn misfit(plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Error {
    let sizes = |buffers: &[&Buffer]| buffers.iter().map(|b| b.bytes()).collect::<Vec<_>>();
    let needs = |layouts: &[crate::Layout]| {
        layouts.iter().map(crate::Layout::extent_bytes).collect::<Vec<_>>()
    };
    let reason = format!(
        "inputs of {:?} bytes and outputs of {:?} given, the plan takes {:?} and {:?}, each output in a \
         buffer of its own",
        sizes(inputs),
        sizes(outputs),
        needs(plan.inputs()),
        needs(plan.outputs()),
    );
    Error::Invalid { op: "run", reason }
}

/// The temporary memory of a run: a block of the stream, or a reservation where the device binds arenas when batches begin.
#[derive(Default)]
struct RunArena {
    block: Option<Buffer>,
    lease: Option<ArenaLease>,
}

impl RunArena {
    fn is_none(&self) -> bool {
        self.block.is_none() && self.lease.is_none()
    }

    /// Whether the runs of a plan share arenas with others. The parts of a plan that has several are different batches,
    /// which have one arena.
    fn is_shared(stream: &'static StreamInner, plan: &Plan) -> bool {
        stream.device_inner().memory().arenas().are_shared() && plan.parts().len() == 1
    }

    /// What is to be had with the stream's lock held.
    fn at_hand(stream: &'static StreamInner, recorder: &mut Recorder, plan: &Plan) -> Self {
        let bytes = plan.arena_bytes();
        if Self::is_shared(stream, plan) {
            return Self {
                lease: ArenaLease::try_reserve(stream.device_inner(), bytes),
                block: None,
            };
        }
        Self { block: memory::allocate_cached(stream, recorder, bytes), lease: None }
    }

    fn new(stream: &'static StreamInner, plan: &Plan) -> Result<Self> {
        let bytes = plan.arena_bytes();
        if Self::is_shared(stream, plan) {
            return Ok(Self { lease: Some(ArenaLease::grow(stream, bytes)?), block: None });
        }
        Ok(Self { block: Some(memory::allocate(stream, bytes)?), lease: None })
    }
}

/// Records the Commands of one batch; the sequence number of the last.
fn run_part(
    stream: &'static StreamInner,
    (plan, part): (&Plan, &Part),
    ends: &Command<&Buffer>,
    arena: &mut RunArena,
    call: &mut RecordCall,
) -> Result<u64> {
    let device = stream.device_inner();
    let most = device.max_plan_commands();
    let thread = thread_number();
    loop {
        let mut recorder = call.lock_in_turn(stream, thread)?;
        // A batch has the Commands of at most one plan, and no more than other batches.
        let count = recorder.batch.len();
        let has_room = !recorder.batch.has_plan() && part.commands() <= most.saturating_sub(count);
        if count > 0
            && !has_room
            && let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Full)?
        {
            drop(recorder);
            stream.wait_for_room(until, call.deadline())?;
            continue;
        }
        if arena.is_none() && plan.arena_bytes() > 0 {
            *arena = RunArena::at_hand(stream, &mut recorder, plan);
            if arena.is_none() {
                drop(recorder);
                *arena = RunArena::new(stream, plan)?;
                continue;
            }
        }
        let last = recorder.recorded + part.commands() as u64;
        match add_uses(stream, ends, last, &mut recorder, |_| false) {
            Ok(None) => {}
            Ok(Some(before)) => {
                drop(recorder);
                call.resolve(before, stream, last, "a plan")?;
                continue;
            }
            Err(Error::Settled { .. }) => return Err(Error::Settled { op: "run" }),
            Err(error) => return Err(error),
        }
        begin_batch(stream, &mut recorder, thread);
        push(stream, &mut recorder, part, ends, arena);
        stream.set_recorded(last);
        if device.is_full(&recorder.batch) {
            // A full device is no error of this call: the Commands were recorded.
            let _ = stream.submit(&mut recorder, Reason::Full);
        }
        return Ok(last);
    }
}

/// Adds the Commands of a part, whose uses are noted, to the batch.
fn push(
    stream: &StreamInner,
    recorder: &mut Recorder,
    part: &Part,
    ends: &Command<&Buffer>,
    arena: &mut RunArena,
) {
    let counters = stream.counters();
    LiveCounters::add_locked(&counters.commands, part.commands() as u64);
    LiveCounters::add_locked(&counters.bytes, part.bytes());
    let base = |buffer: &Buffer| {
        let block = buffer.block();
        Base { address: buffer.raw().address, value: block.value() }
    };
    let buffers = ends.accesses().map(|(_, operand)| operand.buffer).chain(&arena.block);
    let bases: Bases = buffers.map(base).collect();
    let batch = &mut recorder.batch;
    // Commands of an earlier run are reused: only their addresses are written.
    if !batch.is_empty() || !stream.progress().take_plan(part.key(), batch) {
        part.append_to(batch);
    }
    batch.patch_plan(bases, arena.lease.take());
    recorder.recorded += part.commands() as u64;
}

//! What a Command depends on: the uses of its blocks by other streams, and what must be done before it can be added.

use smallvec::SmallVec;

use super::StreamInner;
use super::inner::Recorder;
use super::timepoint::Timepoint;
use crate::command::Access;
use crate::memory::{Block, Uses};
use crate::sync::schedule::MutexGuard;
use crate::{Buffer, Command, Error, Layout, Result, WaitFor};

type Waits = SmallVec<[WaitFor; 2]>;

/// What must be done, with no lock held, before a Command can be added.
pub(super) enum Prerequisite<'a> {
    /// It need not be added.
    Nothing,
    /// Submit these.
    Submit(Vec<Timepoint>),
    /// Let another stream go first.
    Wait,
    /// Announce to the home stream that another one uses the block.
    Share(&'a Block),
    /// Clear the bytes that were not written.
    Clear(&'a Buffer),
}

impl Prerequisite<'_> {
    /// Whether other streams must act first. They may then be in the way again.
    pub fn is_for_others(&self) -> bool {
        matches!(self, Prerequisite::Submit(_) | Prerequisite::Wait)
    }
}

/// The shared blocks of a Command, locked in the order of their addresses.
type Locked<'a> = SmallVec<[(&'a Block, MutexGuard<'a, Uses>); 4]>;

/// Collects the dependencies of a Command and adds its own uses, in one step. The caller holds the stream's lock and
/// adds the Command under it, or first does what this returns.
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
            // Settled for good: reading it is not tracked.
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

/// Collects the dependencies of a Command that uses shared blocks.
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
        // Checked now: a block is not settled while its uses are locked.
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
    // All blocks in one step, so that no two streams block each other.
    locked.iter_mut().for_each(|(_, uses)| uses.claim(stream));
    Ok(Some(Prerequisite::Submit(unsubmitted)))
}

/// Whether all bytes that the access makes readable were written by this holder of the block.
fn is_covered(block: &Block, access: Access, layout: &Layout) -> bool {
    access.is_covered(layout, block.covered(), block.bytes())
}

#[cfg(all(test, not(loom)))]
mod tests;

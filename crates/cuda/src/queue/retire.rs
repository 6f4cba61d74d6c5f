//! Taking finished batches off, and telling what became of them.

use std::sync::atomic::Ordering;

use millstream_core::profiler::Span;
use millstream_core::{Error, Op, Outcome};
use millstream_kernels::fault_message;

use super::CudaQueue;
use super::flight::{Entry, Flight};
use super::staging;

/// What became of a batch that the device is through with.
enum Verdict {
    Done,
    /// From that sequence number on.
    Failed(u64, Error),
    /// What it waited for is not known yet.
    Unknown,
}

impl CudaQueue {
    /// Takes off what is finished. Never blocks; whoever comes second goes away.
    pub(crate) fn retire(&self) {
        while self.is_ready() {
            let Some(entry) = self.begin() else { return };
            let verdict = self.judge(&entry);
            if let Verdict::Unknown = verdict {
                let mut flight = self.flight();
                flight.entries.push_front(entry);
                flight.retiring = false;
                self.front.store(flight.front_tick(), Ordering::Release);
                return;
            }
            self.end(entry, verdict);
        }
    }

    /// Takes the oldest batch and the token, if it is finished and nobody has the token.
    fn begin(&self) -> Option<Entry> {
        let mut flight = self.flight();
        if flight.retiring || flight.front_tick() > self.page.tick() {
            return None;
        }
        let entry = flight.entries.pop_front()?;
        flight.retiring = true;
        Some(entry)
    }

    fn judge(&self, entry: &Entry) -> Verdict {
        let first = entry.batch.first;
        if let Some(error) = &entry.doomed {
            return Verdict::Failed(first, error.clone());
        }
        for wait in &entry.batch.waits {
            let Some(other) = self.shared.queue(wait.stream) else { continue };
            let mut outcome = other.progress.outcome(wait.sequence);
            if outcome == Outcome::Pending {
                // It is through on the device, since this batch came after it there.
                other.retire();
                outcome = other.progress.outcome(wait.sequence);
            }
            match outcome {
                Outcome::Done => {}
                Outcome::Failed(error) => return Verdict::Failed(first, error),
                Outcome::Pending => return Verdict::Unknown,
            }
        }
        let Some(note) = self.page.fault(entry.tick) else { return Verdict::Done };
        let index = note.index.min(entry.batch.commands.len().saturating_sub(1));
        let sequence = first + index as u64;
        let command =
            entry.batch.commands.get(index).map_or("batch", |command| command.op().name());
        let message = fault_message(note.code).into();
        Verdict::Failed(sequence, Error::Fault { stream: self.id, sequence, command, message })
    }

    /// Copies what was downloaded, makes progress, and gives the token back.
    fn end(&self, entry: Entry, verdict: Verdict) {
        let last = entry.batch.last;
        let (good, failed) = match verdict {
            Verdict::Failed(sequence, error) => {
                (sequence - entry.batch.first, Some((sequence, error)))
            }
            _ => (u64::MAX, None),
        };
        // What comes after a fault fails with it, and is told when all of it can be.
        let sound = self.flight().is_sound(last);
        if sound {
            self.copy_downloads(&entry, good);
            self.report_spans(&entry);
        }
        if let Some(staging) = &entry.staging {
            staging.release();
        }
        if !entry.keep.is_empty() {
            // What is dropped is the driver's. A failure means that the device is lost.
            let _ = self.gpu.context.make_current();
        }
        // Before the progress is told: whoever waits for it may expect memory to be back.
        let Entry { batch, staging, keep, .. } = entry;
        drop((staging, keep));
        self.progress.give_back(batch.commands);
        let mut flight = self.flight();
        flight.retiring = false;
        match failed {
            Some((sequence, error)) => flight.break_from(sequence, error),
            // A fault that was noticed meanwhile lies later.
            None if sound => self.progress.advance(last),
            None => {}
        }
        self.settle(&mut flight);
    }

    /// Tells a fault if the device is through with everything that it fails. The caller holds the lock.
    pub(super) fn settle(&self, flight: &mut Flight) {
        if let Some((broken, last)) = flight.take_broken() {
            self.page.clear_fault();
            self.progress.fail(broken.first, last, broken.error);
            self.progress.advance(last);
        }
        self.front.store(flight.front_tick(), Ordering::Release);
    }

    fn report_spans(&self, entry: &Entry) {
        let (Some(staging), Some(stamps)) = (&entry.staging, entry.stamps) else { return };
        let stamp = |index: usize| {
            // SAFETY: the stamps lie in the staging memory, aligned, and the kernels that wrote them have
            // run.
            let time = unsafe {
                staging.memory().host().add(stamps.place).cast::<u64>().add(index).read_volatile()
            };
            self.gpu.host_ns(time)
        };
        let commands = entry.batch.commands.iter().enumerate();
        self.profile.add(commands.map(|(index, command)| Span {
            kind: command.op().kind(),
            sequence: entry.batch.first + index as u64,
            start_ns: stamp(index),
            end_ns: stamp(index + 1),
        }));
    }

    /// Copies the downloads among the first `good` Commands to where they were asked for. Those to memory
    /// that the GPU reaches by itself are there.
    fn copy_downloads(&self, entry: &Entry, good: u64) {
        let Some(memory) = entry.staging.as_ref().map(|staging| staging.memory()) else { return };
        let gpu = self.gpu.properties.ordinal;
        staging::transfers(gpu, &entry.batch.commands, |index, command, place| {
            if let Op::Download { target } = command.op()
                && (index as u64) < good
            {
                // SAFETY: the batch is through, so the device writes the staging memory no more, and has no
                // place there of another size; nobody reads the target before progress is made.
                unsafe {
                    let source = memory.host().add(place);
                    target.as_mut_ptr().copy_from_nonoverlapping(source, target.len());
                }
            }
        });
    }
}

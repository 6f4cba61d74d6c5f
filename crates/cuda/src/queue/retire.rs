//! Taking finished batches off, and telling what became of their Commands.

use std::sync::atomic::Ordering;

use millstream_core::profiler::Span;
use millstream_core::{Batch, Error, Fault, Op};
use millstream_kernels::fault_message;
use smallvec::SmallVec;

use super::CudaQueue;
use super::flight::Entry;
use super::staging;

impl CudaQueue {
    /// Takes off what is finished. Never blocks; whoever comes second goes away. Tasks that wait for it are woken
    /// by the watcher: who comes here may hold a lock of core's.
    pub(crate) fn retire(&self) {
        while self.is_ready() {
            let Some(entry) = self.begin() else { return };
            if !self.waits_have_passed(&entry.batch) {
                let mut flight = self.flight();
                flight.entries.push_front(entry);
                flight.retiring = false;
                self.front.store(flight.front_tick(), Ordering::Release);
                return;
            }
            self.end(entry);
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

    /// Whether everything that a batch waits for has passed: only then it is known which of its inputs
    /// failed. Takes it off where the device is through with it, so the answer is no only while another
    /// thread is about to do that, or for a batch that was not launched.
    ///
    /// This thread has the token of every queue that it comes through, and finds it taken at the second
    /// visit: it comes to each queue once.
    fn waits_have_passed(&self, batch: &Batch) -> bool {
        batch.waits.iter().all(|wait| {
            let Some(other) = self.shared.queue(wait.stream) else { return true };
            if !other.progress.passed(wait.sequence) {
                other.retire();
            }
            other.progress.passed(wait.sequence)
        })
    }

    /// Tells what became of every Command, copies what was downloaded, makes progress, and gives the token
    /// back.
    fn end(&self, entry: Entry) {
        self.resolve(&entry);
        self.report_spans(&entry);
        if let Some(staging) = &entry.staging {
            staging.release();
        }
        if !entry.keep.is_empty() {
            // What is dropped is the driver's. A failure means that the device is lost.
            let _ = self.gpu.context.make_current();
        }
        // Before the progress is told: whoever waits for it may expect memory to be back.
        let Entry { batch, staging, keep, .. } = entry;
        let last = batch.last;
        drop((staging, keep));
        self.progress.give_back(batch);
        let mut flight = self.flight();
        self.progress.advance(last);
        flight.retiring = false;
        self.front.store(flight.front_tick(), Ordering::Release);
    }

    /// Marks what every Command made as good or failed. A download that was staged is copied to where it was
    /// asked for if it is good.
    fn resolve(&self, entry: &Entry) {
        let batch = &entry.batch;
        let codes = entry.launched.then(|| self.page.faults(entry.tick)).flatten();
        let device_fault = |index: usize| {
            let code = codes?.get(index)?.load(Ordering::Relaxed);
            (code != 0).then(|| batch.fault(self.id, index, fault_message(code)))
        };
        let mut places = SmallVec::<[(usize, usize); 4]>::new();
        staging::transfers(self.gpu.properties.ordinal, &batch.commands, |index, _, place| {
            places.push((index, place));
        });
        let mut places = places.into_iter().peekable();
        batch.resolve(&self.progress, |index| {
            let error = match entry.failures.of(index) {
                // What a call said of the device as a whole concerns one Command here.
                Some(Error::Driver { message, .. }) => Some(batch.fault(self.id, index, message)),
                Some(error) => Some(error.clone()),
                None => device_fault(index),
            };
            while places.next_if(|(at, _)| *at < index).is_some() {}
            if error.is_none()
                && let Some((_, place)) = places.next_if(|(at, _)| *at == index)
            {
                copy_download(entry, index, place);
            }
            error.map(Fault::from)
        });
    }

    fn report_spans(&self, entry: &Entry) {
        let (Some(staging), Some(stamps)) = (&entry.staging, entry.stamps) else { return };
        if !entry.failures.is_empty() {
            // Not all of them were written.
            return;
        }
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
}

/// Copies a download from its place in the staging memory to where it was asked for.
fn copy_download(entry: &Entry, index: usize, place: usize) {
    if let (Op::Download { target }, Some(staging)) =
        (entry.batch.commands[index].op(), &entry.staging)
    {
        // SAFETY: the batch is through, so the device writes the staging memory no more, and has no place
        // there of another size; nobody reads the target before progress is made.
        unsafe {
            let source = staging.memory().host().add(place);
            target.as_mut_ptr().copy_from_nonoverlapping(source, target.len());
        }
    }
}

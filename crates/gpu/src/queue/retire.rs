//! Retiring finished batches, and resolving their Commands.

use millstream_core::profiler::Span;
use millstream_core::sync::schedule::Ordering;
use millstream_core::{Batch, Error, Fault, Op};
use millstream_kernels::fault_message;
use smallvec::SmallVec;

use super::{GpuQueue, Submitted};
use crate::failure::Failure;
use crate::memory::transfers;
use crate::platform::Platform;

impl<P: Platform> GpuQueue<P> {
    /// Retires finished batches. Never blocks: if another thread is doing it, this one leaves. The watcher wakes the
    /// tasks that wait for them, because the caller may hold a lock of core.
    pub(crate) fn retire(&self) {
        while self.is_ready() {
            let completed = || self.platform.completed(&self.queue);
            let Some((tick, submitted)) = self.in_flight.take(completed) else { return };
            if !self.waits_have_passed(&submitted.batch) {
                self.in_flight.put_back(tick, submitted);
                return;
            }
            self.end(tick, submitted);
        }
    }

    /// Whether everything that a batch waits for has passed. Only then is it known which of its inputs failed.
    /// Batches of other queues that are complete are retired here. So the answer is no only while another thread is
    /// about to do that, or for a batch that was not launched.
    ///
    /// This thread holds the token of every queue on its way, and finds it taken if it comes there again. So it
    /// visits each queue at most once.
    fn waits_have_passed(&self, batch: &Batch) -> bool {
        batch.waits.iter().all(|wait| {
            let Some(other) = self.shared.queue(wait.stream) else { return true };
            if !other.progress.passed(wait.sequence) {
                other.retire();
            }
            other.progress.passed(wait.sequence)
        })
    }

    /// Resolves every Command, copies staged downloads, advances the progress, and gives the token back.
    fn end(&self, tick: u64, submitted: Submitted<P>) {
        self.resolve(tick, &submitted);
        self.report_spans(tick, &submitted);
        if let Some(staging) = &submitted.staging {
            staging.release();
        }
        if !submitted.keep.is_empty() {
            // Objects of the driver are dropped below. If entering fails, the device is lost.
            let _ = self.platform.enter();
        }
        // This comes before progress is reported: a thread that waits for it may expect memory to be free.
        let Submitted { batch, staging, keep, .. } = submitted;
        let last = batch.last;
        drop((staging, keep));
        self.progress.recycle(batch);
        self.in_flight.finish(|| self.progress.advance(last));
    }

    /// Marks the outputs of every Command as good or failed. A staged download that is good is copied to its target.
    fn resolve(&self, tick: u64, submitted: &Submitted<P>) {
        let batch = &submitted.batch;
        let failure = || self.platform.failure(&self.queue, tick);
        let failure = submitted.launched.then(failure).flatten();
        let failure = failure.map(|failure| self.batch_error(&failure));
        let faults = || self.platform.faults(&self.queue, tick);
        let codes = submitted.launched.then(faults).flatten();
        let device_fault = |index: usize| {
            let code = codes?.get(index)?.load(Ordering::Relaxed);
            (code != 0).then(|| batch.fault(self.id, index, fault_message(code)))
        };
        let mut staged = SmallVec::<[(usize, usize); 4]>::new();
        transfers::<P>(self.platform.number(), &batch.commands, |index, _, offset| {
            staged.push((index, offset));
        });
        let mut staged = staged.into_iter().peekable();
        batch.resolve(&self.progress, |index| {
            let error = match submitted.failures.of(index).or(failure.as_ref()) {
                // The failure of a driver call belongs to one Command here.
                Some(Error::Driver { message, .. }) => Some(batch.fault(self.id, index, message)),
                Some(error) => Some(error.clone()),
                None => device_fault(index),
            };
            while staged.next_if(|(at, _)| *at < index).is_some() {}
            if error.is_none()
                && let Some((_, offset)) = staged.next_if(|(at, _)| *at == index)
            {
                copy_download(submitted, index, offset);
            }
            error.map(Fault::from)
        });
    }

    /// The error of all Commands of a batch that the device did not run, or not whole.
    #[cold]
    fn batch_error(&self, failure: &Failure) -> Error {
        let status = self.platform.status();
        if failure.out_of_memory {
            self.wants_memory.store(true, Ordering::Relaxed);
            return crate::lowering::out_of_memory(&self.platform, 0);
        }
        status.note(failure)
    }

    fn report_spans(&self, tick: u64, submitted: &Submitted<P>) {
        let (Some(staging), Some(timestamps)) = (&submitted.staging, submitted.timestamps) else {
            return;
        };
        let failed = submitted.launched && self.platform.failure(&self.queue, tick).is_some();
        if !submitted.failures.is_empty() || failed {
            // Not all times were written.
            return;
        }
        let time = |index: usize| {
            // SAFETY: the times lie aligned in the staging memory, and the kernels that wrote them have run.
            let time = unsafe {
                staging.host().add(timestamps.offset).cast::<u64>().add(index).read_volatile()
            };
            self.platform.host_ns(time)
        };
        let commands = submitted.batch.commands.iter().enumerate();
        self.profile.add(commands.map(|(index, command)| Span {
            kind: command.op().kind(),
            layer: submitted.batch.layer(index),
            sequence: submitted.batch.first + index as u64,
            start_ns: time(index),
            end_ns: time(index + 1),
        }));
    }
}

/// Copies a download from the staging memory to its target.
fn copy_download<P: Platform>(submitted: &Submitted<P>, index: usize, offset: usize) {
    if let (Op::Download { target }, Some(staging)) =
        (submitted.batch.commands[index].op(), &submitted.staging)
    {
        // SAFETY: the batch has completed, so the device does not write the staging memory anymore, and the transfer
        // has this many bytes there. Nobody reads the target before progress is made.
        unsafe {
            let source = staging.host().add(offset);
            target.as_mut_ptr().copy_from_nonoverlapping(source, target.len());
        }
    }
}

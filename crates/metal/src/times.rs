//! Times of the GPU: when Commands begin and end.
//!
//! Counters are sampled where encoders begin and end, so a batch with times has an encoder for each stretch between two of
//! them, which a fence orders. A blit encoder writes the samples to where they are wanted: at the end, or before something of the
//! batch that uses one. Where a device has no
//! such counters, or none to spare, a time ends a command buffer, and its handler has the time; see `encode.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};

use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder,
    MTLComputePassDescriptor, MTLCounterSampleBuffer, MTLCounterSampleBufferDescriptor,
    MTLCounterSamplingPoint, MTLCounterSet, MTLDevice, MTLDispatchType, MTLFence, MTLStorageMode,
};

use millstream_core::profiler::now_ns;
use millstream_gpu::Failure;

use crate::failure;
use crate::gpu::Gpu;
use crate::memory::object;
use crate::objects::{Kept, Obj, RawBufferObject, Ref};
use crate::settings;

/// How the GPU's clock is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Counters can be sampled where encoders begin and end.
    pub counters: bool,
    /// What to add to a time of the GPU to get one of the host.
    offset: i64,
    /// What to add to a time at which a command buffer ended to get one of the GPU.
    ended: i64,
}

impl Clock {
    /// That of a device.
    pub fn of(device: &Ref<dyn MTLDevice>) -> Self {
        let counters = device.supportsCounterSampling(MTLCounterSamplingPoint::AtStageBoundary)
            && timestamps(device).is_some();
        let (before, now) = (now_ns(), if counters { gpu_ns(device) } else { uptime_ns() });
        let host = before + (now_ns() - before) / 2;
        let ended = if counters { now.wrapping_sub(uptime_ns()).cast_signed() } else { 0 };
        Self { counters, offset: host.wrapping_sub(now).cast_signed(), ended }
    }

    /// The time of the GPU at which a command buffer ended, of its `GPUEndTime`. Batches with counters and without are on one clock.
    pub fn of_end(self, seconds: f64) -> u64 {
        ((seconds * 1e9) as u64).wrapping_add_signed(self.ended)
    }

    /// A time of the GPU on the host's clock.
    pub fn host_ns(self, device_ns: u64) -> u64 {
        device_ns.wrapping_add_signed(self.offset)
    }
}

/// The counter set of times.
pub(crate) fn timestamps(device: &Ref<dyn MTLDevice>) -> Option<Obj<dyn MTLCounterSet>> {
    // What `MTLCommonCounterSetTimestamp` says.
    device.counterSets()?.iter().find(|set| set.name().to_string() == "timestamp")
}

/// The GPU's clock now.
pub(crate) fn gpu_ns(device: &Ref<dyn MTLDevice>) -> u64 {
    let (mut cpu, mut gpu) = (0, 0);
    // SAFETY: places for both.
    unsafe {
        device.sampleTimestamps_gpuTimestamp((&mut cpu).into(), (&mut gpu).into());
    }
    gpu
}

/// The clock that `GPUEndTime` is on.
pub(crate) fn uptime_ns() -> u64 {
    #[cfg(target_vendor = "apple")]
    const CLOCK: libc::clockid_t = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(CLOCK, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sample buffers that there are at once, of a GPU that is said to have 32: other parts of the process may want some.
const MAX_BUFFERS: usize = 16;
/// Samples that one of them has at most: 32 KB, as is said.
const MAX_SAMPLES: usize = 4096;

/// Sample buffers that there are.
static BUFFERS: AtomicUsize = AtomicUsize::new(0);

/// A sample buffer is or was made, and is not released.
struct Counted(());

impl Counted {
    /// Unless there are too many.
    fn one_more() -> Option<Self> {
        let add = |count: usize| (count < MAX_BUFFERS).then_some(count + 1);
        BUFFERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Self(()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        BUFFERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The times of one batch.
pub(crate) struct Times {
    gpu: &'static Gpu,
    counted: Option<Counted>,
    samples: Obj<dyn MTLCounterSampleBuffer>,
    fence: Obj<dyn MTLFence>,
    /// Encoders that were made.
    encoders: usize,
    /// Where times go, each with how many encoders there were before it.
    wanted: Vec<(RawBufferObject, usize, usize)>,
}

impl Times {
    /// For so many times; nothing where the device has no counters, or none for as many or for one more batch: how often the
    /// clock can be read is no reason for a batch to fail.
    ///
    /// # Errors
    ///
    /// There is no fence to be had.
    pub fn new(gpu: &'static Gpu, count: usize) -> Result<Option<Self>, Failure> {
        // Every time ends an encoder, and so does what writes it before something uses it.
        let encoders = 2 * count + 1;
        if 2 * encoders > MAX_SAMPLES {
            return Ok(None);
        }
        let Some(set) = gpu.clock.counters.then(|| timestamps(&gpu.device)).flatten() else {
            return Ok(None);
        };
        let Some(counted) = Counted::one_more() else { return Ok(None) };
        let descriptor = MTLCounterSampleBufferDescriptor::new();
        descriptor.setCounterSet(Some(&set));
        descriptor.setStorageMode(MTLStorageMode::Shared);
        // SAFETY: a number that is not 0: where each encoder begins and ends.
        unsafe { descriptor.setSampleCount(2 * encoders) };
        let made = gpu.device.newCounterSampleBufferWithDescriptor_error(&descriptor);
        let refused = |error: &_| failure::of_error("newCounterSampleBufferWithDescriptor", error);
        let made = made.inspect_err(|error| settings::log(|| refused(error).to_string()));
        let Ok(samples) = made else { return Ok(None) };
        let fence = object(gpu.device.newFence(), "newFence", "fence")?;
        let (counted, wanted) = (Some(counted), Vec::new());
        Ok(Some(Self { gpu, counted, samples, fence, encoders: 0, wanted }))
    }

    /// An encoder whose begin and end are sampled, after the one before it.
    ///
    /// # Errors
    ///
    /// There is none to be had.
    pub fn encoder(
        &mut self,
        commands: &Ref<dyn MTLCommandBuffer>,
    ) -> Result<Obj<dyn MTLComputeCommandEncoder>, Failure> {
        let descriptor = MTLComputePassDescriptor::new();
        descriptor.setDispatchType(MTLDispatchType::Concurrent);
        // SAFETY: the first of the attachments, and samples that there are.
        unsafe {
            let attachment = descriptor.sampleBufferAttachments().objectAtIndexedSubscript(0);
            attachment.setSampleBuffer(Some(&self.samples));
            attachment.setStartOfEncoderSampleIndex(2 * self.encoders);
            attachment.setEndOfEncoderSampleIndex(2 * self.encoders + 1);
        }
        let made = commands.computeCommandEncoderWithDescriptor(&descriptor);
        let compute = object(made, "computeCommandEncoderWithDescriptor", "encoder")?;
        if self.encoders > 0 {
            compute.waitForFence(&self.fence);
        }
        self.encoders += 1;
        Ok(compute)
    }

    /// An encoder is about to end.
    pub fn end_encoder(&self, compute: &Ref<dyn MTLComputeCommandEncoder>) {
        compute.updateFence(&self.fence);
    }

    /// The clock is wanted here.
    pub fn add(&mut self, buffer: RawBufferObject, offset: usize) {
        self.wanted.push((buffer, offset, self.encoders));
    }

    /// Writes the samples to where they are wanted: a time is the end of the encoder before it, or the begin of the first.
    ///
    /// # Errors
    ///
    /// There is no encoder to be had.
    pub fn resolve(&mut self, commands: &Ref<dyn MTLCommandBuffer>) -> Result<(), Failure> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        if self.encoders == 0 {
            // Nothing ran: what does nothing has a time too.
            let compute = self.encoder(commands)?;
            self.gpu.builtins.encode_nothing(&compute);
            self.end_encoder(&compute);
            compute.endEncoding();
        }
        let blit = object(commands.blitCommandEncoder(), "blitCommandEncoder", "encoder")?;
        blit.waitForFence(&self.fence);
        for (buffer, offset, before) in self.wanted.drain(..) {
            let sample = (2 * before).saturating_sub(1);
            let range = NSRange { location: sample, length: 1 };
            // SAFETY: a sample that there is, and a place of eight bytes that the batch keeps.
            unsafe {
                blit.resolveCounters_inRange_destinationBuffer_destinationOffset(
                    &self.samples,
                    range,
                    buffer.get(),
                    offset,
                );
            }
        }
        blit.updateFence(&self.fence);
        blit.endEncoding();
        Ok(())
    }
}

/// Which times of a list are taken where there are no counters, and not a command buffer for each: evenly spread, with the first and the
/// last among them.
pub(crate) struct Spread {
    /// Times of the list, and how many of them can be taken.
    times: usize,
    taken: usize,
    next: usize,
}

impl Spread {
    pub fn new(times: usize, taken: usize) -> Self {
        Self { times, taken, next: 0 }
    }

    /// How many of them are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// All of them are.
    pub fn is_whole(&self) -> bool {
        self.taken >= self.times
    }

    /// Whether the next time is taken.
    pub fn takes_next(&mut self) -> bool {
        let number = self.next;
        self.next += 1;
        let before = |number: usize| {
            number * self.taken.saturating_sub(1) / self.times.saturating_sub(1).max(1)
        };
        self.taken > 0 && (number == 0 || before(number) > before(number - 1))
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        // The command buffer that uses them is committed.
        let objects = [Kept::new(self.samples.clone()), Kept::new(self.fence.clone())];
        self.gpu.deferred.defer((objects, self.counted.take()));
    }
}

#[cfg(test)]
mod tests;

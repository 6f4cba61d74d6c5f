//! Times of the GPU: when Commands begin and end.
//!
//! Counters are sampled where encoders begin and end, so a batch with times has an encoder for each stretch between two of
//! them, which a fence orders. A blit encoder writes the samples to where they are wanted: at the end, or before something of the
//! batch that uses one. Where a device has no
//! such counters a time ends a command buffer, and its handler has the time; see `encode.rs`.

use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandEncoder,
    MTLComputeCommandEncoder, MTLComputePassDescriptor, MTLCounterSampleBuffer,
    MTLCounterSampleBufferDescriptor, MTLCounterSamplingPoint, MTLCounterSet, MTLDevice,
    MTLDispatchType, MTLFence, MTLStorageMode,
};

use millstream_core::profiler::now_ns;
use millstream_gpu::Failure;

use crate::failure;
use crate::gpu::Gpu;
use crate::memory::object;
use crate::objects::{Kept, Obj, Raw, RawBufferObject, Ref};

/// How the GPU's clock is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Counters can be sampled where encoders begin and end.
    pub counters: bool,
    /// What to add to a time of the GPU to get one of the host.
    offset: i64,
}

impl Clock {
    /// That of a device.
    pub fn of(device: &Ref<dyn MTLDevice>) -> Self {
        let counters = device.supportsCounterSampling(MTLCounterSamplingPoint::AtStageBoundary)
            && timestamps(device).is_some();
        let (before, now) = (now_ns(), if counters { gpu_ns(device) } else { uptime_ns() });
        let host = before + (now_ns() - before) / 2;
        Self { counters, offset: host.wrapping_sub(now).cast_signed() }
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

/// The times of one batch.
pub(crate) struct Times {
    gpu: &'static Gpu,
    samples: Obj<dyn MTLCounterSampleBuffer>,
    fence: Obj<dyn MTLFence>,
    /// Encoders that were made.
    encoders: usize,
    /// Where times go, each with how many encoders there were before it.
    wanted: Vec<(RawBufferObject, usize, usize)>,
}

impl Times {
    /// For so many times; nothing where the device has no counters.
    ///
    /// # Errors
    ///
    /// What cannot be had.
    pub fn new(gpu: &'static Gpu, count: usize) -> Result<Option<Self>, Failure> {
        let Some(set) = gpu.clock.counters.then(|| timestamps(&gpu.device)).flatten() else {
            return Ok(None);
        };
        let descriptor = MTLCounterSampleBufferDescriptor::new();
        descriptor.setCounterSet(Some(&set));
        descriptor.setStorageMode(MTLStorageMode::Shared);
        // Every time ends an encoder, and so does what writes it before something uses it.
        let encoders = 2 * count + 1;
        // SAFETY: a number that is not 0: where each encoder begins and ends.
        unsafe { descriptor.setSampleCount(2 * encoders) };
        let made = gpu.device.newCounterSampleBufferWithDescriptor_error(&descriptor);
        let samples = made
            .map_err(|error| failure::of_error("newCounterSampleBufferWithDescriptor", &error))?;
        let fence = object(gpu.device.newFence(), "newFence", "fence")?;
        Ok(Some(Self { gpu, samples, fence, encoders: 0, wanted: Vec::new() }))
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
    pub fn add(&mut self, buffer: &Ref<dyn MTLBuffer>, offset: usize) {
        self.wanted.push((Raw::of(buffer), offset, self.encoders));
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

impl Drop for Times {
    fn drop(&mut self) {
        // The command buffer that uses them is committed.
        let objects = [Kept::new(self.samples.clone()), Kept::new(self.fence.clone())];
        self.gpu.deferred.defer(objects);
    }
}

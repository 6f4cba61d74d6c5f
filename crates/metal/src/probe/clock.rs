//! Clocks: times of command buffers, counters and the host.

use std::time::{Duration, Instant};

use objc2_metal::{
    MTLCommandBuffer, MTLCommandEncoder, MTLComputePassDescriptor, MTLCounterSampleBuffer,
    MTLCounterSampleBufferDescriptor, MTLDevice, MTLStorageMode,
};

use super::lab::{Lab, Params, THREADS, dispatch};
use super::{Check, RowResult, compared, measured};
use crate::times::{Clock, gpu_ns, timestamps, uptime_ns};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "command-buffer-times",
        assumed: "GPUStartTime and GPUEndTime are seconds on the system's clock, between commit and handler",
        run: command_buffer_times,
    },
    Check {
        name: "counter-unit",
        assumed: "timestamps of the GPU count nanoseconds",
        run: counter_unit,
    },
    Check {
        name: "counter-samples",
        assumed: "counters sampled where an encoder begins and ends rise, and lie between commit and handler",
        run: counter_samples,
    },
    Check { name: "clock-drift", assumed: "", run: clock_drift },
];

const BUSY: Params = Params { count: 10_000, what: 0, value: 0 };

fn command_buffer_times(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_busy")?);
    let memory = lab.words(THREADS)?;
    let mut right = 0;
    for _ in 0..20 {
        let before = uptime_ns() as f64 * 1e-9;
        let report = lab.run(&queue, &kernel, &[&memory], BUSY, THREADS)?;
        let after = uptime_ns() as f64 * 1e-9;
        let [start, end] = report.gpu;
        right += usize::from(before <= start && start <= end && end <= after);
    }
    compared(right == 20, format!("{right} of 20"))
}

fn without_counters() -> String {
    "this device has no counters at the boundaries of encoders; times come from command buffers"
        .into()
}

fn counter_unit(lab: &Lab) -> RowResult {
    if !Clock::of(&lab.device).counters {
        return Err(without_counters());
    }
    let (host, gpu) = (Instant::now(), gpu_ns(&lab.device));
    std::thread::sleep(Duration::from_millis(200));
    let (host, gpu) = (host.elapsed().as_nanos() as f64, (gpu_ns(&lab.device) - gpu) as f64);
    let ratio = gpu / host;
    compared((0.9..1.1).contains(&ratio), format!("{ratio:.4} for each nanosecond of the host"))
}

fn clock_drift(lab: &Lab) -> RowResult {
    let clock = Clock::of(&lab.device);
    if !clock.counters {
        return Err(without_counters());
    }
    let offset = |clock: Clock| clock.host_ns(0).cast_signed();
    let start = offset(clock);
    std::thread::sleep(Duration::from_millis(500));
    let off = offset(Clock::of(&lab.device)) - start;
    measured(format!("the clocks of GPU and host moved by {off} ns in half a second"))
}

fn counter_samples(lab: &Lab) -> RowResult {
    let clock = Clock::of(&lab.device);
    let Some(set) = clock.counters.then(|| timestamps(&lab.device)).flatten() else {
        return Err(without_counters());
    };
    let descriptor = MTLCounterSampleBufferDescriptor::new();
    descriptor.setCounterSet(Some(&set));
    descriptor.setStorageMode(MTLStorageMode::Shared);
    // SAFETY: a number that is not 0.
    unsafe { descriptor.setSampleCount(2) };
    let samples = lab
        .device
        .newCounterSampleBufferWithDescriptor_error(&descriptor)
        .map_err(|error| error.localizedDescription().to_string())?;
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_busy")?);
    let memory = lab.words(THREADS)?;
    let before = gpu_ns(&lab.device);
    let running = lab.commit(&queue, |commands| {
        let pass = MTLComputePassDescriptor::new();
        // SAFETY: the first of the attachments, and samples that there are.
        unsafe {
            let attachment = pass.sampleBufferAttachments().objectAtIndexedSubscript(0);
            attachment.setSampleBuffer(Some(&samples));
            attachment.setStartOfEncoderSampleIndex(0);
            attachment.setEndOfEncoderSampleIndex(1);
        }
        let compute = commands.computeCommandEncoderWithDescriptor(&pass).ok_or("no encoder")?;
        dispatch(&compute, &kernel, &[&memory], BUSY, THREADS);
        compute.endEncoding();
        Ok(())
    })?;
    running.finish()?;
    let after = gpu_ns(&lab.device);
    let range = objc2_foundation::NSRange { location: 0, length: 2 };
    // SAFETY: samples that there are, of a command buffer that is through.
    let data = unsafe { samples.resolveCounterRange(range) }.ok_or("the samples cannot be read")?;
    let bytes = data.to_vec();
    let times: Vec<u64> = bytes
        .chunks_exact(8)
        .filter_map(|chunk| chunk.try_into().ok().map(u64::from_ne_bytes))
        .collect();
    let [start, end] = times[..] else { return Err(format!("{} bytes of samples", bytes.len())) };
    let right = before <= start && start < end && end <= after;
    let relative = |time: u64| time.wrapping_sub(before).cast_signed();
    compared(
        right,
        format!(
            "begin and end {} and {} ns after the commit, handler before {}",
            relative(start),
            relative(end),
            relative(after)
        ),
    )
}

//! Order: of events, states and handlers, of command buffers, and of what the host sees.

use std::time::{Duration, Instant};

use objc2_metal::{
    MTLBarrierScope, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferStatus,
    MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLDevice, MTLFence,
    MTLSharedEvent,
};

use super::lab::{Lab, Params, Shared, THREADS, dispatch, encoder};
use super::{Check, RowResult, compared, median, micros};
use crate::objects::{Ref, pooled};
use crate::queue::as_event;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "event-before-handler",
        assumed: "when a completed handler runs, the event that its command buffer set has come and its status is final",
        run: event_before_handler,
    },
    Check {
        name: "handler-thread",
        assumed: "handlers run on a thread that is not the one that committed",
        run: handler_thread,
    },
    Check {
        name: "handler-without-holder",
        assumed: "the handler of a command buffer comes when nobody holds it any more",
        run: handler_without_holder,
    },
    Check {
        name: "commit-order",
        assumed: "the command buffers of a queue set events in the order of their commits",
        run: commit_order,
    },
    Check {
        name: "host-sees-results",
        assumed: "when the event has come, the host sees what was written to shared memory",
        run: host_sees_results,
    },
    Check {
        name: "event-orders-queues",
        assumed: "a queue that waits for another's event sees what that wrote to untracked memory",
        run: event_orders_queues,
    },
    Check {
        name: "barrier-orders-dispatches",
        assumed: "a barrier orders dispatches of a concurrent encoder on untracked memory",
        run: barrier_orders_dispatches,
    },
    Check {
        name: "fence-orders-encoders",
        assumed: "a fence orders encoders of a command buffer on untracked memory",
        run: fence_orders_encoders,
    },
    Check {
        name: "host-releases-gpu",
        assumed: "setSignaledValue by the host releases a command buffer that waits for the value, and nothing else does",
        run: host_releases_gpu,
    },
];

const ROUNDS: usize = 100;
const WORDS: usize = 1 << 12;

/// How a word looks after some steps, each with its number.
fn expected(steps: u32) -> u32 {
    (1..=steps).fold(0u32, |word, step| word.wrapping_mul(3).wrapping_add(step))
}

fn all_are(memory: &Shared, value: u32) -> bool {
    (0..WORDS).all(|index| memory.get(index) == value)
}

fn step(value: u32) -> Params {
    Params { count: WORDS as u32, value, ..Params::default() }
}

/// Counts rounds that came out right.
fn rounds(count: usize, mut round: impl FnMut() -> Result<bool, String>) -> RowResult {
    let mut right = 0;
    for _ in 0..count {
        right += usize::from(pooled(&mut round)?);
    }
    compared(right == count, format!("{right} of {count} rounds"))
}

fn event_before_handler(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_step")?);
    let memory = lab.words(WORDS)?;
    let (mut right, mut later) = (0, Vec::new());
    for _ in 0..ROUNDS {
        let running = lab.compute(&queue, |compute| {
            dispatch(compute, &kernel, &[&memory], step(1), WORDS);
        })?;
        running.spin()?;
        let seen = Instant::now();
        let report = running.finish()?;
        later.push(report.at.saturating_duration_since(seen));
        let final_status = report.status == MTLCommandBufferStatus::Completed;
        right += usize::from(report.event >= running.value && final_status);
    }
    let text =
        format!("{right} of {ROUNDS}; the handler came {} after the event", micros(median(later)));
    compared(right == ROUNDS, text)
}

fn handler_thread(lab: &Lab) -> RowResult {
    let queue = lab.queue(8)?;
    let own = std::thread::current().id();
    rounds(20, || Ok(lab.commit(&queue, |_| Ok(()))?.finish()?.thread != own))
}

fn handler_without_holder(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_busy")?);
    let memory = lab.words(THREADS)?;
    let busy = Params { count: 1000, ..Params::default() };
    // `commit` holds neither the command buffer nor its handler when it returns.
    rounds(20, || Ok(lab.run(&queue, &kernel, &[&memory], busy, THREADS)?.error.is_none()))
}

fn commit_order(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(64)?, lab.pipeline("probe_busy")?);
    let (event, memory) = (lab.event()?, lab.words(THREADS)?);
    let mut running = Vec::new();
    for value in 1..=32u64 {
        // The later they are, the less they have to do.
        let busy = Params { count: 64 * (33 - value as u32), ..Params::default() };
        running.push(lab.commit_with(&queue, &event, value, |commands| {
            let compute = encoder(commands)?;
            dispatch(&compute, &kernel, &[&memory], busy, THREADS);
            compute.endEncoding();
            Ok(())
        })?);
    }
    let mut last = 0;
    let mut risen = true;
    let until = Instant::now() + Duration::from_secs(30);
    while last < 32 && Instant::now() < until {
        let value = event.signaledValue();
        risen &= value >= last;
        last = value;
    }
    let reports: Result<Vec<_>, String> = running.iter().map(|running| running.finish()).collect();
    let ends: Vec<f64> = reports?.iter().map(|report| report.gpu[1]).collect();
    let in_order = ends.windows(2).all(|ends| ends[0] <= ends[1]);
    compared(risen && last == 32, format!("the value rose to {last}; ends in order: {in_order}"))
}

fn host_sees_results(lab: &Lab) -> RowResult {
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(WORDS)?);
    rounds(ROUNDS, || {
        memory.fill(0);
        let running = lab.compute(&queue, |compute| {
            dispatch(compute, &kernel, &[&memory], step(1), WORDS);
        })?;
        running.spin()?;
        Ok(all_are(&memory, expected(1)))
    })
}

fn event_orders_queues(lab: &Lab) -> RowResult {
    let queues = [lab.queue(8)?, lab.queue(8)?];
    let (kernel, memory) = (lab.pipeline("probe_step")?, lab.words(WORDS)?);
    rounds(ROUNDS / 2, || {
        memory.fill(0);
        let (event, mut last) = (lab.event()?, None);
        for value in 1..=4u64 {
            let queue: &Ref<dyn MTLCommandQueue> = &queues[value as usize % 2];
            last = Some(lab.commit_with(queue, &event, value, |commands| {
                if value > 1 {
                    commands.encodeWaitForEvent_value(as_event(&event), value - 1);
                }
                let compute = encoder(commands)?;
                dispatch(&compute, &kernel, &[&memory], step(value as u32), WORDS);
                compute.endEncoding();
                Ok(())
            })?);
        }
        let last = last.ok_or("nothing was committed")?;
        last.finish()?;
        Ok(all_are(&memory, expected(4)))
    })
}

fn barrier_orders_dispatches(lab: &Lab) -> RowResult {
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(WORDS)?);
    rounds(ROUNDS / 2, || {
        memory.fill(0);
        let running = lab.compute(&queue, |compute| {
            for value in 1..=8 {
                dispatch(compute, &kernel, &[&memory], step(value), WORDS);
                compute.memoryBarrierWithScope(MTLBarrierScope::Buffers);
            }
        })?;
        running.finish()?;
        Ok(all_are(&memory, expected(8)))
    })
}

fn fence_orders_encoders(lab: &Lab) -> RowResult {
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(WORDS)?);
    let copy = lab.words(WORDS)?;
    rounds(ROUNDS / 2, || {
        memory.fill(0);
        let fence = lab.device.newFence().ok_or("no fence")?;
        let fence: &Ref<dyn MTLFence> = &fence;
        let running = lab.commit(&queue, |commands| {
            for value in 1..=3 {
                let compute = encoder(commands)?;
                if value > 1 {
                    compute.waitForFence(fence);
                }
                dispatch(&compute, &kernel, &[&memory], step(value), WORDS);
                compute.updateFence(fence);
                compute.endEncoding();
            }
            let blit = commands.blitCommandEncoder().ok_or("no encoder")?;
            blit.waitForFence(fence);
            // SAFETY: both buffers have so many bytes, and the command buffer retains them.
            unsafe {
                blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    memory.object(),
                    0,
                    copy.object(),
                    0,
                    WORDS * 4,
                );
            }
            blit.endEncoding();
            Ok(())
        })?;
        running.finish()?;
        Ok(all_are(&copy, expected(3)))
    })
}

fn host_releases_gpu(lab: &Lab) -> RowResult {
    let (queue, gate) = (lab.queue(8)?, lab.event()?);
    let running = lab.commit(&queue, |commands| {
        commands.encodeWaitForEvent_value(as_event(&gate), 1);
        Ok(())
    })?;
    let early = running.wait(Duration::from_millis(200));
    let start = Instant::now();
    gate.setSignaledValue(1);
    running.spin()?;
    let took = start.elapsed();
    running.finish()?;
    let text =
        if early { "it did not wait".into() } else { format!("released after {}", micros(took)) };
    compared(!early, text)
}

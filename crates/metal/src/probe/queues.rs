//! Queues: how many there are, what they run at once, and where they block.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use millstream_core::MAX_STREAMS;
use objc2_metal::{MTLCommandBuffer, MTLCommandQueue, MTLSharedEvent};

use super::lab::{Lab, Params, THREADS, dispatch};
use super::{Check, RowResult, compared, measured, median};
use crate::objects::{AnyThread, Obj, pooled};
use crate::queue::as_event;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "queue-count",
        assumed: "a process can have a command queue for each of 64 streams, and use all of them",
        run: queue_count,
    },
    Check {
        name: "queues-side-by-side",
        assumed: "a queue that waits holds up no other",
        run: queues_side_by_side,
    },
    Check { name: "queues-at-once", assumed: "", run: queues_at_once },
    Check {
        name: "queue-cap",
        assumed: "commandBuffer blocks when a queue has as many open ones as it was made for, until one of them is through",
        run: queue_cap,
    },
];

fn queue_count(lab: &Lab) -> RowResult {
    let wanted = MAX_STREAMS as usize;
    let queues: Vec<_> = (0..wanted).map_while(|_| lab.queue(8).ok()).collect();
    let running: Result<Vec<_>, String> =
        queues.iter().map(|queue| lab.commit(queue, |_| Ok(()))).collect();
    let running = running?;
    let done = running.iter().filter(|running| running.finish().is_ok()).count();
    compared(done == wanted, format!("{} queues, {done} of which ran something", queues.len()))
}

fn queues_side_by_side(lab: &Lab) -> RowResult {
    let (stuck, other, gate) = (lab.queue(8)?, lab.queue(8)?, lab.event()?);
    let waiting = lab.commit(&stuck, |commands| {
        commands.encodeWaitForEvent_value(as_event(&gate), 1);
        Ok(())
    })?;
    let (kernel, memory) = (lab.pipeline("probe_busy")?, lab.words(THREADS)?);
    let busy = Params { count: 100, ..Params::default() };
    let passed = lab.run(&other, &kernel, &[&memory], busy, THREADS);
    let still_waits = waiting.event.signaledValue() < waiting.value;
    gate.setSignaledValue(1);
    waiting.finish()?;
    passed?;
    compared(still_waits, if still_waits { "another queue passed it" } else { "it did not wait" })
}

/// How long it takes until the same work of so many queues is through.
fn time_of(
    lab: &Lab,
    queues: &[Obj<dyn MTLCommandQueue>],
    rounds: u32,
) -> Result<Duration, String> {
    let kernel = lab.pipeline("probe_busy")?;
    let memory: Result<Vec<_>, _> = queues.iter().map(|_| lab.words(THREADS)).collect();
    let busy = Params { count: rounds, ..Params::default() };
    let start = Instant::now();
    let running: Result<Vec<_>, String> = queues
        .iter()
        .zip(&memory?)
        .map(|(queue, memory)| {
            lab.compute(queue, |compute| dispatch(compute, &kernel, &[memory], busy, THREADS))
        })
        .collect();
    running?.iter().try_for_each(|running| running.finish().map(drop))?;
    Ok(start.elapsed())
}

fn queues_at_once(lab: &Lab) -> RowResult {
    let queues: Result<Vec<_>, _> = (0..16).map(|_| lab.queue(8)).collect();
    let queues = queues?;
    // Long enough that what surrounds it does not count, whatever the GPU.
    let mut rounds = 1 << 10;
    while time_of(lab, &queues[..1], rounds)? < Duration::from_millis(5) && rounds < 1 << 26 {
        rounds *= 4;
    }
    let mut text = Vec::new();
    let alone =
        median((0..5).map(|_| time_of(lab, &queues[..1], rounds)).collect::<Result<_, _>>()?);
    for count in [2, 4, 8, 16] {
        let times: Result<Vec<_>, _> =
            (0..5).map(|_| time_of(lab, &queues[..count], rounds)).collect();
        let ratio = count as f64 * alone.as_secs_f64() / median(times?).as_secs_f64();
        text.push(format!("{count}: {ratio:.1}"));
    }
    measured(format!(
        "one group of {THREADS} threads each; queues and how many run at once: {}",
        text.join(", ")
    ))
}

fn queue_cap(lab: &Lab) -> RowResult {
    const CAP: usize = 4;
    let queue = lab.queue(CAP)?;
    let gate = lab.event()?;
    let running: Result<Vec<_>, String> = (0..CAP)
        .map(|_| {
            lab.commit(&queue, |commands| {
                commands.encodeWaitForEvent_value(as_event(&gate), 1);
                Ok(())
            })
        })
        .collect();
    let running = running?;
    let (sender, made) = channel();
    let own = AnyThread(queue.clone());
    std::thread::spawn(move || {
        let own = own;
        let got = pooled(|| own.commandBuffer().is_some());
        let _ = sender.send(got);
    });
    let early = made.recv_timeout(Duration::from_millis(300)).is_ok();
    gate.setSignaledValue(1);
    running.iter().try_for_each(|running| running.finish().map(drop))?;
    let late = early || made.recv_timeout(Duration::from_secs(30)) == Ok(true);
    let found = match (early, late) {
        (true, _) => format!("the {}th of a queue for {CAP} came at once", CAP + 1),
        (_, true) => format!("the {}th of a queue for {CAP} waited, and then came", CAP + 1),
        (_, false) => format!("the {}th of a queue for {CAP} never came", CAP + 1),
    };
    compared(!early && late, found)
}

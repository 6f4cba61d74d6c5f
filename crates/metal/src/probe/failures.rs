//! What a failed command buffer does. Provoked only on demand: the system has to end a launch that does not end by itself.

use std::time::{Duration, Instant};

use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferError, MTLCommandBufferStatus, MTLSharedEvent,
};

use super::lab::{Lab, Params, THREADS, dispatch};
use super::{Check, RowResult, compared, measured};
use crate::queue::as_event;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "failed-buffer",
        assumed: "a command buffer that fails gives no signal, its handler comes with an MTLCommandBufferError, and the next one runs",
        run: failed_buffer,
    },
    Check { name: "long-wait", assumed: "", run: long_wait },
];

/// How long a launch or a wait goes on before the host ends it.
const TIMEOUT: Duration = Duration::from_secs(20);
const NOT_WANTED: &str = "it makes a command buffer fail: --faults runs it";

fn failed_buffer(lab: &Lab) -> RowResult {
    if !lab.options.faults {
        return Err(NOT_WANTED.into());
    }
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_endless")?);
    let flags = lab.words(4)?;
    let endless = Params { count: u32::MAX, value: 1 << 12, ..Params::default() };
    let start = Instant::now();
    let running =
        lab.compute(&queue, |compute| dispatch(compute, &kernel, &[&flags], endless, THREADS))?;
    let timeout = TIMEOUT.min(lab.options.deadline / 3);
    let report = running.report(timeout);
    // Whatever came of it, it ends now.
    flags.set(0, 1);
    let Some(report) = report.or_else(|| running.report(timeout)) else {
        return Err(format!(
            "neither the system nor the host could end a launch in {:?}",
            start.elapsed()
        ));
    };
    let Some((code, words)) = report.error else {
        return Err(format!("nothing ended a launch of {:.1} s", start.elapsed().as_secs_f64()));
    };
    let signaled = running.wait(Duration::from_millis(200));
    let busy = Params { count: 10, ..Params::default() };
    let small = lab.pipeline("probe_busy")?;
    let next = lab.words(THREADS).and_then(|out| lab.run(&queue, &small, &[&out], busy, 1)).is_ok();
    let is_error = report.status == MTLCommandBufferStatus::Error
        && code > 0
        && code <= MTLCommandBufferError::StackOverflow.0.cast_signed();
    compared(
        is_error && !signaled && next,
        format!(
            "code {code} ({words}) after {:.1} s; signaled: {signaled}; the next one ran: {next}",
            start.elapsed().as_secs_f64()
        ),
    )
}

fn long_wait(lab: &Lab) -> RowResult {
    if !lab.options.faults {
        return Err("it keeps a command buffer waiting for long: --faults runs it".into());
    }
    let (queue, gate) = (lab.queue(8)?, lab.event()?);
    let start = Instant::now();
    let running = lab.commit(&queue, |commands| {
        commands.encodeWaitForEvent_value(as_event(&gate), 1);
        Ok(())
    })?;
    let timeout = TIMEOUT.min(lab.options.idle.max(Duration::from_millis(500)));
    let ended = running.report(timeout);
    gate.setSignaledValue(1);
    match ended {
        Some(report) => measured(format!(
            "a wait for the host was ended after {:.1} s: {:?}",
            start.elapsed().as_secs_f64(),
            report.error
        )),
        None => {
            running.finish()?;
            measured(format!(
                "a command buffer waited {:.1} s for the host, and then ran",
                timeout.as_secs_f64()
            ))
        }
    }
}

//! Scenarios about streams and their lifecycle.

use std::time::Duration;

use millstream::{Error, Event, Exhaustion, Result, Stream};

use super::super::harness::{Context, Outcome};

fn small(context: &Context, seed: u64) -> Result<Vec<u8>> {
    let a = context.randn(&[48, 48], seed)?;
    a.matmul(&a.t()?)?.to_bytes()
}

pub(super) fn synchronize_all(context: &Context) -> Outcome {
    let call = |thread: usize, iteration: usize| {
        let mut value = context.randn(&[64, 64], (thread * 10 + iteration) as u64)?;
        for _ in 0..5 {
            value = value.tanh()?;
        }
        value.to_bytes()
    };
    context.compare_with(&call, |total| {
        for _ in 0..context.iterations {
            match context.device.synchronize() {
                // A fault that its own caller has not come to yet.
                Err(Error::Fault { .. }) if context.faults.is_some() => {}
                Ok(()) => {}
                Err(error) => {
                    total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).error(error)
                }
            }
        }
    })
}

pub(super) fn events(context: &Context) -> Outcome {
    context.compare(|thread, iteration| -> Result<Vec<u8>> {
        let device = &context.device;
        let (first, second) = (Stream::new(device)?, Stream::new(device)?);
        let before = Event::timed(&first)?;
        let (value, product) = first.scope(|| -> Result<_> {
            let value = context.randn(&[40, 40], (thread * 10 + iteration) as u64)?;
            let product = value.matmul(&value)?;
            Ok((value, product))
        })?;
        let after = Event::timed(&first)?;
        after.wait_on(&second)?;
        let result = second.scope(|| (product + value)?.to_bytes())?;
        after.synchronize_within(Duration::from_secs(120))?;
        if !after.query()? || after.elapsed(&before)? > Duration::ZERO {
            return Ok(Vec::new());
        }
        Ok(result)
    })
}

/// Threads that make one call and end; each round's streams are leased anew.
pub(super) fn churn(context: &Context) -> Outcome {
    context.compare(|thread, iteration| {
        let seed = (thread * 10 + iteration) as u64;
        std::thread::scope(|scope| {
            let short = scope.spawn(move || small(context, seed));
            short.join().unwrap_or_else(|_| Ok(Vec::new()))
        })
    })
}

/// Three leasable streams for everybody; a thread ends after each call, so the line moves.
pub(super) fn exhaustion(context: &Context) -> Outcome {
    context.with_own_device(
        |builder| builder.streams(4).exhaustion(Exhaustion::Wait(Some(Duration::from_secs(120)))),
        churn,
    )
}

//! Scenarios about memory running out.

use millstream::{Error, HealthState, Result, Stream};

use super::super::harness::{Context, Outcome};

const LIMIT: usize = 64 << 20;

fn work(context: &Context, thread: usize, iteration: usize) -> Result<Vec<u8>> {
    context.randn(&[50, 100], (thread * 10 + iteration) as u64)?.sigmoid()?.to_bytes()
}

/// Thread 0 asks for more than there is, again and again; the others must not notice.
pub(super) fn out_of_memory(context: &Context) -> Outcome {
    limited(context, |context| {
        let greedy = |outcome: &std::sync::Mutex<Outcome>| {
            for _ in 0..context.iterations {
                let refused = context.device.allocate(LIMIT + 1);
                let mut outcome = outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                outcome.expect(
                    matches!(refused, Err(Error::OutOfMemory { .. })),
                    "more memory than there is was not refused",
                );
            }
        };
        context.compare_with(&|thread, iteration| work(context, thread, iteration), greedy)
    })
}

/// Three times: hold all memory, be refused, give it back, go on.
pub(super) fn pressure(context: &Context) -> Outcome {
    limited(context, |context| {
        let mut total = Outcome::default();
        for _ in 0..3 {
            let mut held = Vec::new();
            let refused = loop {
                match context.device.allocate(8 << 20) {
                    Ok(buffer) => held.push(buffer),
                    Err(error) => break error,
                }
            };
            total
                .expect(matches!(refused, Error::OutOfMemory { .. }), "refused for another reason");
            total.expect(!held.is_empty(), "nothing could be allocated");
            drop(held);
            let outcome = context.compare(|thread, iteration| work(context, thread, iteration));
            total.add(outcome);
        }
        total
    })
}

/// Mixed sizes and results that cross streams, on a device of its own. After the first third of the
/// rounds the device must hold no more memory than it did then.
pub(super) fn soak(context: &Context) -> Outcome {
    context.with_own_device(
        |builder| builder,
        |context| {
            let rounds = 6;
            let part = context.fewer(rounds);
            let mut total = Outcome::default();
            let mut settled = 0;
            for round in 0..rounds {
                total.add(part.compare(|thread, iteration| mixed(context, thread, iteration)));
                let memory = context.device.memory();
                total.expect(memory.in_use == 0, "memory leaked");
                if round < rounds / 3 {
                    settled = memory.reserved;
                }
                // Which stream a thread gets is chance, so in short runs some are used late: a stream's
                // working set here is below 8 MiB.
                let streams = context.device.config().streams.unwrap_or(1) as usize;
                let working_set = streams * (8 << 20);
                total.expect(
                    memory.reserved <= working_set.max(settled + settled / 2),
                    &format!("memory grew from {settled} to {} bytes", memory.reserved),
                );
            }
            total
        },
    )
}

/// Several sizes, and a result that another stream reads.
fn mixed(context: &Context, thread: usize, iteration: usize) -> Result<Vec<u8>> {
    let size = [16, 64, 200][(thread + iteration) % 3];
    let a = context.randn(&[size, size], (thread * 10 + iteration) as u64)?;
    let product = a.matmul(&a)?;
    let reduced = Stream::new(&context.device)?.scope(|| product.sum(0, true))?;
    reduced.softmax(-1)?.to_bytes()
}

/// On a device of its own with little memory, which must be well and empty in the end.
fn limited(context: &Context, run: impl FnOnce(&Context) -> Outcome) -> Outcome {
    context.with_own_device(
        |builder| builder.memory_limit(LIMIT),
        |context| {
            let mut outcome = run(context);
            outcome.expect(
                context.device.health().state == HealthState::Healthy,
                "the device is not healthy afterwards",
            );
            outcome.expect(context.device.memory().in_use == 0, "memory leaked");
            outcome
        },
    )
}

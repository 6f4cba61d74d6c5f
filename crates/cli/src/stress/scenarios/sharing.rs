//! Scenarios about results that cross threads and streams.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use millstream::{BinaryOp, Command, DType, Error, Result, Tensor};

use super::super::harness::{Context, Outcome};

/// Computed before the threads start; an error is the outcome.
fn prepare<T>(work: impl FnOnce() -> Result<T>) -> Result<T, Outcome> {
    work().map_err(|error| {
        let mut outcome = Outcome::default();
        outcome.error(format!("before the threads start: {error}"));
        outcome
    })
}

macro_rules! prepared {
    ($work:expr) => {
        match prepare(|| $work) {
            Ok(value) => value,
            Err(outcome) => return outcome,
        }
    };
}

fn step(value: &Tensor) -> Result<Tensor> {
    value.tanh()? + value
}

/// Thread `i` takes a value from thread `i - 1`, which may not even be submitted, and passes it on.
pub(super) fn producer_consumer(context: &Context) -> Outcome {
    let length = context.threads;
    let chain = |iteration: usize| -> Result<Vec<u8>> {
        let mut value = context.randn(&[33, 65], iteration as u64)?;
        for _ in 0..length {
            value = step(&value)?;
        }
        value.to_bytes()
    };
    let expected = prepared!((0..context.iterations).map(chain).collect::<Result<Vec<_>>>());
    // A channel into each thread; the last thread checks.
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..length {
        let (sender, receiver) = mpsc::channel::<Tensor>();
        senders.push(sender);
        receivers.push(Mutex::new(receiver));
    }
    let senders: Vec<_> = senders.into_iter().map(Mutex::new).collect();
    context.on_threads(
        |_| {},
        |thread, outcome| {
            let receiver =
                receivers[thread].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (iteration, expected) in expected.iter().enumerate() {
                let result = (|| -> Result<Option<Vec<u8>>> {
                    let input = if thread == 0 {
                        context.randn(&[33, 65], iteration as u64)?
                    } else {
                        match receiver.recv_timeout(std::time::Duration::from_secs(120)) {
                            Ok(value) => value,
                            Err(_) => return Ok(None),
                        }
                    };
                    let value = step(&input)?;
                    if thread + 1 < length {
                        let next = senders[thread + 1].lock();
                        let next = next.unwrap_or_else(std::sync::PoisonError::into_inner);
                        // The receiver lives until the end of the scenario.
                        let _ = next.send(value);
                        return Ok(None);
                    }
                    value.to_bytes().map(Some)
                })();
                match result {
                    Ok(None) if thread + 1 < length => outcome.ops += 1,
                    Ok(None) => outcome.error("the value never arrived"),
                    Ok(Some(bytes)) => {
                        outcome.count::<Error>(&format!("chain {iteration}"), Ok(bytes), expected)
                    }
                    Err(error) => outcome.count(&format!("thread {thread}"), Err(error), expected),
                }
            }
        },
    )
}

pub(super) fn fan_out(context: &Context) -> Outcome {
    // The shared value is recorded by this thread and submitted by whoever needs it first.
    let shared = prepared!(context.randn(&[128, 128], 3));
    context.compare(|thread, iteration| {
        let own = context.randn(&[128, 128], (thread * 10 + iteration) as u64)?;
        (own * &shared)?.to_bytes()
    })
}

pub(super) fn fan_in(context: &Context) -> Outcome {
    let part = |thread: usize, iteration: usize| -> Result<Tensor> {
        step(&context.randn(&[1000], (thread * 100 + iteration) as u64)?)
    };
    let join = |parts: &[Tensor]| -> Result<Vec<u8>> {
        let mut sum = parts[0].clone();
        for part in &parts[1..] {
            sum = (sum + part)?;
        }
        sum.to_bytes()
    };
    let expected = prepared!(
        (0..context.iterations)
            .map(|iteration| {
                let parts: Result<Vec<_>> =
                    (0..context.threads).map(|t| part(t, iteration)).collect();
                join(&parts?)
            })
            .collect::<Result<Vec<_>>>()
    );
    let arrived: Vec<Mutex<Vec<(usize, Tensor)>>> =
        expected.iter().map(|_| Mutex::default()).collect();
    context.on_threads(
        |_| {},
        |thread, outcome| {
            for (iteration, expected) in expected.iter().enumerate() {
                let what = format!("sum {iteration}");
                let value = match part(thread, iteration) {
                    Ok(value) => value,
                    Err(error) => {
                        outcome.count(&what, Err(error), expected);
                        continue;
                    }
                };
                let mut parts =
                    arrived[iteration].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                parts.push((thread, value));
                if parts.len() < context.threads {
                    outcome.ops += 1;
                    continue;
                }
                // The last to arrive adds up, in the order of the threads.
                parts.sort_by_key(|(thread, _)| *thread);
                let parts: Vec<Tensor> = parts.drain(..).map(|(_, value)| value).collect();
                outcome.count(&what, join(&parts), expected);
            }
        },
    )
}

/// Every value is used by one thread and dropped by another.
pub(super) fn foreign_drop(context: &Context) -> Outcome {
    let (sender, receiver) = mpsc::channel::<Tensor>();
    let sender = Mutex::new(sender);
    let call = |thread: usize, iteration: usize| -> Result<Vec<u8>> {
        let a = context.randn(&[200, 50], (thread * 10 + iteration) as u64)?;
        let b = step(&a)?;
        let c = step(&b)?;
        for value in [a, b] {
            // Without a receiver the value is dropped right here, which is fine as well.
            let _ = sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner).send(value);
        }
        c.to_bytes()
    };
    std::thread::scope(|scope| {
        scope.spawn(move || receiver.into_iter().for_each(drop));
        let outcome = context.compare(call);
        let (none, _) = mpsc::channel();
        // Ends the dropping thread.
        *sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = none;
        outcome
    })
}

/// Every round, one thread makes a buffer, all read it, and the owner drops it at once.
pub(super) fn owner_drops(context: &Context) -> Outcome {
    let rounds: Vec<Mutex<Option<Arc<Tensor>>>> =
        (0..context.iterations).map(|_| Mutex::default()).collect();
    let round = |iteration: usize| -> Result<Arc<Tensor>> {
        Ok(Arc::new(context.randn(&[64, 64], iteration as u64)?))
    };
    let read = |value: &Tensor| -> Result<Vec<u8>> { step(value)?.to_bytes() };
    let expected = prepared!(
        (0..context.iterations)
            .map(|iteration| read(&*round(iteration)?))
            .collect::<Result<Vec<_>>>()
    );
    context.on_threads(
        |_| {},
        |thread, outcome| {
            for (iteration, expected) in expected.iter().enumerate() {
                let result = (|| {
                    let value = {
                        let mut slot = rounds[iteration]
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner);
                        match slot.as_ref() {
                            Some(value) => Arc::clone(value),
                            None => Arc::clone(slot.insert(round(iteration)?)),
                        }
                    };
                    if thread % 4 == 0 && iteration > 0 {
                        // Drops the round before, which others may just be reading.
                        let old = rounds[iteration - 1].lock();
                        old.unwrap_or_else(std::sync::PoisonError::into_inner).take();
                    }
                    read(&value)
                })();
                outcome.count(&format!("round {iteration}"), result, expected);
            }
        },
    )
}

/// All streams write one buffer in turn; order comes from a lock, completion from the streams.
pub(super) fn in_place(context: &Context) -> Outcome {
    let device = &context.device;
    let shared = prepared!(Tensor::zeros(&[4096], DType::F32, device));
    // Tensors are not written to; the memory below this one is.
    let (buffer, layout) = (shared.buffer(), *shared.layout());
    let turn = Mutex::new(());
    let total = context.threads * context.iterations;
    let mut outcome = context.on_threads(
        |_| {},
        |thread, outcome| {
            for _ in 0..context.iterations {
                outcome.ops += 1;
                let _turn = turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let result = (|| -> Result<_> {
                    let one = Tensor::ones(&[1], DType::F32, device)?;
                    let (sum, one) = (buffer.operand(layout), one.buffer().operand(*one.layout()));
                    let add = Command::binary(BinaryOp::Add, sum, sum, one)?;
                    device.stream()?.record(add)
                })();
                if let Err(error) = result {
                    outcome.error(format!("thread {thread}: {error}"));
                }
            }
        },
    );
    let expected: Vec<u8> = (total as f32).to_ne_bytes().repeat(4096);
    outcome.count("sum", shared.to_bytes(), &expected);
    outcome
}

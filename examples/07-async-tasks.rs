//! Async tasks that hop between threads: a model, its unfinished results and its inputs go along.
//!
//!     cargo run --release --example 07-async-tasks
//!
//! A tensor belongs to no thread, so a task may hold it across an `.await` and go on wherever the runtime
//! puts it. Nothing here holds a thread of the runtime: `ready` awaits room for a call, `to_vec_async` its
//! result. See `docs/async.md`.

use std::sync::Arc;

use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
use millstream::{DType, Device, Result, Tensor};

/// One request: three steps, each perhaps on another thread.
async fn answer(model: Arc<Sequential>, device: Device, seed: u64) -> Result<(usize, f32)> {
    let mut threads = vec![std::thread::current().id()];
    device.ready().await?; // room for what is recorded until the next `await`
    let input = Tensor::randn(&[1, 64], seed, DType::F32, &device)?;
    tokio::task::yield_now().await;
    threads.push(std::thread::current().id());
    device.ready().await?;
    let output = model.forward(&input)?; // recorded here, on whichever stream this thread has
    let sum = output.sum(.., false)?; // a stream that uses another's result waits for it by itself
    let sum = sum.to_vec_async::<f32>().await?[0];
    threads.push(std::thread::current().id());
    threads.sort_unstable_by_key(|id| format!("{id:?}"));
    threads.dedup();
    Ok((threads.len(), sum))
}

fn main() -> Result<()> {
    let device = Device::cpu()?;
    let model = Weights::random(1, DType::F32, &device).load(|weights| {
        Ok(Sequential::new()
            .push(Linear::new(64, 256, true, &weights.child(0))?)
            .push(ReLU)
            .push(Linear::new(256, 16, true, &weights.child(2))?))
    })?;
    let model = Arc::new(model);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .expect("the runtime starts");
    let answers: Vec<_> = runtime.block_on(async {
        let tasks: Vec<_> =
            (0..200).map(|seed| tokio::spawn(answer(model.clone(), device, seed))).collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("a task panicked"));
        }
        answers
    });
    let mut hopped = 0;
    for (seed, answer) in answers.into_iter().enumerate() {
        let (threads, sum) = answer?;
        hopped += usize::from(threads > 1);
        // This is the main thread, which may wait.
        let input = Tensor::randn(&[1, 64], seed as u64, DType::F32, &device)?;
        assert_eq!(sum, model.forward(&input)?.sum(.., false)?.to_scalar::<f32>()?);
    }
    println!("200 answers, all right; {hopped} tasks went on on another thread");
    Ok(())
}

//! Going deeper: eight threads share settled weights and record Commands at the same time.

use std::time::Instant;

use millstream::command::{Activation, Command, Distribution};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Device, Result};

const THREADS: u64 = 8;
const CALLS: u64 = 50;

fn main() -> Result<()> {
    let device = Device::cpu()?;
    let weights = Layout::contiguous(DType::F32, &[256, 256])?;
    let row = Layout::contiguous(DType::F32, &[1, 256])?;

    let weight = device.allocate(weights.dense_bytes())?;
    let normal = Distribution::Normal { mean: 0.0, deviation: 0.06 };
    device.stream()?.record(Command::random(weight.operand(weights), normal, 1, 0)?)?;
    // From here on the weight is complete and immutable, and reading it records nothing.
    weight.settle()?;

    let call = |weight: &Buffer, seed: u64| -> Result<f32> {
        let stream = device.stream()?; // this thread's own, leased on first use
        let (x, y) = (stream.allocate(row.dense_bytes())?, stream.allocate(row.dense_bytes())?);
        stream.record(Command::random(x.operand(row), normal, seed, 0)?)?;
        let (x, y) = (x.operand(row), y.operand(row));
        let weight = weight.operand(weights);
        stream.record(Command::matmul(y, x, weight, None, None, 1.0, Activation::Gelu)?)?;
        Ok(stream.download(y)?.read::<f32>()?.iter().sum())
    };

    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let weight = &weight;
                scope.spawn(move || -> Result<f32> {
                    (0..CALLS).map(|seed| call(weight, thread * CALLS + seed)).sum()
                })
            })
            .collect();
        for (index, thread) in threads.into_iter().enumerate() {
            println!("thread {index}: {:.5}", thread.join().expect("a thread panicked")?);
        }
        Ok(())
    })?;
    println!("{} calls in {:?}", THREADS * CALLS, started.elapsed());
    Ok(())
}

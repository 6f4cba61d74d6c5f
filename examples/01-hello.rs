//! A first tensor, and a model that eight threads share.

use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
use millstream::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {}", device.info().description);

    // Nothing runs yet: work gathers on the thread's stream until somebody needs a result.
    let a = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &device)?;
    let product = a.matmul(&a.t()?)?;
    println!("{product}");

    // Random weights stand in for `Weights::open("model.safetensors", &device)?`.
    let model = Weights::random(1, DType::F32, &device).load(|weights| {
        Ok(Sequential::new()
            .push(Linear::new(2, 16, true, &weights.child("0"))?)
            .push(ReLU)
            .push(Linear::new(16, 3, true, &weights.child("2"))?))
    })?;

    // Any number of threads calls it, each on a stream of its own.
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let model = &model;
                scope.spawn(move || {
                    let input = Tensor::full(&[1, 2], thread as f32, DType::F32, &device)?;
                    model.forward(&input)?.softmax(1)?.to_vec::<f32>()
                })
            })
            .collect();
        for (thread, answer) in threads.into_iter().enumerate() {
            println!("thread {thread}: {:.3?}", answer.join().expect("a thread panicked")?);
        }
        Ok(())
    })
}

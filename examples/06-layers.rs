//! A transformer encoder with PyTorch's names, shared by eight threads.
//!
//!     cargo run --release --example 06-layers [model.safetensors]
//!
//! The file is the state dictionary of an `nn.TransformerEncoder` of two layers with `d_model=128`,
//! `nhead=8`, `dim_feedforward=512`, `batch_first=True` and no final norm; without one, weights are random.

use std::time::Instant;

use millstream::nn::{Module, TransformerEncoder, TransformerOptions, Weights};
use millstream::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let device = Device::cpu()?;
    let weights = match std::env::args().nth(1) {
        Some(path) => Weights::open(path, &device)?,
        None => Weights::random(1, DType::F32, &device),
    };
    let options =
        TransformerOptions { dim_feedforward: 512, batch_first: true, ..Default::default() };
    // Everything that is missing, left over or of another shape would be in one error.
    let model =
        weights.load(|weights| TransformerEncoder::new(128, 8, 2, false, options, weights))?;

    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                let model = &model;
                scope.spawn(move || -> Result<Tensor> {
                    let input = Tensor::randn(&[1, 16, 128], seed, DType::F32, &device)?;
                    model.forward(&input)?.mean(1, false)
                })
            })
            .collect();
        for (index, thread) in threads.into_iter().enumerate() {
            // The tensor crosses threads whether or not it is finished; printing waits for it.
            let mean = thread.join().expect("a thread panicked")?;
            println!("thread {index}: {}", mean.narrow(1, 0, 6)?);
        }
        Ok::<_, millstream::Error>(())
    })?;
    println!("in {:?}", started.elapsed());
    Ok(())
}

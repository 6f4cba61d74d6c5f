//! An M2M100-type translation model, called by eight threads at once: greedy and with beams.
//!
//!     cargo run --release --example 10-translate [folder [token ...]]
//!
//! The folder is a model as Transformers saves it, the tokens are an input. Without them it is the small
//! random model of the tests, whose words mean nothing.

use millstream::nn::models::m2m100::M2M100;
use millstream::{Device, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "crates/nn/fixtures/m2m100".into());
    let mut input: Vec<u32> = arguments.filter_map(|token| token.parse().ok()).collect();
    if input.is_empty() {
        input = vec![91, 5, 17, 33, 8, 60, 2];
    }
    let model = M2M100::open(folder, &Device::cpu()?)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=8)
            .map(|num_beams| {
                let (model, input) = (&model, &input);
                scope.spawn(move || -> Result<Vec<u32>> {
                    let mut options = model.generation_options().clone();
                    options.num_beams = num_beams;
                    Ok(model.generate(&[input], &options)?.swap_remove(0))
                })
            })
            .collect();
        for (index, thread) in threads.into_iter().enumerate() {
            println!("{} beams: {:?}", index + 1, thread.join().expect("a thread panicked")?);
        }
        Ok(())
    })
}

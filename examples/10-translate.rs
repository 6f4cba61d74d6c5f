//! An M2M100-type translation model, called by eight threads at once: greedy and with beams.
//!
//!     cargo run --release --example 10-translate [folder [token ...]]
//!     cargo run --release --features tokenizers --example 10-translate folder source target text
//!
//! The folder is a model as Transformers saves it, the tokens are an input. Without them it is the small
//! random model of the tests, whose words mean nothing. With the feature `tokenizers` it translates text, as in
//! `10-translate m2m100_418M en fr "Good morning."`.

use millstream::nn::models::m2m100::M2M100;
use millstream::{Device, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    #[cfg(feature = "tokenizers")]
    if let [folder, source, target, text] = &arguments[..] {
        use millstream::nn::models::m2m100::Translator;
        let translator = Translator::open(folder, &Device::cpu()?)?;
        println!("{}", translator.translate(text, source, target)?);
        return Ok(());
    }
    let folder = arguments.first().map_or("crates/nn/fixtures/m2m100", String::as_str);
    let mut input: Vec<u32> =
        arguments.iter().skip(1).filter_map(|token| token.parse().ok()).collect();
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

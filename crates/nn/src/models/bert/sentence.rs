//! Sentence embeddings.

use std::fmt;
use std::path::Path;

use millstream_core::Device;
use serde_json::Value;

use super::Bert;
use crate::bytes::filled;
use crate::models::config::{self, Config};
use crate::models::tokenizer::WordPiece;
use crate::weights::check_folder;
use crate::{Description, Result, Tensor};

/// Sentences per batch: enough to fill the device, few enough to bound memory.
const BATCH: usize = 32;
/// Added to the mean square, so that a vector of zeros stays zero.
const SMALLEST: f32 = 1e-24;

/// Turns sentences into vectors. The product of two vectors says how similar the sentences are.
///
/// Vectors are computed as in Sentence Transformers: the mean over the tokens of a sentence, scaled to length 1 if
/// the model asks for it. A folder needs `config.json`, weights and `tokenizer.json`. `modules.json` and
/// `sentence_bert_config.json` are used if they exist.
///
/// # Thread safety
///
/// Any number of threads may call it at once, and each call gets the bits that it would get alone.
///
/// # Example
///
/// ```no_run
/// # millstream_nn::doctest!();
/// use millstream::nn::models::bert::SentenceEncoder;
/// use millstream::Device;
///
/// let encoder = SentenceEncoder::open("all-MiniLM-L6-v2", &Device::cpu()?)?;
/// let vectors = encoder.encode(&["A cat sits on the mat.", "Somewhere a cat is sitting."])?;
/// println!("{}", vectors.matmul(&vectors.t()?)?);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct SentenceEncoder {
    bert: Bert,
    tokenizer: WordPiece,
    max_tokens: usize,
    /// The factor that scales a vector with a mean square of 1 to length 1.
    unit: Option<Tensor>,
}

impl fmt::Debug for SentenceEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pooling = Description::new("Pooling").argument("pooling_mode", "'mean'");
        let description =
            Description::new("SentenceTransformer").child("0", &self.bert).child("1", &pooling);
        match self.unit {
            Some(_) => description.child("2", &Description::new("Normalize")).write(f),
            None => description.write(f),
        }
    }
}

impl SentenceEncoder {
    /// Loads a folder.
    ///
    /// # Blocks when
    ///
    /// Always: files are read and weights loaded.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or are not valid, a model that does more after the encoder than take the mean and
    /// normalize it, weights that do not fit the settings, or no memory.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let normalize = read_modules(folder)?;
        let tokenizer = WordPiece::open(folder.join("tokenizer.json"))?;
        let settings = Config::open_optional(&folder.join("sentence_bert_config.json"))?;
        settings.only("do_lower_case", false)?;
        let asked = match settings.value("max_seq_length") {
            Some(_) => Some(settings.size("max_seq_length")?),
            None => tokenizer.max_tokens(),
        };
        let bert = Bert::open(folder, device)?;
        let (size, most) = (bert.config().hidden_size, bert.config().max_position_embeddings);
        if tokenizer.vocabulary_size() > bert.config().vocab_size {
            let (words, known) = (tokenizer.vocabulary_size(), bert.config().vocab_size);
            let reason = format!("it has {words} words, the model knows {known}");
            return Err(config::invalid(folder.join("tokenizer.json").display(), reason));
        }
        let unit = 1.0 / (size as f64).sqrt();
        let unit = normalize.then(|| Tensor::full(&[size], unit, bert.dtype(), device)?.settle());
        Ok(Self {
            max_tokens: asked.unwrap_or(most).min(most),
            unit: unit.transpose()?,
            bert,
            tokenizer,
        })
    }

    #[cfg(test)]
    pub(super) fn of(bert: Bert, tokenizer: WordPiece, max_tokens: usize) -> Self {
        Self { bert, tokenizer, max_tokens, unit: None }
    }

    /// The encoder.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }

    /// The most tokens of a sentence; further tokens are cut off.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The tokens of a sentence, as the model gets them.
    pub fn tokens(&self, sentence: &str) -> Vec<u32> {
        self.tokenizer.encode(sentence, self.max_tokens)
    }

    /// A vector for every sentence: `[sentences, hidden_size]`.
    ///
    /// # Blocks when
    ///
    /// Recording does; see [`Stream::record`](millstream_core::Stream::record). A call of up to 32 sentences is
    /// recorded as a whole after [`Device::ready`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn encode<S: AsRef<str>>(&self, sentences: &[S]) -> Result<Tensor> {
        let device = self.bert.device();
        let tokens: Vec<_> = sentences.iter().map(|text| self.tokens(text.as_ref())).collect();
        if tokens.is_empty() {
            let shape = [0, self.bert.config().hidden_size];
            return Tensor::zeros(&shape, self.bert.dtype(), &device);
        }
        if tokens.len() <= BATCH {
            return self.encode_batch(&tokens.iter().collect::<Vec<_>>());
        }
        // Sentences of similar length are batched together, so that there is little padding.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&index| tokens[index].len());
        let batches = order
            .chunks(BATCH)
            .map(|chunk| {
                self.encode_batch(&chunk.iter().map(|&index| &tokens[index]).collect::<Vec<_>>())
            })
            .collect::<Result<Vec<_>>>()?;
        let mut places = vec![0i64; order.len()];
        order.iter().enumerate().for_each(|(place, &index)| places[index] = place as i64);
        Tensor::cat(&batches, 0)?.index_select(0, &Tensor::new(&places, &device)?)
    }

    fn encode_batch(&self, sentences: &[&Vec<u32>]) -> Result<Tensor> {
        let device = self.bert.device();
        let longest = sentences.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let shape = [sentences.len(), longest];
        let [rows, columns] = shape;
        let mut ids = filled(i64::from(self.tokenizer.pad_token()), rows, columns)?;
        let (mut seen, mut shares) = (filled(false, rows, columns)?, filled(0f32, rows, columns)?);
        for (row, tokens) in sentences.iter().enumerate() {
            let places = row * longest..row * longest + tokens.len();
            seen[places.clone()].fill(true);
            shares[places.clone()].fill(1.0 / tokens.len() as f32);
            ids[places].iter_mut().zip(*tokens).for_each(|(id, &token)| *id = token.into());
        }
        let ids = Tensor::from_slice(&ids, &shape, &device)?;
        let padded = seen.contains(&false);
        let seen = padded.then(|| Tensor::from_slice(&seen, &shape, &device)).transpose()?;
        let hidden = self.bert.forward(&ids, seen.as_ref(), None)?;
        // The mean over the tokens is a product with their weights; the weight of padding is 0.
        let shares = Tensor::from_slice(&shares, &[sentences.len(), 1, longest], &device)?;
        let mean = shares.to_dtype(hidden.dtype())?.matmul(&hidden)?.squeeze(1)?;
        match &self.unit {
            None => Ok(mean),
            Some(unit) => mean.rms_norm(1, Some(unit), SMALLEST),
        }
    }
}

/// What Sentence Transformers does after the encoder: returns whether the mean is normalized.
fn read_modules(folder: &Path) -> Result<bool> {
    let path = folder.join("modules.json");
    if !path.exists() {
        return Ok(true);
    }
    let error = |reason: String| config::invalid(path.display(), reason);
    let Value::Array(modules) = config::read(&path)? else {
        return Err(error("it is not a list".into()));
    };
    let mut normalize = false;
    for (index, module) in modules.iter().enumerate() {
        let text = |key| module.get(key).and_then(Value::as_str).unwrap_or_default();
        match (index, text("type").rsplit('.').next().unwrap_or_default()) {
            (0, "Transformer") => {}
            (1, "Pooling") => {
                // Only files of this folder are read.
                let name = Path::new(text("path")).file_name().unwrap_or_default();
                read_pooling(&folder.join(name).join("config.json"))?;
            }
            (2, "Normalize") => normalize = true,
            (_, name) => return Err(error(format!("module {index} is {name:?}"))),
        }
    }
    if modules.len() < 2 {
        return Err(error("it has no pooling".into()));
    }
    Ok(normalize)
}

fn read_pooling(path: &Path) -> Result<()> {
    let pooling = Config::open(path)?;
    pooling.only("pooling_mode_mean_tokens", true)?;
    pooling.only("pooling_mode", "mean")?;
    for other in
        ["cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    {
        pooling.only(&format!("pooling_mode_{other}"), false)?;
    }
    Ok(())
}

//! Embeddings of tokens and positions.

use millstream_core::{Device, LayerName};

use super::M2M100Config;
use crate::bytes::{collected, filled, room};
use crate::error::invalid;
use crate::{Description, Result, Tensor, Weights};

/// The most elements of the table of positions, whose size is in the settings. Real models have a few million.
const MAX_ELEMENTS: usize = 1 << 25;

/// The table of tokens, scaled, and the table of positions.
pub struct Embeddings {
    tokens: Tensor,
    places: Tensor,
    config: M2M100Config,
    name: LayerName,
}

/// The tokens of several inputs, padded to the length of the longest.
pub struct Padded {
    pub ids: Vec<u32>,
    pub shape: [usize; 2],
}

impl Embeddings {
    pub fn new(config: &M2M100Config, table: &Tensor, weights: &Weights) -> Result<Self> {
        let name = weights.layer_name("Embedding");
        if weights.has_problems() {
            let tokens = table.clone().settle()?;
            return Ok(Self { places: tokens.clone(), tokens, config: config.clone(), name });
        }
        let tokens = match config.scale_embedding {
            true => table.mul((config.d_model as f64).sqrt())?,
            false => table.clone(),
        };
        let Some(places) = sinusoids(config)? else {
            let (places, size) = (config.max_position_embeddings, config.d_model);
            return invalid("m2m100", format!("{places} places of size {size}"));
        };
        let shape = [places.len() / config.d_model, config.d_model];
        let places = Tensor::from_slice(&places, &shape, &table.device())?;
        Ok(Self {
            tokens: tokens.settle()?,
            places: places.to_dtype(table.dtype())?.settle()?,
            config: config.clone(),
            name,
        })
    }

    /// The embeddings as Transformers' models print them.
    pub fn describe(&self) -> Description {
        let kind = match self.config.scale_embedding {
            true => "M2M100ScaledWordEmbedding",
            false => "Embedding",
        };
        let description = Description::new(kind).value(self.config.vocab_size);
        let description = description.value(self.config.d_model);
        description.argument("padding_idx", self.config.pad_token_id)
    }

    pub fn device(&self) -> Device {
        self.tokens.device()
    }

    /// Pads inputs. All tokens must be in the vocabulary, and all inputs must fit the table of positions.
    pub fn pad<I: AsRef<[u32]>>(&self, op: &'static str, inputs: &[I]) -> Result<Padded> {
        let (pad, vocabulary) = (self.config.pad_token_id, self.config.vocab_size);
        let longest = inputs.iter().map(|input| input.as_ref().len()).max().unwrap_or(0);
        let most = self.config.max_position_embeddings;
        if longest > most {
            return invalid(op, format!("{longest} tokens, but the model has {most} positions"));
        }
        let mut ids = filled(pad, inputs.len(), longest)?;
        for (index, input) in inputs.iter().map(AsRef::as_ref).enumerate() {
            if input.iter().all(|&token| token == pad) {
                return invalid(op, format!("input {index} has no tokens"));
            }
            if let Some(token) = input.iter().find(|&&token| token as usize >= vocabulary) {
                let reason =
                    format!("token {token} in input {index}, but the vocabulary has {vocabulary}");
                return invalid(op, reason);
            }
            ids[index * longest..][..input.len()].copy_from_slice(input);
        }
        Ok(Padded { ids, shape: [inputs.len(), longest] })
    }

    /// The vectors of inputs. Padding has no position, and does not shift the positions after it.
    pub fn inputs(&self, padded: &Padded) -> Result<Tensor> {
        let pad = self.config.pad_token_id;
        let mut places = room(padded.ids.len())?;
        for input in padded.ids.chunks(padded.shape[1].max(1)) {
            let mut place = pad;
            places.extend(input.iter().map(|&token| {
                place += u32::from(token != pad);
                if token == pad { pad } else { place }
            }));
        }
        self.rows(&padded.ids, &places, &padded.shape)
    }

    /// The vectors of tokens at one position of several outputs.
    pub fn step(&self, tokens: &[u32], place: usize, shape: &[usize]) -> Result<Tensor> {
        let pad = self.config.pad_token_id;
        let here = pad + 1 + place as u32;
        let place = |&token: &u32| if token == pad { pad } else { here };
        let places = collected(tokens.len(), tokens.iter().map(place))?;
        self.rows(tokens, &places, shape)
    }

    fn rows(&self, tokens: &[u32], places: &[u32], shape: &[usize]) -> Result<Tensor> {
        let _layer = self.name.enter();
        let rows = |table: &Tensor, numbers: &[u32]| {
            let numbers = collected(numbers.len(), numbers.iter().copied().map(i64::from))?;
            table.embedding(&Tensor::from_slice(&numbers, shape, &self.device())?)
        };
        rows(&self.tokens, tokens)?.add(&rows(&self.places, places)?)
    }
}

/// A row for every position: sines, then cosines. Positions begin after the id of the padding token, whose row is
/// zero. `None` if the table would be too large.
fn sinusoids(config: &M2M100Config) -> Result<Option<Vec<f32>>> {
    let (size, pad) = (config.d_model, config.pad_token_id as usize);
    let half = size / 2;
    let rows = config.max_position_embeddings.saturating_add(pad).saturating_add(1);
    if half < 2 || rows.saturating_mul(size) > MAX_ELEMENTS {
        return Ok(None);
    }
    let step = (10000f64.ln() / (half - 1) as f64) as f32;
    let rates: Vec<f32> = (0..half).map(|index| (index as f32 * -step).exp()).collect();
    let mut table = filled(0f32, rows, size)?;
    for (place, row) in table.chunks_exact_mut(size).enumerate().filter(|(place, _)| *place != pad)
    {
        for (index, &rate) in rates.iter().enumerate() {
            let angle = place as f32 * rate;
            (row[index], row[half + index]) = (angle.sin(), angle.cos());
        }
    }
    Ok(Some(table))
}

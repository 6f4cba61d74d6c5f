//! Whole models, loaded from folders that Transformers has saved.
//!
//! - [`bert`]: encoders of the BERT type, and sentence embeddings.
//! - [`m2m100`]: translation models of the M2M100 and NLLB type, with greedy and beam decoding.
//! - [`tokenizer`]: from text to the tokens of BERT-type models.
//!
//! A model does not change after it is loaded. Any number of threads may call it at once, and each call gets the bits
//! that it would get alone.

pub mod bert;
mod config;
mod json;
pub mod m2m100;
pub mod tokenizer;

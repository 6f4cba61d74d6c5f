//! Whole models, loaded from the folders that Transformers saves them in.
//!
//! - [`bert`]: encoders of the BERT type, and sentence embeddings made with them.
//! - [`tokenizer`]: from text to the numbers that BERT-type models take.
//!
//! A model does not change once it is loaded. Any number of threads may call it at once, and each call gets
//! the bits that it would get alone.

pub mod bert;
mod blocks;
mod config;
pub mod tokenizer;

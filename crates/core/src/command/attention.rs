//! Attention.

use std::ops::Range;

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// Where queries stand among the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// Query `i` stands at key `i + offset`.
    Start {
        /// Keys that were there before the first query.
        offset: i64,
    },
    /// The last query stands at the last key: query `i` of `q` at key `i + k - q`, where `k` is the number
    /// of keys, or the key length of the batch where lengths are given.
    End,
}

/// The keys that a query sees, counted from where it stands; no bound is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyWindow {
    /// Where queries stand.
    pub align: Alignment,
    /// How many keys before its own place a query sees.
    pub left: Option<u32>,
    /// How many keys after its own place a query sees; 0 is causal attention.
    pub right: Option<u32>,
}

impl KeyWindow {
    /// Every query sees all keys.
    pub const ALL: Self = Self { align: Alignment::End, left: None, right: None };

    /// A query sees keys up to its own place.
    pub const fn causal(align: Alignment) -> Self {
        Self { align, left: None, right: Some(0) }
    }

    /// Whether every query sees all keys.
    pub const fn is_all(self) -> bool {
        self.left.is_none() && self.right.is_none()
    }

    /// The keys that one of `queries` sees of so many.
    pub fn seen(self, query: usize, queries: usize, keys: usize) -> Range<usize> {
        // Any two numbers of 64 bits have a sum in 128.
        let (query, queries, all) = (query as i128, queries as i128, keys as i128);
        let place = match self.align {
            Alignment::Start { offset } => query + i128::from(offset),
            Alignment::End => query + all - queries,
        };
        let end = self.right.map_or(all, |right| (place + i128::from(right) + 1).clamp(0, all));
        let start = self.left.map_or(0, |left| (place - i128::from(left)).clamp(0, end));
        start as usize..end as usize
    }
}

/// Parameters of attention. Query is `[batch, heads, length, size]`; key and value may have fewer
/// heads, each serving an equal group of query heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionParams {
    /// Multiplies the scores.
    pub scale: f32,
    /// Limits scaled scores softly, before the mask: `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
    /// The keys that a query sees.
    pub window: KeyWindow,
    /// Whether a mask is given: boolean, true where a key is seen, or added to the scaled scores.
    pub mask: bool,
    /// Whether key lengths are given: keys at or beyond them are not seen, and not even read.
    pub lengths: bool,
}

impl AttentionParams {
    /// All keys are seen, and scores are but scaled.
    pub const fn new(scale: f32) -> Self {
        Self { scale, softcap: None, window: KeyWindow::ALL, mask: false, lengths: false }
    }

    /// The same; with `causal`, a query sees keys up to its own place, counted from the end.
    pub const fn causal_if(self, causal: bool) -> Self {
        let window = if causal { KeyWindow::causal(Alignment::End) } else { KeyWindow::ALL };
        Self { window, ..self }
    }
}

impl<B: BufferLike> Command<B> {
    /// `dst = softmax(scale · query × keyᵀ + mask) × value` for every head.
    ///
    /// `query` is `[batch, heads, queries, size]`, `key` is `[batch, key_heads, keys, size]`, `value` is
    /// `[batch, key_heads, keys, value_size]` and `dst` is `[batch, heads, queries, value_size]`. Each
    /// key head serves `heads / key_heads` query heads that follow each other. The mask broadcasts to
    /// `[batch, heads, queries, keys]`; it is `bool`, true where a key is seen, or of the type of the
    /// others and added to the scores, where -∞ hides a key. With `causal`, query `i` sees key `j`
    /// where `j + queries <= i + keys`.
    ///
    /// A query that sees no key gives zeros. Sums are kept in `f32` (`f64` for `f64`).
    ///
    /// # Errors
    ///
    /// Ranks other than 4, sizes, heads or types that do not match, a type that is not floating point, a
    /// scale that is not finite, or operands that do not fit their buffers or overlap.
    pub fn attention(
        dst: Operand<B>,
        query: Operand<B>,
        key: Operand<B>,
        value: Operand<B>,
        mask: Option<Operand<B>>,
        scale: f32,
        causal: bool,
    ) -> Result<Self> {
        let params = AttentionParams::new(scale).causal_if(causal);
        Self::attention_with(params, dst, [query, key, value], mask, None)
    }

    /// As [`attention`](Self::attention), with all its parameters: query, key and value, a mask, and key
    /// lengths `[batch]`, `i32` or `i64`, which count as `0 ..= keys`. The parameters `mask` and `lengths`
    /// follow from what is given.
    ///
    /// # Errors
    ///
    /// As for [`attention`](Self::attention), and a soft cap that is not a positive number.
    pub fn attention_with(
        params: AttentionParams,
        dst: Operand<B>,
        inputs: [Operand<B>; 3],
        mask: Option<Operand<B>>,
        lengths: Option<Operand<B>>,
    ) -> Result<Self> {
        let params = AttentionParams { mask: mask.is_some(), lengths: lengths.is_some(), ..params };
        let inputs = inputs.into_iter().chain(mask).chain(lengths);
        Self::new(Op::Attention { params }, [dst], inputs)
    }
}

#[cfg(test)]
mod tests;

//! Attention.

use std::ops::Range;

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// The position of each query in the sequence of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// Query `i` has the position of key `i + offset`.
    Start {
        /// Keys that were there before the first query.
        offset: i64,
    },
    /// The last query has the position of the last key: of `q` queries, query `i` has the position of key `i + k -
    /// q`. Here `k` is the number of keys, or the key length of the batch if lengths are given.
    End,
}

/// The keys that a query sees, relative to its own position. A side without a limit is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyWindow {
    /// The position of each query.
    pub align: Alignment,
    /// How many keys before its own position a query sees.
    pub left: Option<u32>,
    /// How many keys after its own position a query sees. With 0, attention is causal.
    pub right: Option<u32>,
}

impl KeyWindow {
    /// Every query sees all keys.
    pub const ALL: Self = Self { align: Alignment::End, left: None, right: None };

    /// A query sees keys up to its own position.
    pub const fn causal(align: Alignment) -> Self {
        Self { align, left: None, right: Some(0) }
    }

    /// Whether every query sees all keys.
    pub const fn is_all(self) -> bool {
        self.left.is_none() && self.right.is_none()
    }

    /// The range of keys that one query sees, for this many queries and keys.
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
    /// Whether there is a mask: boolean, where true means that the key is seen, or numbers that are added to the
    /// scaled scores.
    pub mask: bool,
    /// Whether there are key lengths. Keys at or beyond the length are not seen, and are not read.
    pub lengths: bool,
}

impl AttentionParams {
    /// Every query sees all keys; scores are scaled and nothing else.
    pub const fn new(scale: f32) -> Self {
        Self { scale, softcap: None, window: KeyWindow::ALL, mask: false, lengths: false }
    }

    /// The same parameters. If `causal`, a query sees keys up to its own position, with the last query at the last
    /// key.
    pub const fn causal_if(self, causal: bool) -> Self {
        let window = if causal { KeyWindow::causal(Alignment::End) } else { KeyWindow::ALL };
        Self { window, ..self }
    }
}

impl<B: BufferLike> Command<B> {
    /// `dst = softmax(scale · query × keyᵀ + mask) × value` for every head.
    ///
    /// `query` is `[batch, heads, queries, size]`, `key` is `[batch, key_heads, keys, size]`, `value` is `[batch,
    /// key_heads, keys, value_size]` and `dst` is `[batch, heads, queries, value_size]`. Each key head serves `heads
    /// / key_heads` consecutive query heads.
    ///
    /// The mask broadcasts to `[batch, heads, queries, keys]`. A `bool` mask is true where a key is seen. A mask of
    /// the same type as the other operands is added to the scores; -∞ hides a key. With `causal`, query `i` sees key
    /// `j` if `j + queries <= i + keys`.
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

    /// As [`attention`](Self::attention), with all parameters. Key lengths are `[batch]` of `i32` or `i64`, and are
    /// limited to `0 ..= keys`. The fields `mask` and `lengths` of the parameters are set from the operands that are
    /// given.
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

//! Attention.

use super::{AttentionParams, BufferLike, Command, Op, Operand};
use crate::Result;

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
        let params = AttentionParams { scale, causal, mask: mask.is_some() };
        let inputs = [query, key, value].into_iter().chain(mask);
        Self::new(Op::Attention { params }, [dst], inputs)
    }
}

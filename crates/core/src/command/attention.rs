//! Attention.

use super::check::Check;
use super::{AttentionParams, BufferLike, Command, Op, Operand};
use crate::{DType, Result};

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
        let check = Check("attention");
        check.float(&dst.layout)?;
        for operand in [&query, &key, &value] {
            check.same_dtype(&operand.layout, &dst.layout)?;
        }
        for operand in [&dst, &query, &key, &value] {
            check.that(operand.layout.rank() == 4, || {
                format!("an operand of shape {:?}, needs 4 axes", operand.layout.shape())
            })?;
        }
        check.that(scale.is_finite(), || format!("a scale of {scale}"))?;
        let shape = |operand: &Operand<B>| -> [usize; 4] {
            std::array::from_fn(|axis| operand.layout.shape()[axis])
        };
        let ([batch, heads, queries, size], [_, key_heads, keys, _]) = (shape(&query), shape(&key));
        let value_size = shape(&value)[3];
        let fits = shape(&key) == [batch, key_heads, keys, size]
            && shape(&value) == [batch, key_heads, keys, value_size]
            && shape(&dst) == [batch, heads, queries, value_size];
        check.that(fits, || {
            format!(
                "query {:?}, key {:?}, value {:?} and output {:?} do not match",
                query.layout.shape(),
                key.layout.shape(),
                value.layout.shape(),
                dst.layout.shape()
            )
        })?;
        check.that(heads == 0 || (key_heads > 0 && heads.is_multiple_of(key_heads)), || {
            format!("{heads} heads do not split among {key_heads} key heads")
        })?;
        let params = AttentionParams { scale, causal, mask: mask.is_some() };
        let mask = match mask {
            Some(mask) => {
                if mask.layout.dtype() != DType::Bool {
                    check.same_dtype(&mask.layout, &dst.layout)?;
                }
                let Ok(layout) = mask.layout.broadcast_to(&[batch, heads, queries, keys]) else {
                    return check.fail(format!(
                        "a mask of shape {:?} does not broadcast to {:?}",
                        mask.layout.shape(),
                        [batch, heads, queries, keys]
                    ));
                };
                Some(Operand { buffer: mask.buffer, layout })
            }
            None => None,
        };
        let inputs = [query, key, value].into_iter().chain(mask);
        Self::assemble(Op::Attention { params }, [dst], inputs)
    }
}

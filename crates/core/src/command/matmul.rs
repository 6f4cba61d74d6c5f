//! Matrix products.

use super::check::Check;
use super::{Activation, BufferLike, Command, InPlace, Op, Operand};
use crate::Result;

/// What is done to each element of a product before it is stored:
/// `activation(scale · product + bias + residual)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Multiplies the product.
    pub scale: f32,
    /// Whether a bias is given.
    pub bias: bool,
    /// Whether a residual is given.
    pub residual: bool,
    /// Applied last.
    pub activation: Activation,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self { scale: 1.0, bias: false, residual: false, activation: Activation::None }
    }
}

impl<B: BufferLike> Command<B> {
    /// `dst = activation(scale · a × b + bias + residual)` over the last two axes.
    ///
    /// `a` is `[…, m, k]`, `b` is `[…, k, n]`, `dst` is `[…, m, n]`; leading axes of `a` and `b`
    /// broadcast to those of `dst`, bias and residual broadcast to `dst`. Transposed operands are
    /// transposed layouts. Sums are kept in `f32` (`f64` for `f64`), in an order that depends on `k`
    /// alone.
    ///
    /// # Errors
    ///
    /// Ranks below 2, sizes that do not match, types that differ or are not floating point, or operands
    /// that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn matmul(
        dst: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let check = Check("matmul");
        check.float(&dst.layout)?;
        for input in [&a, &b].into_iter().chain(&bias).chain(&residual) {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        let shapes = || {
            format!("{:?} × {:?} → {:?}", a.layout.shape(), b.layout.shape(), dst.layout.shape())
        };
        let (rank, a_rank, b_rank) = (dst.layout.rank(), a.layout.rank(), b.layout.rank());
        if rank < 2 || a_rank < 2 || b_rank < 2 {
            return check.fail(format!("{}: ranks below 2", shapes()));
        }
        let (m, n) = (dst.layout.shape()[rank - 2], dst.layout.shape()[rank - 1]);
        let k = a.layout.shape()[a_rank - 1];
        if a.layout.shape()[a_rank - 2] != m || b.layout.shape()[b_rank - 2..] != [k, n] {
            return check.fail(format!("{}: sizes do not match", shapes()));
        }
        let leading = |operand: &Operand<B>, rows: usize, columns: usize| {
            let mut shape = smallvec::SmallVec::<[usize; 8]>::from_slice(dst.layout.shape());
            shape[rank - 2] = rows;
            shape[rank - 1] = columns;
            operand.layout.broadcast_to(&shape)
        };
        let (Ok(a_layout), Ok(b_layout)) = (leading(&a, m, k), leading(&b, k, n)) else {
            return check.fail(format!("{}: leading axes do not broadcast", shapes()));
        };
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let mut inputs = smallvec::SmallVec::<[Operand<B>; 4]>::new();
        inputs.push(Operand { buffer: a.buffer, layout: a_layout });
        inputs.push(Operand { buffer: b.buffer, layout: b_layout });
        for extra in bias.into_iter().chain(residual) {
            inputs.push(check.broadcast(extra, &dst.layout)?);
        }
        Self::assemble(Op::MatMul { epilogue }, [dst], inputs, InPlace::No)
    }
}

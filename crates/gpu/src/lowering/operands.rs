//! The operands of a matrix product, and how a large product is cut into smaller ones.

use millstream_core::{
    BoundCommand, Command, Epilogue, MatMulOperands, Op, Operand, RawBuffer, Result,
};
use smallvec::SmallVec;

/// The operands of a product. All have the rank of `dst`, and all except `lhs` and `rhs` have its shape.
#[derive(Clone, Copy, Debug)]
pub struct ProductOperands<B> {
    /// The result.
    pub dst: Operand<B>,
    /// The left operand, `m × k`.
    pub lhs: Operand<B>,
    /// The right operand, `k × n`.
    pub rhs: Operand<B>,
    /// The bias, if there is one.
    pub bias: Option<Operand<B>>,
    /// The residual, if there is one.
    pub residual: Option<Operand<B>>,
    /// The scale and activation, and which of the last two operands exist.
    pub epilogue: Epilogue,
}

impl<B> ProductOperands<B> {
    /// The same operands with buffers of another kind.
    ///
    /// # Errors
    ///
    /// The first error of `map`.
    pub fn try_map<C, E>(
        &self,
        mut map: impl FnMut(&B) -> Result<C, E>,
    ) -> Result<ProductOperands<C>, E> {
        let mut operand = |operand: &Operand<B>| -> Result<_, E> {
            Ok(Operand { buffer: map(&operand.buffer)?, layout: operand.layout })
        };
        Ok(ProductOperands {
            dst: operand(&self.dst)?,
            lhs: operand(&self.lhs)?,
            rhs: operand(&self.rhs)?,
            bias: self.bias.as_ref().map(&mut operand).transpose()?,
            residual: self.residual.as_ref().map(&mut operand).transpose()?,
            epilogue: self.epilogue,
        })
    }
}

impl ProductOperands<RawBuffer> {
    /// The operands of a Command, if it is a product.
    pub fn of(command: &BoundCommand) -> Option<Self> {
        let Op::MatMul { epilogue } = command.op() else { return None };
        let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
        let (bias, residual) = (bias.copied(), residual.copied());
        Some(Self { dst: *dst, lhs: *a, rhs: *b, bias, residual, epilogue: *epilogue })
    }

    /// The Command with these operands.
    ///
    /// # Errors
    ///
    /// Operands that do not fit a product.
    pub(super) fn command(&self) -> Result<BoundCommand> {
        let Self { dst, lhs, rhs, bias, residual, epilogue } = *self;
        Command::matmul(dst, lhs, rhs, bias, residual, epilogue.scale, epilogue.activation)
    }

    /// The product with its scale and nothing else, with the sums in another place.
    pub fn bare(&self, sums: Operand<RawBuffer>) -> Self {
        let epilogue = Epilogue { scale: self.epilogue.scale, ..Epilogue::default() };
        Self { dst: sums, bias: None, residual: None, epilogue, ..*self }
    }

    /// The number of multiplications.
    pub(super) fn multiplications(&self) -> usize {
        let k = self.lhs.layout.shape().last().copied().unwrap_or(0);
        self.dst.layout.elements().saturating_mul(k)
    }

    /// Cuts it into products of at most `results` results each: first along the batch, then along rows. A row is
    /// never cut.
    ///
    /// # Errors
    ///
    /// Operands of a Command never give one.
    pub(super) fn cut(&self, results: usize) -> Result<SmallVec<[Self; 1]>> {
        let mut pieces = SmallVec::new();
        self.cut_from(0, results, &mut pieces)?;
        Ok(pieces)
    }

    fn cut_from(&self, axis: usize, results: usize, into: &mut SmallVec<[Self; 1]>) -> Result<()> {
        let layout = &self.dst.layout;
        if layout.elements() <= results || axis + 1 >= layout.rank() {
            into.push(*self);
            return Ok(());
        }
        let size = layout.shape()[axis];
        let along = (results / (layout.elements() / size)).max(1);
        for start in (0..size).step_by(along) {
            let piece = self.slice(axis, start, along.min(size - start))?;
            piece.cut_from(axis + 1, results, into)?;
        }
        Ok(())
    }

    fn slice(&self, axis: usize, start: usize, count: usize) -> Result<Self> {
        let slice = |operand: &Operand<RawBuffer>| -> Result<Operand<RawBuffer>> {
            Ok(Operand::new(operand.buffer, operand.layout.slice(axis, start, count, 1)?))
        };
        // The right operand does not have the rows of the result.
        let is_row = axis + 2 == self.dst.layout.rank();
        Ok(Self {
            dst: slice(&self.dst)?,
            lhs: slice(&self.lhs)?,
            rhs: if is_row { self.rhs } else { slice(&self.rhs)? },
            bias: self.bias.as_ref().map(slice).transpose()?,
            residual: self.residual.as_ref().map(slice).transpose()?,
            epilogue: self.epilogue,
        })
    }
}

#[cfg(test)]
mod tests;

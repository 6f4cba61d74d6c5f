//! What a matrix product is made of, and how a large one is cut into smaller ones.

use millstream_core::{
    BoundCommand, Command, Epilogue, MatMulOperands, Op, Operand, RawBuffer, Result,
};
use smallvec::SmallVec;

/// The operands of a product. All have the rank of `dst`, and all but `lhs` and `rhs` its shape.
#[derive(Clone, Copy, Debug)]
pub struct ProductOperands<B> {
    /// The result.
    pub dst: Operand<B>,
    /// The left operand, `m × k`.
    pub lhs: Operand<B>,
    /// The right operand, `k × n`.
    pub rhs: Operand<B>,
    /// What is added, if anything is.
    pub bias: Option<Operand<B>>,
    /// What else is added, if anything is.
    pub residual: Option<Operand<B>>,
    /// Which of the last two there are, and what is done to each sum.
    pub epilogue: Epilogue,
}

impl<B> ProductOperands<B> {
    /// The same with buffers of another kind.
    ///
    /// # Errors
    ///
    /// The first that `map` gave.
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
    /// Those of a Command, if it is a product.
    pub fn of(command: &BoundCommand) -> Option<Self> {
        let Op::MatMul { epilogue } = command.op() else { return None };
        let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
        let (bias, residual) = (bias.copied(), residual.copied());
        Some(Self { dst: *dst, lhs: *a, rhs: *b, bias, residual, epilogue: *epilogue })
    }

    /// The Command again.
    ///
    /// # Errors
    ///
    /// Operands that no product has.
    pub(super) fn command(&self) -> Result<BoundCommand> {
        let Self { dst, lhs, rhs, bias, residual, epilogue } = *self;
        Command::matmul(dst, lhs, rhs, bias, residual, epilogue.scale, epilogue.activation)
    }

    /// The product without anything but its scale, with its sums elsewhere.
    pub fn bare(&self, sums: Operand<RawBuffer>) -> Self {
        let epilogue = Epilogue { scale: self.epilogue.scale, ..Epilogue::default() };
        Self { dst: sums, bias: None, residual: None, epilogue, ..*self }
    }

    /// Multiplications that it takes.
    pub(super) fn multiplications(&self) -> usize {
        let k = self.lhs.layout.shape().last().copied().unwrap_or(0);
        self.dst.layout.elements().saturating_mul(k)
    }

    /// Cuts it into products of at most so many results each: along the batch, then along rows. A row is
    /// never cut.
    ///
    /// # Errors
    ///
    /// None that a product of a Command has.
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
        // The right operand has no rows of the result.
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

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
    /// The left factor, `m × k`.
    pub lhs: Operand<B>,
    /// The right factor, `k × n`.
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
        // The right factor has no rows of the result.
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
mod tests {
    use millstream_core::{Activation, DType, Layout};

    use super::*;

    fn product(shape: &[usize]) -> ProductOperands<RawBuffer> {
        let operand = |at: usize, shape: &[usize]| {
            let layout = Layout::contiguous(DType::F16, shape).unwrap();
            Operand::new(RawBuffer { address: at << 20, bytes: layout.extent_bytes() }, layout)
        };
        let (rank, k) = (shape.len(), 5);
        let with = |m: usize, n: usize| [&shape[..rank - 2], &[m, n]].concat();
        let (m, n) = (shape[rank - 2], shape[rank - 1]);
        let command = Command::matmul(
            operand(1, shape),
            operand(2, &with(m, k)),
            operand(3, &with(k, n)),
            Some(operand(4, &[n])),
            Some(operand(5, shape)),
            0.5,
            Activation::Gelu,
        )
        .unwrap();
        ProductOperands::of(&command).unwrap()
    }

    /// Every result lies in exactly one piece, and a piece is a product of its own.
    fn check(shape: &[usize], results: usize) -> Vec<Vec<usize>> {
        let whole = product(shape);
        let pieces = whole.cut(results).unwrap();
        let mut met = vec![0; whole.dst.layout.elements()];
        for piece in &pieces {
            piece.command().unwrap();
            let layout = &piece.dst.layout;
            for flat in 0..layout.elements() {
                let (mut left, mut at) = (flat, layout.offset());
                for axis in (0..layout.rank()).rev() {
                    at += left % layout.shape()[axis] * layout.strides()[axis];
                    left /= layout.shape()[axis];
                }
                met[at] += 1;
            }
        }
        assert!(met.iter().all(|&times| times == 1), "{shape:?} in pieces of {results}");
        pieces.iter().map(|piece| piece.dst.layout.shape().to_vec()).collect()
    }

    #[test]
    fn a_small_product_is_left_whole() {
        assert_eq!(check(&[3, 4], 12), [[3, 4]]);
        assert_eq!(check(&[2, 3, 4], 100), [[2, 3, 4]]);
    }

    #[test]
    fn batches_are_cut_before_rows_and_rows_never() {
        assert_eq!(check(&[7, 4], 12), [[3, 4], [3, 4], [1, 4]]);
        assert_eq!(check(&[5, 3, 4], 24), [[2, 3, 4], [2, 3, 4], [1, 3, 4]]);
        assert_eq!(check(&[2, 3, 4], 8), [[1, 2, 4], [1, 1, 4], [1, 2, 4], [1, 1, 4]]);
        assert_eq!(check(&[2, 9], 4), [[1, 9], [1, 9]]);
    }

    #[test]
    fn a_bare_product_has_its_scale_and_nothing_else() {
        let whole = product(&[3, 4]);
        let bare = whole.bare(whole.dst);
        assert_eq!(bare.epilogue, Epilogue { scale: 0.5, ..Epilogue::default() });
        assert!(bare.bias.is_none() && bare.residual.is_none());
    }
}

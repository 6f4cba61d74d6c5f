//! Matrix products as numbers: sizes, strides and what is done to each element.

use millstream_core::{
    Activation, BoundCommand, DType, Epilogue, MAX_RANK, MatMulOperands, Operand, RawBuffer,
};
use smallvec::SmallVec;

use crate::Slot;
use crate::walk::{Axes, is_wide};

/// One of the matrices of a product. An absent one has strides of 0 and stands where the output does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub slot: Slot,
    pub dtype: DType,
    /// Where it starts, in elements.
    pub offset: usize,
    /// Distance of rows, in elements.
    pub row: usize,
    /// Distance of columns, in elements.
    pub column: usize,
}

impl Matrix {
    /// The last two axes of an operand.
    pub fn of(operand: &Operand<RawBuffer>) -> Self {
        let (rank, strides) = (operand.layout.rank(), operand.layout.strides());
        Self {
            slot: operand.into(),
            dtype: operand.layout.dtype(),
            offset: operand.layout.offset(),
            row: strides[rank - 2],
            column: strides[rank - 1],
        }
    }

    /// Stands for a matrix that is not there.
    pub fn absent(self) -> Self {
        Self { offset: 0, row: 0, column: 0, ..self }
    }

    /// Its transpose.
    pub fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    fn start(&self) -> Option<usize> {
        match self.slot {
            Slot::Address(address) => Some(address + self.offset * self.dtype.size()),
            _ => None,
        }
    }
}

pub(super) const DST: usize = 0;
pub(super) const A: usize = 1;
pub(super) const B: usize = 2;
pub(super) const BIAS: usize = 3;
pub(super) const RESIDUAL: usize = 4;

/// `activation(scale · a × b + bias + residual)` for every matrix of a batch.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: Axes<5>,
    /// Output, `a` (lhs), `b` (rhs), bias and residual. In a product of integers the last two are the zero points
    /// of `a` and of `b`.
    pub matrices: [Matrix; 5],
    pub bias: bool,
    pub residual: bool,
    pub scale: f32,
    pub activation: Activation,
    /// Whether positions need 64 bits.
    pub wide: bool,
}

impl Product {
    /// That of a Command whose operands are `dst ← a, b, [bias], [residual]`. `None` where there is
    /// nothing to compute.
    pub fn of(command: &BoundCommand, epilogue: &Epilogue) -> Option<Self> {
        let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
        Self::from_operands(dst, [a, b], [bias, residual], epilogue)
    }

    /// That of 8-bit integers: zero points take the places of bias and residual.
    pub fn of_integers(
        dst: &Operand<RawBuffer>,
        sides: [&Operand<RawBuffer>; 2],
        zeros: [Option<&Operand<RawBuffer>>; 2],
    ) -> Option<Self> {
        let [bias, residual] = zeros.map(|zero| zero.is_some());
        let epilogue = Epilogue { bias, residual, ..Epilogue::default() };
        Self::from_operands(dst, sides, zeros, &epilogue)
    }

    /// The last two are what is added, or zero points.
    pub fn from_operands(
        dst: &Operand<RawBuffer>,
        [a, b]: [&Operand<RawBuffer>; 2],
        [bias, residual]: [Option<&Operand<RawBuffer>>; 2],
        epilogue: &Epilogue,
    ) -> Option<Self> {
        if dst.layout.is_empty() {
            return None;
        }
        let rank = dst.layout.rank();
        let (m, n) = (dst.layout.shape()[rank - 2], dst.layout.shape()[rank - 1]);
        let k = a.layout.shape()[rank - 1];
        let operands = [Some(dst), Some(a), Some(b), bias, residual];
        let absent = Matrix::of(dst).absent();
        let matrices = operands.map(|operand| operand.map_or(absent, Matrix::of));
        let batch = (0..rank - 2).map(|axis| {
            let stride = |operand: Option<&Operand<RawBuffer>>| {
                operand.map_or(0, |operand| operand.layout.strides()[axis])
            };
            (dst.layout.shape()[axis], operands.map(stride))
        });
        let mut product = Self {
            m,
            n,
            k,
            batch: Axes::merge(std::iter::empty()),
            matrices,
            bias: epilogue.bias,
            residual: epilogue.residual,
            scale: epilogue.scale,
            activation: epilogue.activation,
            wide: is_wide(operands.into_iter().flatten()),
        };
        product.take_batch(batch.collect());
        Some(product)
    }

    /// Takes axes of the batch, outermost first. Those that one `b` serves become rows, where memory
    /// allows it: fewer, larger products.
    pub fn take_batch(&mut self, mut axes: SmallVec<[(usize, [usize; 5]); MAX_RANK]>) {
        axes.retain(|axis| axis.0 != 1);
        // The zero points of `b` have no rows.
        let integer = self.matrices[DST].dtype != self.matrices[A].dtype;
        while let Some(&(size, strides)) = axes.last() {
            if strides[B] != 0 || (integer && strides[RESIDUAL] != 0) {
                break;
            }
            let fits = [DST, A, BIAS, RESIDUAL]
                .iter()
                .all(|&which| strides[which] == self.m * self.matrices[which].row);
            if self.m == 1 {
                for which in [DST, A, BIAS, RESIDUAL] {
                    self.matrices[which].row = strides[which];
                }
            } else if !fits {
                break;
            }
            self.m *= size;
            axes.pop();
        }
        self.batch = Axes::merge(axes.into_iter());
    }

    /// The same product with rows and columns exchanged: `dstᵀ = bᵀ × aᵀ`.
    pub fn transposed(mut self) -> Self {
        (self.m, self.n) = (self.n, self.m);
        self.matrices = self.matrices.map(Matrix::transposed);
        self.matrices.swap(A, B);
        for axis in &mut self.batch.axes {
            axis.1.swap(A, B);
        }
        self
    }

    /// The slots in the order of the programs.
    pub fn slots(&self) -> SmallVec<[Slot; 6]> {
        self.matrices.iter().map(|matrix| matrix.slot).collect()
    }

    /// Whether 16 bytes of a matrix can be taken at once along an axis of distance 1, given the
    /// distance of its other axis.
    pub fn takes_vectors(&self, which: usize, along: usize, across: usize) -> bool {
        self.takes_packs(which, along, across, 16 / self.matrices[which].dtype.size())
    }

    /// The same for so many elements.
    pub fn takes_packs(&self, which: usize, along: usize, across: usize, vector: usize) -> bool {
        let matrix = &self.matrices[which];
        let bytes = vector * matrix.dtype.size();
        along == 1
            && across.is_multiple_of(vector)
            && matrix.start().is_some_and(|start| start.is_multiple_of(bytes))
            && self
                .batch
                .axes
                .iter()
                .all(|axis| axis.0 == 1 || axis.1[which].is_multiple_of(vector))
    }
}

//! Matrix products: sizes, strides and epilogue.

use millstream_core::{
    Activation, BoundCommand, DType, Epilogue, MAX_RANK, MatMulOperands, Operand, RawBuffer,
};
use smallvec::SmallVec;

use crate::Slot;
use crate::walk::{Axes, is_wide};

/// One matrix of a product. For an absent one, the output stands in, with strides of 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub slot: Slot,
    pub dtype: DType,
    /// The offset, in elements.
    pub offset: usize,
    /// The stride of rows, in elements.
    pub row: usize,
    /// The stride of columns, in elements.
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

    /// The stand-in for a matrix that is absent.
    pub fn absent(self) -> Self {
        Self { offset: 0, row: 0, column: 0, ..self }
    }

    /// The transposed matrix.
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
    /// Output, `a` (lhs), `b` (rhs), bias and residual. In a product of integers the last two are the zero points of
    /// `a` and of `b`.
    pub matrices: [Matrix; 5],
    pub bias: bool,
    pub residual: bool,
    pub scale: f32,
    pub activation: Activation,
    /// Whether positions need 64 bits.
    pub wide: bool,
}

impl Product {
    /// The product of a Command with the operands `dst ← a, b, [bias], [residual]`. `None` if there is nothing to
    /// compute.
    pub fn of(command: &BoundCommand, epilogue: &Epilogue) -> Option<Self> {
        let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
        Self::from_operands(dst, [a, b], [bias, residual], epilogue)
    }

    /// The product of 8-bit integers. Zero points take the places of bias and residual.
    pub fn of_integers(
        dst: &Operand<RawBuffer>,
        sides: [&Operand<RawBuffer>; 2],
        zeros: [Option<&Operand<RawBuffer>>; 2],
    ) -> Option<Self> {
        let [bias, residual] = zeros.map(|zero| zero.is_some());
        let epilogue = Epilogue { bias, residual, ..Epilogue::default() };
        Self::from_operands(dst, sides, zeros, &epilogue)
    }

    /// The last two operands are bias and residual, or zero points.
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

    /// Sets the batch axes, which are given outermost first. Axes that share one `b` become rows if memory allows it:
    /// this gives fewer and larger products.
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

    /// Whether 16 bytes of a matrix can be loaded at once along the axis with stride `along`, given the stride
    /// `across` of its other axis.
    pub fn takes_vectors(&self, which: usize, along: usize, across: usize) -> bool {
        self.takes_packs(which, along, across, 16 / self.matrices[which].dtype.size())
    }

    /// The same for `vector` elements.
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

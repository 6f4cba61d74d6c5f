//! From a matrix product in our words to one in those of cuBLASLt, without copying an operand.
//!
//! cuBLASLt thinks in columns: what is row-major `m × n` to us is column-major `n × m` to it. So it is
//! asked for `dstᵀ = rhsᵀ × lhsᵀ`: its first operand is our second, and the other way round. An operand that is
//! transposed by its strides is one that it reads transposed. Pure functions: nothing here needs a GPU.

use millstream_core::{Activation, DType, Epilogue, Operand, RawBuffer};
use millstream_gpu::ProductOperands;
use smallvec::SmallVec;

/// One operand as cuBLASLt sees it: column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    /// Rows as they lie in memory, before transposing.
    pub rows: u64,
    /// Columns as they lie in memory, before transposing.
    pub columns: u64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Elements from one matrix of the batch to the next.
    pub batch_stride: i64,
    /// Whether it is used transposed.
    pub transposed: bool,
    /// Bytes that all its columns are aligned to, at most 16.
    pub alignment: u32,
}

/// Everything that decides which algorithm is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    /// Of `first` and `second`.
    pub dtype: DType,
    /// Of everything else.
    pub result_dtype: DType,
    pub batch: i32,
    /// cuBLASLt's first operand: our `rhs`.
    pub first: Matrix,
    /// cuBLASLt's second operand: our `lhs`.
    pub second: Matrix,
    /// What is added, if anything is; else the same as `result`.
    pub added: Matrix,
    pub adds: bool,
    pub result: Matrix,
    /// Whether a row is added to every row.
    pub bias: bool,
    pub relu: bool,
}

/// A product with its addresses, and what is left to be done afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Product {
    pub problem: Problem,
    pub first: usize,
    pub second: usize,
    pub added: usize,
    pub result: usize,
    pub bias: usize,
    pub scale: f32,
    /// What is left, for a kernel of ours, in place.
    pub left: Epilogue,
}

/// A matrix of ours, by strides.
#[derive(Clone, Copy)]
struct View {
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
    batch: usize,
    address: usize,
    /// Bytes of an element.
    size: usize,
}

impl View {
    fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row: self.column, column: self.row, ..self }
    }

    /// The distance between rows if these are dense and do not overlap.
    fn leading(&self) -> Option<usize> {
        let dense = self.column == 1 || self.columns == 1;
        match self.rows {
            1 => dense.then_some(self.columns),
            _ => (dense && self.row >= self.columns).then_some(self.row),
        }
    }

    /// As cuBLASLt sees it: row-major to us is column-major and transposed to it.
    fn matrix(&self, batch: usize) -> Option<Matrix> {
        let size = self.size;
        let (view, transposed) = match self.leading() {
            Some(_) => (*self, false),
            None => (self.transposed(), true),
        };
        let leading = view.leading()?;
        let stride = if batch > 1 { self.batch } else { 0 };
        let bits = (self.address | (leading * size) | (stride * size) | 16).trailing_zeros();
        Some(Matrix {
            rows: view.columns as u64,
            columns: view.rows as u64,
            leading: i64::try_from(leading).ok()?,
            batch_stride: i64::try_from(stride).ok()?,
            transposed,
            alignment: 1 << bits,
        })
    }
}

/// Joins the leading axes of all operands to one, if their strides allow it: its size and the stride of
/// each operand along it.
fn batch_axis(operands: &[&Operand<RawBuffer>]) -> Option<(usize, SmallVec<[usize; 5]>)> {
    let shape = operands[0].layout.shape();
    let mut size = 1;
    let mut strides: SmallVec<[usize; 5]> = operands.iter().map(|_| 0).collect();
    for axis in (0..shape.len() - 2).rev().filter(|&axis| shape[axis] > 1) {
        let own = |operand: &Operand<RawBuffer>| operand.layout.strides()[axis];
        if size == 1 {
            strides = operands.iter().map(|operand| own(operand)).collect();
        } else if operands
            .iter()
            .zip(&strides)
            .any(|(operand, stride)| own(operand) != stride * size)
        {
            return None;
        }
        size *= shape[axis];
    }
    Some((size, strides))
}

/// The product for cuBLASLt, or `None` where only a kernel of ours can do it.
pub(crate) fn map(operands: &ProductOperands<RawBuffer>) -> Option<Product> {
    let ProductOperands { dst, lhs, rhs, epilogue, .. } = operands;
    let (bias, residual) = (operands.bias.as_ref(), operands.residual.as_ref());
    let rank = dst.layout.rank();
    if !lhs.layout.dtype().is_float()
        || rank < 2
        || [lhs, rhs].iter().any(|operand| operand.layout.rank() != rank)
    {
        return None;
    }
    let (m, n) = (dst.layout.shape()[rank - 2], dst.layout.shape()[rank - 1]);
    let k = lhs.layout.shape()[rank - 1];
    let small = |size: usize| (1..1 << 31).contains(&size);
    if dst.layout.is_empty() || ![m, n, k].into_iter().all(small) {
        return None;
    }
    let operands: SmallVec<[&Operand<RawBuffer>; 5]> =
        [dst, lhs, rhs].into_iter().chain(bias).chain(residual).collect();
    let (batch, strides) = batch_axis(&operands)?;
    let views: SmallVec<[View; 5]> = operands
        .iter()
        .zip(&strides)
        .map(|(operand, &batch)| {
            let (layout, shape) = (&operand.layout, operand.layout.shape());
            View {
                rows: shape[rank - 2],
                columns: shape[rank - 1],
                row: layout.strides()[rank - 2],
                column: layout.strides()[rank - 1],
                batch,
                address: operand.buffer.address + layout.start_bytes(),
                size: layout.dtype().size(),
            }
        })
        .collect();
    let mut views = Views {
        result: views[0],
        lhs: views[1],
        rhs: views[2],
        bias: bias.map(|_| views[3]),
        residual: residual.and(views.last().copied()),
        batch,
    };
    views.fold_batch();
    if views.result.leading().is_none() {
        views.transpose();
    }
    views.product([lhs, dst].map(|operand| operand.layout.dtype()), epilogue)
}

/// All operands of one product.
#[derive(Clone, Copy)]
struct Views {
    result: View,
    lhs: View,
    rhs: View,
    bias: Option<View>,
    residual: Option<View>,
    batch: usize,
}

impl Views {
    /// Many matrices times one are one tall matrix times one, if they lie one below the other.
    fn fold_batch(&mut self) {
        if self.batch == 1 || self.rhs.batch != 0 {
            return;
        }
        let below = |view: &View| view.rows == 1 || view.batch == view.row * view.rows;
        let tall = [Some(self.result), Some(self.lhs), self.bias, self.residual];
        if !tall.iter().flatten().all(below) {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, 1);
        let views = [
            Some(&mut self.result),
            Some(&mut self.lhs),
            self.bias.as_mut(),
            self.residual.as_mut(),
        ];
        for view in views.into_iter().flatten() {
            if view.rows == 1 {
                view.row = view.batch;
            }
            view.rows *= batch;
            view.batch = 0;
        }
    }

    /// The same product with everything transposed.
    fn transpose(&mut self) {
        self.result = self.result.transposed();
        (self.lhs, self.rhs) = (self.rhs.transposed(), self.lhs.transposed());
        self.bias = self.bias.map(View::transposed);
        self.residual = self.residual.map(View::transposed);
    }

    fn product(self, [dtype, result_dtype]: [DType; 2], epilogue: &Epilogue) -> Option<Product> {
        let Views { result, lhs, rhs, bias, residual, batch } = self;
        let plain = |view: &View| view.matrix(batch).filter(|matrix| !matrix.transposed);
        let result_matrix = plain(&result)?;
        let mut left =
            Epilogue { scale: 1.0, activation: epilogue.activation, ..Epilogue::default() };
        // A bias that is one row rides on the product; cuBLASLt has no such thing for f64.
        let one_row = bias.filter(|bias| {
            let row = bias.row == 0 || bias.rows == 1;
            let dense = bias.column == 1 || bias.columns == 1;
            row && dense
                && (batch == 1 || bias.batch == 0)
                && bias.address % 16 == 0
                && dtype != DType::F64
        });
        left.bias = bias.is_some() && one_row.is_none();
        // A residual is the matrix that is added; so is a bias that is no row, if there is no residual.
        let mut added = residual.and_then(|view| plain(&view).map(|matrix| (view, matrix)));
        left.residual = residual.is_some() && added.is_none();
        if left.bias && residual.is_none() {
            added = bias.and_then(|view| plain(&view).map(|matrix| (view, matrix)));
            left.bias = added.is_none();
        }
        let relu = epilogue.activation == Activation::Relu
            && !left.bias
            && !left.residual
            && dtype != DType::F64;
        if relu {
            left.activation = Activation::None;
        }
        let (added_view, added_matrix) = added.unwrap_or((result, result_matrix));
        let product = Product {
            problem: Problem {
                dtype,
                result_dtype,
                batch: i32::try_from(batch).ok()?,
                first: rhs.matrix(batch)?,
                second: lhs.matrix(batch)?,
                added: added_matrix,
                adds: added.is_some(),
                result: result_matrix,
                bias: one_row.is_some(),
                relu,
            },
            first: rhs.address,
            second: lhs.address,
            added: added_view.address,
            result: result.address,
            bias: one_row.map_or(0, |bias| bias.address),
            scale: epilogue.scale,
            left,
        };
        // A second rounding to 16 bits would be one too many.
        let half = matches!(result_dtype, DType::F16 | DType::BF16);
        (!half || (product.is_complete() && product.problem.rounds_once())).then_some(product)
    }
}

impl Problem {
    /// Whether a result of 16 bits is rounded once, after all that is done to it. Where operands are not
    /// aligned, the library was seen to round the sums, and to add the bias in a kernel that follows.
    fn rounds_once(&self) -> bool {
        let operands = [&self.first, &self.second, &self.added, &self.result];
        let aligned = operands.iter().all(|matrix| matrix.alignment == 16);
        aligned || !(self.bias || self.relu)
    }
}

impl Product {
    /// Whether nothing is left to be done after the product.
    pub fn is_complete(&self) -> bool {
        let left = &self.left;
        !left.bias && !left.residual && left.activation == Activation::None
    }
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;

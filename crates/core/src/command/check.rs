//! Checks that several constructors share.

use super::Operand;
use crate::{DType, Error, Layout, Result};

pub(super) struct Check(pub &'static str);

impl Check {
    pub fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(Error::InvalidCommand { op: self.0, reason: reason.into() })
    }

    pub fn that(&self, holds: bool, reason: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { self.fail(reason()) }
    }

    /// Checks the sizes of a matrix product over the last two axes; the layouts of `[…, m, k]` and
    /// `[…, k, n]` with their leading axes broadcast to those of `[…, m, n]`.
    pub fn product(&self, dst: &Layout, a: &Layout, b: &Layout) -> Result<(Layout, Layout)> {
        let (mut a, mut b) = (*a, *b);
        self.stretch_product(dst, &mut a, &mut b)?;
        Ok((a, b))
    }

    /// As [`product`](Self::product), with the layouts changed in place, which mostly changes nothing.
    pub fn stretch_product(&self, dst: &Layout, a: &mut Layout, b: &mut Layout) -> Result<()> {
        let shapes = |a: &Layout, b: &Layout| {
            format!("{:?} × {:?} → {:?}", a.shape(), b.shape(), dst.shape())
        };
        let (rank, a_rank, b_rank) = (dst.rank(), a.rank(), b.rank());
        if rank < 2 || a_rank < 2 || b_rank < 2 {
            return self.fail(format!("{}: ranks below 2", shapes(a, b)));
        }
        let (m, n) = (dst.shape()[rank - 2], dst.shape()[rank - 1]);
        let k = a.shape()[a_rank - 1];
        if a.shape()[a_rank - 2] != m || b.shape()[b_rank - 2..] != [k, n] {
            return self.fail(format!("{}: sizes do not match", shapes(a, b)));
        }
        let leading = &dst.shape()[..rank - 2];
        if a.shape()[..a_rank - 2] == *leading && b.shape()[..b_rank - 2] == *leading {
            return Ok(());
        }
        let stretched = a
            .stretch(&matrices_like(dst, m, k))
            .and_then(|()| b.stretch(&matrices_like(dst, k, n)));
        match stretched {
            Ok(()) => Ok(()),
            Err(_) => self.fail(format!("{}: leading axes do not broadcast", shapes(a, b))),
        }
    }

    /// Broadcasts an input to the output's shape.
    pub fn broadcast<B>(&self, mut input: Operand<B>, output: &Layout) -> Result<Operand<B>> {
        self.stretch(&mut input.layout, output)?;
        Ok(input)
    }

    /// As [`broadcast`](Self::broadcast), in place.
    pub fn stretch(&self, input: &mut Layout, output: &Layout) -> Result<()> {
        match input.stretch(output.shape()) {
            Ok(()) => Ok(()),
            Err(_) => self.fail(format!(
                "input of shape {:?} does not broadcast to output {:?}",
                input.shape(),
                output.shape()
            )),
        }
    }

    pub fn same_shape(&self, input: &Layout, output: &Layout) -> Result<()> {
        self.that(input.shape() == output.shape(), || {
            format!("input has shape {:?}, output {:?}", input.shape(), output.shape())
        })
    }

    pub fn same_dtype(&self, left: &Layout, right: &Layout) -> Result<()> {
        self.that(left.dtype() == right.dtype(), || {
            format!("element types {} and {} differ", left.dtype(), right.dtype())
        })
    }

    pub fn float(&self, layout: &Layout) -> Result<()> {
        self.that(layout.dtype().is_float(), || {
            format!("needs a floating-point type, got {}", layout.dtype())
        })
    }

    pub fn number(&self, layout: &Layout) -> Result<()> {
        self.that(layout.dtype() != DType::Bool, || "needs a number type, got bool".into())
    }

    pub fn dtype(&self, layout: &Layout, dtype: DType) -> Result<()> {
        self.that(layout.dtype() == dtype, || format!("needs {dtype}, got {}", layout.dtype()))
    }

    pub fn byte(&self, layout: &Layout) -> Result<()> {
        self.that(matches!(layout.dtype(), DType::U8 | DType::I8), || {
            format!("needs u8 or i8, got {}", layout.dtype())
        })
    }

    pub fn axis(&self, axis: usize, layout: &Layout) -> Result<()> {
        self.that(axis < layout.rank(), || {
            format!("axis {axis} of an operand of rank {}", layout.rank())
        })
    }
}

/// The shape of `dst`, of rank 2 or more, with other last two axes.
pub(super) fn matrices_like(dst: &Layout, rows: usize, columns: usize) -> Shape {
    let mut shape = Shape::from_slice(dst.shape());
    shape[dst.rank() - 2] = rows;
    shape[dst.rank() - 1] = columns;
    shape
}

pub(super) type Shape = smallvec::SmallVec<[usize; crate::MAX_RANK]>;

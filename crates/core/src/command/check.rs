//! Checks that several constructors share.

use super::{BufferLike, Operand};
use crate::{DType, Error, Layout, Result};

pub(super) struct Check(pub &'static str);

impl Check {
    pub fn fail<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(Error::InvalidCommand { op: self.0, reason: reason.into() })
    }

    pub fn that(&self, holds: bool, reason: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { self.fail(reason()) }
    }

    /// Broadcasts an input to the output's shape.
    pub fn broadcast<B>(&self, input: Operand<B>, output: &Layout) -> Result<Operand<B>> {
        match input.layout.broadcast_to(output.shape()) {
            Ok(layout) => Ok(Operand { buffer: input.buffer, layout }),
            Err(_) => self.fail(format!(
                "input of shape {:?} does not broadcast to output {:?}",
                input.layout.shape(),
                output.shape()
            )),
        }
    }

    /// An output that may not be this input, not even in place.
    pub fn apart<B: BufferLike>(&self, output: &Operand<B>, input: &Operand<B>) -> Result<()> {
        self.that(!output.overlaps(input), || {
            format!("output {:?} shares memory with input {:?}", output.layout, input.layout)
        })
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

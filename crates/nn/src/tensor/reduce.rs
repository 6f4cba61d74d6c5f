//! Reductions, running sums and softmax.

use millstream_core::{Axes, Op, ReduceOp};

use super::{OpRecorder, Tensor};
use crate::{Axis, AxisSet, Result};

impl Tensor {
    fn reduced(&self, name: &'static str, op: ReduceOp, axes: Axes, keepdim: bool) -> Result<Self> {
        let recorder = OpRecorder::new(name, &self.device())?;
        let mut result = recorder.apply(Op::Reduce { op, axes }, &[self])?;
        if !keepdim {
            for axis in (0..self.rank()).rev().filter(|&axis| axes.contains(axis)) {
                result = result.without(axis)?;
            }
        }
        Ok(result)
    }

    /// The running sum along an axis; integers wrap around.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, `bool`, or no memory.
    pub fn cumsum(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("cumsum", self.rank())? as u8;
        let op = Op::CumSum { axis, exclusive: false, reverse: false, product: false };
        OpRecorder::new("cumsum", &self.device())?.apply(op, &[self])
    }

    /// Exponentials along an axis, scaled to a sum of 1.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, a type that is not floating point, or no memory.
    pub fn softmax(&self, axis: impl Axis) -> Result<Self> {
        self.softmax_of("softmax", axis, false)
    }

    /// The logarithm of [`softmax`](Self::softmax).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn log_softmax(&self, axis: impl Axis) -> Result<Self> {
        self.softmax_of("log_softmax", axis, true)
    }

    fn softmax_of(&self, name: &'static str, axis: impl Axis, log: bool) -> Result<Self> {
        let axis = axis.resolve(name, self.rank())? as u8;
        OpRecorder::new(name, &self.device())?.apply(Op::Softmax { axis, log }, &[self])
    }

    /// The variance over some axes, which stay with size 1 if `keepdim`; divided by the count less
    /// `correction`.
    ///
    /// # Errors
    ///
    /// Axes that do not exist, a type that is not floating point, or no memory.
    pub fn var(&self, axes: impl AxisSet, correction: usize, keepdim: bool) -> Result<Self> {
        let set = axes.axes("var", self.rank())?;
        let count: usize = set.iter().map(|axis| self.shape()[axis]).product();
        let mean = self.reduced("var", ReduceOp::Mean, set, true)?;
        let squares = self.sub(&mean)?.square()?;
        let sum = squares.reduced("var", ReduceOp::Sum, set, keepdim)?;
        sum.div(count.saturating_sub(correction) as f64)
    }

    /// The standard deviation over some axes: the root of [`var`](Self::var).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn std(&self, axes: impl AxisSet, correction: usize, keepdim: bool) -> Result<Self> {
        self.var(axes, correction, keepdim)?.sqrt()
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $name:literal $op:ident),* $(,)?) => {
        impl Tensor {
            $(
                $(#[$doc])*
                /// The axes stay with size 1 if `keepdim`.
                ///
                /// # Errors
                ///
                /// Axes that do not exist, a type that it has no meaning for, or no memory.
                pub fn $method(&self, axes: impl AxisSet, keepdim: bool) -> Result<Self> {
                    let axes = axes.axes($name, self.rank())?;
                    self.reduced($name, ReduceOp::$op, axes, keepdim)
                }
            )*
        }
    };
}

methods! {
    /// The sum over some axes, in the type of the elements; integers wrap around.
    sum "sum" Sum,
    /// The mean over some axes, of floating-point numbers.
    mean "mean" Mean,
    /// The largest element over some axes.
    max "max" Max,
    /// The smallest element over some axes.
    min "min" Min,
    /// The product over some axes; integers wrap around.
    prod "prod" Prod,
    /// The root of the sum of squares over some axes.
    norm "norm" L2,
    /// The logarithm of the sum of exponentials over some axes.
    logsumexp "logsumexp" LogSumExp,
    /// The index, as `i64`, of the first largest element along one axis.
    argmax "argmax" ArgMax,
    /// The index, as `i64`, of the first smallest element along one axis.
    argmin "argmin" ArgMin,
}

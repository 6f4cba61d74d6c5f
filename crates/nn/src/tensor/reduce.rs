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
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3], &Device::cpu()?)?;
    /// assert_eq!(a.cumsum(0)?.to_vec::<i64>()?, [1, 3, 6]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let scores = Tensor::new(&[[0.0f32, 0.0]], &Device::cpu()?)?;
    /// assert_eq!(scores.softmax(-1)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, a type that is not floating point, or no memory.
    pub fn softmax(&self, axis: impl Axis) -> Result<Self> {
        self.softmax_of("softmax", axis, false)
    }

    /// The logarithm of [`softmax`](Self::softmax).
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let scores = Tensor::new(&[0.0f32, 0.0], &Device::cpu()?)?;
    /// assert_eq!(scores.log_softmax(0)?.to_string(), "tensor([-0.6931, -0.6931])");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`softmax`](Self::softmax).
    pub fn log_softmax(&self, axis: impl Axis) -> Result<Self> {
        self.softmax_of("log_softmax", axis, true)
    }

    fn softmax_of(&self, name: &'static str, axis: impl Axis, log: bool) -> Result<Self> {
        let axis = axis.resolve(name, self.rank())? as u8;
        OpRecorder::new(name, &self.device())?.apply(Op::Softmax { axis, log }, &[self])
    }

    /// The variance over some axes: the sum of the squared distances from the mean, divided by the number of elements
    /// less `correction` (PyTorch's default is 1). With `keepdim`, the axes stay with size 1.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 3.0], [2.0, 6.0]], &Device::cpu()?)?;
    /// assert_eq!(a.var(1, 1, false)?.to_vec::<f32>()?, [2.0, 8.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

    /// The standard deviation over some axes: the square root of [`var`](Self::var).
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 3.0], [2.0, 6.0]], &Device::cpu()?)?;
    /// assert_eq!(a.std(1, 0, false)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`var`](Self::var).
    pub fn std(&self, axes: impl AxisSet, correction: usize, keepdim: bool) -> Result<Self> {
        self.var(axes, correction, keepdim)?.sqrt()
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $op:ident, [$output:literal];)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                /// With `keepdim`, the axes stay with size 1.
                ///
                /// ```
                /// # millstream_nn::doctest!();
                /// use millstream::{Device, Tensor};
                ///
                /// let a = Tensor::new(&[[3.0f32, 1.0], [4.0, 2.0]], &Device::cpu()?)?;
                #[doc = concat!(
                    "assert_eq!(a.", stringify!($method), "(1, false)?.to_string(), \"tensor([", $output, "])\");"
                )]
                #[doc = concat!("assert_eq!(a.", stringify!($method), "(0, true)?.shape(), [1, 2]);")]
                /// # Ok::<(), millstream::Error>(())
                /// ```
                ///
                /// # Errors
                ///
                /// Axes that do not exist, a type that it is not defined for, or no memory.
                pub fn $method(&self, axes: impl AxisSet, keepdim: bool) -> Result<Self> {
                    let axes = axes.axes(stringify!($method), self.rank())?;
                    self.reduced(stringify!($method), ReduceOp::$op, axes, keepdim)
                }
            )*
        }
    };
}

// Each with what its example gives.
methods! {
    /// The sum over some axes, in the type of the elements; integers wrap around.
    sum Sum, ["4., 6."];
    /// The mean over some axes, of floating-point numbers.
    mean Mean, ["2., 3."];
    /// The largest element over some axes.
    #[doc(alias = "amax")]
    max Max, ["3., 4."];
    /// The smallest element over some axes.
    #[doc(alias = "amin")]
    min Min, ["1., 2."];
    /// The product over some axes; integers wrap around.
    prod Prod, ["3., 8."];
    /// The square root of the sum of squares over some axes.
    #[doc(alias = "l2_norm")]
    norm L2, ["3.1623, 4.4721"];
    /// The logarithm of the sum of exponentials over some axes.
    logsumexp LogSumExp, ["3.1269, 4.1269"];
    /// The index, as `i64`, of the first largest element along one axis.
    argmax ArgMax, ["0, 0"];
    /// The index, as `i64`, of the first smallest element along one axis.
    argmin ArgMin, ["1, 1"];
}

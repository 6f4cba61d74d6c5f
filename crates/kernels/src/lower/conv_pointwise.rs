//! Convolutions with a window of one place: a product of the weights with the channels of all places.

use millstream_core::{ConvParams, DType, Operand, RawBuffer};
use smallvec::smallvec;

use super::matmul_pipelined_f32;
use super::product::{A, B, Matrix, Product};
use crate::walk::Axes;
use crate::{Launch, Limits};

/// With fewer places or channels most of a tile would have no work.
const LEAST_PLACES: usize = 32;
const LEAST_CHANNELS: usize = 8;

/// What is multiplied and added.
pub(super) struct Pointwise<'a> {
    pub params: &'a ConvParams,
    pub dst: &'a Operand<RawBuffer>,
    pub src: &'a Operand<RawBuffer>,
    pub weight: &'a Operand<RawBuffer>,
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub residual: Option<&'a Operand<RawBuffer>>,
}

/// The channels of an image as rows, if its places lie one after the other.
fn rows(operand: &Operand<RawBuffer>) -> Option<Matrix> {
    let (shape, strides) = (operand.layout.shape(), operand.layout.strides());
    let mut dense = 1;
    for axis in (2..shape.len()).rev() {
        if shape[axis] > 1 && strides[axis] != dense {
            return None;
        }
        dense *= shape[axis];
    }
    let (slot, dtype, offset) = (operand.into(), operand.layout.dtype(), operand.layout.offset());
    Some(Matrix { slot, dtype, offset, row: strides[1], column: 1 })
}

impl Pointwise<'_> {
    /// The convolution as a product, without scale and activation. `None` if its window has more than one place.
    fn product(&self, wide: bool) -> Option<Product> {
        let spatial = usize::from(self.params.spatial);
        let shape = self.weight.layout.shape();
        let same = self.dst.layout.shape()[2..] == self.src.layout.shape()[2..];
        let single = shape[2..].iter().all(|&size| size == 1)
            && self.params.stride[..spatial].iter().all(|&step| step == 1)
            && self.params.pad_before[..spatial].iter().all(|&pad| pad == 0);
        if self.params.groups != 1 || !single || !same {
            return None;
        }
        let strides = self.weight.layout.strides();
        let of = Matrix::of(self.weight);
        let weight = Matrix { row: strides[0], column: strides[1], ..of };
        let (dst, src) = (rows(self.dst)?, rows(self.src)?);
        let bias = self.bias.map(|bias| {
            let row = bias.layout.strides().get(1).copied().unwrap_or(0);
            Matrix { row, column: 0, ..Matrix::of(bias) }
        });
        let residual = match self.residual {
            Some(residual) => Some(rows(residual)?),
            None => None,
        };
        let absent = dst.absent();
        let step = |operand: Option<&Operand<RawBuffer>>| {
            operand.map_or(0, |operand| operand.layout.strides()[0])
        };
        let places = self.dst.layout.shape()[2..].iter().product();
        let mut product = Product {
            m: shape[0],
            n: places,
            k: shape[1],
            batch: Axes::merge(std::iter::empty()),
            matrices: [dst, weight, src, bias.unwrap_or(absent), residual.unwrap_or(absent)],
            bias: bias.is_some(),
            residual: residual.is_some(),
            scale: 1.0,
            activation: millstream_core::Activation::None,
            wide,
        };
        debug_assert!(
            product.matrices[A].slot == weight.slot && product.matrices[B].slot == src.slot
        );
        let steps = [step(Some(self.dst)), 0, step(Some(self.src)), 0, step(self.residual)];
        product.take_batch(smallvec![(self.dst.layout.shape()[0], steps)]);
        Some(product)
    }

    /// The launch, if the device has such a kernel and its tiles have enough work.
    pub fn launch(
        &self,
        scale: f32,
        activation: millstream_core::Activation,
        wide: bool,
        limits: &Limits,
    ) -> Option<Launch> {
        if self.dst.layout.dtype() != DType::F32 || self.weight.layout.dtype() != DType::F32 {
            return None;
        }
        let product = Product { scale, activation, ..self.product(wide)? };
        if product.n < LEAST_PLACES || product.m < LEAST_CHANNELS {
            return None;
        }
        matmul_pipelined_f32::launch_any(&product, false, limits)
    }
}

#[cfg(test)]
mod tests;

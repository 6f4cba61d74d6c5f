//! Layers whose output has sizes of its own choice.

use millstream_core::{NearestRounding, ResizeMode};

use super::Module;
use super::conv::unbatched;
use super::pool::AvgPool;
use crate::error::invalid;
use crate::{Result, Tensor};

/// The mean of windows that cover `[batch, channels, spatial…]` so that each spatial axis gets a given size.
///
/// Window `i` of `n` on an axis of size `s` goes from `⌊i·s/n⌋` up to `⌈(i+1)·s/n⌉`.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveAvgPool<const N: usize> {
    output_size: [usize; N],
}

/// [`AdaptiveAvgPool`] over one axis.
pub type AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// [`AdaptiveAvgPool`] over two axes.
pub type AdaptiveAvgPool2d = AdaptiveAvgPool<2>;

impl<const N: usize> AdaptiveAvgPool<N> {
    /// Windows for these sizes.
    pub fn new(output_size: [usize; N]) -> Self {
        Self { output_size }
    }
}

impl<const N: usize> Module for AdaptiveAvgPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        unbatched::<N>(input, |input| {
            let sizes = input.shape().get(2..).unwrap_or_default();
            if sizes.len() != N || self.output_size.contains(&0) || sizes.contains(&0) {
                let (shape, wanted) = (input.shape(), self.output_size);
                return invalid("adaptive_avg_pool", format!("shape {shape:?} to {wanted:?}"));
            }
            let even = sizes.iter().zip(self.output_size).all(|(size, wanted)| size % wanted == 0);
            let windows: [Option<u32>; N] =
                std::array::from_fn(|axis| (sizes[axis] / self.output_size[axis]).try_into().ok());
            match windows.map(|window| window.unwrap_or(0)) {
                window if even && !window.contains(&0) => {
                    AvgPool::new(window, window, [0; N], true).forward(input)
                }
                _ => uneven(input, self.output_size),
            }
        })
    }
}

/// Axis by axis: a product with a matrix of shares, since windows are products of ranges.
fn uneven<const N: usize>(input: &Tensor, output_size: [usize; N]) -> Result<Tensor> {
    let mut value = input.clone();
    for (axis, wanted) in (2..).zip(output_size) {
        let size = value.shape()[axis];
        let mut shares = vec![0.0f32; size * wanted];
        for window in 0..wanted {
            let (start, end) = (window * size / wanted, ((window + 1) * size).div_ceil(wanted));
            for at in start..end {
                shares[at * wanted + window] = 1.0 / (end - start) as f32;
            }
        }
        let shares = Tensor::from_vec(shares, &[size, wanted], &input.device())?;
        let shares = shares.to_dtype(input.dtype())?;
        value = value.transpose(axis, -1)?.matmul(&shares)?.transpose(axis, -1)?;
    }
    value.contiguous()
}

/// How [`Upsample`] makes elements in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The element at or before.
    #[default]
    Nearest,
    /// Between neighbors along every axis: PyTorch's `linear`, `bilinear` and `trilinear`.
    Linear,
    /// Between four elements along each of two axes.
    Bicubic,
}

/// Larger (or smaller) spatial axes of `[batch, channels, spatial…]`, each by the same factor.
#[derive(Clone, Copy, Debug)]
pub struct Upsample {
    /// How much larger.
    pub scale_factor: f64,
    /// What is between the elements.
    pub mode: UpsampleMode,
    /// Whether the outer elements stay at the edge. Not for [`UpsampleMode::Nearest`].
    pub align_corners: bool,
}

impl Module for Upsample {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let scaled = |&size: &usize| (size as f64 * self.scale_factor).floor();
        let sizes: Vec<f64> = input.shape().iter().skip(2).map(scaled).collect();
        let positive = self.scale_factor > 0.0;
        if !positive || sizes.is_empty() || sizes.iter().any(|&size| size >= 2f64.powi(52)) {
            let (shape, factor) = (input.shape(), self.scale_factor);
            return invalid("upsample", format!("shape {shape:?} by {factor}"));
        }
        let sizes: Vec<usize> = sizes.into_iter().map(|size| size as usize).collect();
        let mode = match self.mode {
            UpsampleMode::Nearest => ResizeMode::Nearest(NearestRounding::Floor),
            UpsampleMode::Linear => ResizeMode::Linear,
            UpsampleMode::Bicubic => ResizeMode::Cubic(-0.75),
        };
        input.resize(&sizes, mode, self.align_corners)
    }
}

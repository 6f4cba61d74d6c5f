//! Layers that are given the size of their output, or a factor for it.

use millstream_core::{NearestRounding, ResizeMode};

use super::Module;
use super::check::{misfit, wants_spatial};
use super::conv::unbatched;
use super::describe::described;
use super::pool::AvgPool;
use crate::{Result, Tensor};

/// The mean of windows of `[batch, channels, spatial…]`, chosen so that the output has a given size.
///
/// Window `i` of `n` on an axis of size `s` goes from `⌊i·s/n⌋` up to `⌈(i+1)·s/n⌉`.
///
/// [`AdaptiveAvgPool2d`] has an example.
#[derive(Clone, Copy)]
pub struct AdaptiveAvgPool<const N: usize> {
    pub(super) output_size: [usize; N],
}

/// [`AdaptiveAvgPool`] over one axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AdaptiveAvgPool1d, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[[[1.0f32, 4.0, 3.0, 2.0]]], &Device::cpu()?)?;
/// assert_eq!(AdaptiveAvgPool1d::new([2]).forward(&input)?.to_vec::<f32>()?, [2.5, 2.5]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// [`AdaptiveAvgPool`] over two axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AdaptiveAvgPool2d, Module};
/// use millstream::{DType, Device, Tensor};
///
/// let input = Tensor::ones(&[1, 3, 8, 8], DType::F32, &Device::cpu()?)?;
/// assert_eq!(AdaptiveAvgPool2d::new([1, 1]).forward(&input)?.shape(), [1, 3, 1, 1]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type AdaptiveAvgPool2d = AdaptiveAvgPool<2>;

impl<const N: usize> AdaptiveAvgPool<N> {
    pub(super) const NAME: &str =
        ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"][N - 1];

    /// Pools to these sizes.
    pub fn new(output_size: [usize; N]) -> Self {
        Self { output_size }
    }
}

impl<const N: usize> Module for AdaptiveAvgPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        wants_spatial::<N>(Self::NAME, input)?;
        unbatched::<N>(input, |input| {
            let sizes = &input.shape()[2..];
            if self.output_size.contains(&0) || sizes.contains(&0) {
                let wanted = format!("cannot make {:?} of it", self.output_size);
                return misfit(Self::NAME, input, &wanted);
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

    described!();
}

/// One axis after another, each by a product with a matrix: column `i` has the share of each element in window `i`.
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

/// How [`Upsample`] interpolates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The nearest element; PyTorch's `nearest`.
    #[default]
    Nearest,
    /// Linear along every axis: PyTorch's `linear`, `bilinear` and `trilinear`.
    Linear,
    /// Cubic, from four elements along each of two axes.
    Bicubic,
}

/// Resizes all spatial axes of `[batch, channels, spatial…]` by one factor.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Module, Upsample, UpsampleMode};
/// use millstream::{Device, Tensor};
///
/// let layer = Upsample { scale_factor: 2.0, mode: UpsampleMode::Nearest, align_corners: false };
/// let input = Tensor::new(&[[[1.0f32, 2.0]]], &Device::cpu()?)?; // [batch, channels, length]
/// assert_eq!(layer.forward(&input)?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy)]
#[doc(alias = "Interpolate")]
pub struct Upsample {
    /// The factor; below 1 the output is smaller.
    pub scale_factor: f64,
    /// How elements are interpolated.
    pub mode: UpsampleMode,
    /// Whether the corner elements keep their values. Has no effect on [`UpsampleMode::Nearest`].
    pub align_corners: bool,
}

impl Module for Upsample {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let scaled = |&size: &usize| (size as f64 * self.scale_factor).floor();
        let sizes: Vec<f64> = input.shape().iter().skip(2).map(scaled).collect();
        let positive = self.scale_factor > 0.0;
        if !positive || sizes.is_empty() || sizes.iter().any(|&size| size >= 2f64.powi(52)) {
            let factor = self.scale_factor;
            let takes = format!("takes [batch, channels, spatial…] to scale by {factor}");
            return misfit("Upsample", input, &takes);
        }
        let sizes: Vec<usize> = sizes.into_iter().map(|size| size as usize).collect();
        let mode = match self.mode {
            UpsampleMode::Nearest => ResizeMode::Nearest(NearestRounding::Floor),
            UpsampleMode::Linear => ResizeMode::Linear,
            UpsampleMode::Bicubic => ResizeMode::Cubic(-0.75),
        };
        input.resize(&sizes, mode, self.align_corners)
    }

    described!();
}

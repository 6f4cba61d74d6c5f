//! Transposed convolutions.

use millstream_core::{Activation, ConvParams, LayerName};

use super::check::{wants_channels, wants_dtype};
use super::conv::{check_groups, parameters, unbatched};
use super::describe::described;
use super::{ConvOptions, Module};
use crate::{Result, Tensor, Weights};

/// The options of a transposed convolution over `N` spatial axes, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// The options that it shares with a convolution.
    pub conv: ConvOptions<N>,
    /// Added to the end of the output.
    pub output_padding: [u32; N],
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        Self { conv: ConvOptions::default(), output_padding: [0; N] }
    }
}

/// Transposed convolution of `[batch, in_channels, spatial…]` over `N` spatial axes.
///
/// Parameters: `weight` `[in_channels, out_channels / groups, kernel…]`, `bias` `[out_channels]`.
///
/// [`ConvTranspose2d`] has an example.
pub struct ConvTranspose<const N: usize> {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) params: ConvParams,
    name: LayerName,
}

/// Transposed convolution over one spatial axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{ConvTranspose1d, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let conv = ConvTranspose1d::new(4, 2, [3], Default::default(), &weights)?;
/// let input = Tensor::ones(&[1, 4, 8], DType::F32, &device)?;
/// assert_eq!(conv.forward(&input)?.shape(), [1, 2, 10]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type ConvTranspose1d = ConvTranspose<1>;
/// Transposed convolution over two spatial axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{ConvOptions, ConvTranspose2d, ConvTransposeOptions, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let conv = ConvOptions { stride: [2, 2], ..Default::default() };
/// let options = ConvTransposeOptions { conv, ..Default::default() };
/// let conv = ConvTranspose2d::new(8, 3, [2, 2], options, &weights)?;
/// let input = Tensor::ones(&[1, 8, 16, 16], DType::F32, &device)?;
/// assert_eq!(conv.forward(&input)?.shape(), [1, 3, 32, 32]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type ConvTranspose2d = ConvTranspose<2>;

impl<const N: usize> ConvTranspose<N> {
    /// Takes `weight` from the weights, and `bias` if the options ask for it.
    ///
    /// # Errors
    ///
    /// As for [`Conv::new`](super::Conv::new).
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; N],
        options: ConvTransposeOptions<N>,
        weights: &Weights,
    ) -> Result<Self> {
        let mut params = options.conv.params("conv_transpose")?;
        params.output_padding[..N].copy_from_slice(&options.output_padding);
        let (groups, name) = (options.conv.groups, weights.layer_name("ConvTranspose"));
        check_groups(in_channels, out_channels, groups, name)?;
        let per_group = out_channels / groups;
        let (weight, bias) = parameters(
            [in_channels, per_group],
            kernel_size,
            options.conv.bias.then_some(out_channels),
            per_group,
            weights,
        )?;
        Ok(Self { weight, bias, params, name })
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_activated(input, Activation::None)
    }

    fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
        let _layer = self.name.enter();
        wants_channels::<N>(self.name.as_str(), input, self.weight.shape()[0])?;
        wants_dtype(self.name.as_str(), input, self.weight.dtype())?;
        unbatched::<N>(input, |input| {
            input.conv_transpose(&self.weight, self.bias.as_ref(), self.params, activation)
        })
    }

    described!();
}

//! Convolutions.

use millstream_core::{Activation, ConvParams, DType, LayerName, MAX_SPATIAL};

use super::{BatchNorm, Module};
use crate::error::invalid;
use crate::{Init, Result, Tensor, Weights};

/// The options of a convolution over `N` spatial axes, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<const N: usize> {
    /// The step of the window.
    pub stride: [u32; N],
    /// Zeros on both sides.
    pub padding: [u32; N],
    /// The distance between taps.
    pub dilation: [u32; N],
    /// Channels are split in so many independent groups.
    pub groups: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: [0; N], dilation: [1; N], groups: 1, bias: true }
    }
}

impl<const N: usize> ConvOptions<N> {
    fn params(&self, op: &'static str) -> Result<ConvParams> {
        const { assert!(N >= 1 && N <= MAX_SPATIAL, "1 to 3 spatial axes") };
        let Some(groups) = u32::try_from(self.groups).ok().filter(|&groups| groups > 0) else {
            return invalid(op, format!("{} groups", self.groups));
        };
        let wide = |narrow: &[u32; N], rest: u32| -> [u32; MAX_SPATIAL] {
            std::array::from_fn(|axis| narrow.get(axis).copied().unwrap_or(rest))
        };
        Ok(ConvParams {
            stride: wide(&self.stride, 1),
            pad_before: wide(&self.padding, 0),
            pad_after: wide(&self.padding, 0),
            dilation: wide(&self.dilation, 1),
            groups,
            ..ConvParams::new(N)
        })
    }
}

/// Convolution of `[batch, in_channels, spatial…]` over `N` spatial axes.
///
/// Parameters: `weight` `[out_channels, in_channels / groups, kernel…]`, `bias` `[out_channels]`.
///
/// Devices convolve over 1 to 3 axes; four do not compile:
///
/// ```compile_fail
/// # use millstream_cpu as _;
/// # use millstream_core::{DType, Device};
/// # use millstream_nn::{Conv, Weights};
/// let weights = Weights::random(1, DType::F32, &Device::cpu().unwrap());
/// let _ = Conv::<4>::new(1, 1, [1; 4], Default::default(), &weights);
/// ```
pub struct Conv<const N: usize> {
    weight: Tensor,
    bias: Option<Tensor>,
    params: ConvParams,
    name: LayerName,
    /// Whether the weights only stand in for what did not fit, and nothing is to be made of them.
    stands_in: bool,
}

/// Convolution over one spatial axis.
pub type Conv1d = Conv<1>;
/// Convolution over two spatial axes.
pub type Conv2d = Conv<2>;
/// Convolution over three spatial axes.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// Takes `weight`, and `bias` as the options say.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, groups that do not divide the channels, or no memory.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; N],
        options: ConvOptions<N>,
        weights: &Weights,
    ) -> Result<Self> {
        let params = options.params("conv")?;
        let per_group = in_channels / options.groups;
        let (weight, bias) = parameters(
            [out_channels, per_group],
            kernel_size,
            options.bias.then_some(out_channels),
            per_group,
            weights,
        )?;
        let (name, stands_in) = (weights.layer_name("Conv"), weights.has_problems());
        Ok(Self { weight, bias, params, name, stands_in })
    }

    /// This convolution and a batch normalization behind it, as one.
    ///
    /// # Errors
    ///
    /// Another number of channels, or no memory.
    pub fn with_batch_norm(&self, norm: &BatchNorm) -> Result<Self> {
        if self.stands_in {
            let (weight, bias) = (self.weight.clone(), self.bias.clone());
            return Ok(Self { weight, bias, ..*self });
        }
        let dtype = self.weight.dtype();
        let scale = norm.scale().to_dtype(DType::F64)?;
        let mut per_output = vec![1; N + 2];
        per_output[0] = scale.elements();
        let weight = self.weight.to_dtype(DType::F64)?.mul(scale.reshape(&per_output)?)?;
        let shift = norm.shift().to_dtype(DType::F64)?;
        let bias = match &self.bias {
            Some(bias) => (bias.to_dtype(DType::F64)? * scale)?.add(shift)?,
            None => shift,
        };
        if weight.shape() != self.weight.shape() {
            let (weight, channels) = (self.weight.shape(), norm.scale().elements());
            return invalid("conv", format!("weight {weight:?} and a norm of {channels} channels"));
        }
        Ok(Self {
            weight: weight.to_dtype(dtype)?.settle()?,
            bias: Some(bias.to_dtype(dtype)?.settle()?),
            params: self.params,
            name: self.name,
            stands_in: false,
        })
    }
}

impl<const N: usize> Module for Conv<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_activated(input, Activation::None)
    }

    fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
        let _layer = self.name.enter();
        unbatched::<N>(input, |input| {
            input.conv(&self.weight, self.bias.as_ref(), self.params, activation)
        })
    }
}

/// The options of a transposed convolution over `N` spatial axes, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// What it has in common with the convolution it is the other direction of.
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
pub struct ConvTranspose<const N: usize> {
    weight: Tensor,
    bias: Option<Tensor>,
    params: ConvParams,
    name: LayerName,
}

/// Transposed convolution over one spatial axis.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Transposed convolution over two spatial axes.
pub type ConvTranspose2d = ConvTranspose<2>;

impl<const N: usize> ConvTranspose<N> {
    /// Takes `weight`, and `bias` as the options say.
    ///
    /// # Errors
    ///
    /// As for [`Conv::new`].
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; N],
        options: ConvTransposeOptions<N>,
        weights: &Weights,
    ) -> Result<Self> {
        let mut params = options.conv.params("conv_transpose")?;
        params.output_padding[..N].copy_from_slice(&options.output_padding);
        let per_group = out_channels / options.conv.groups;
        let (weight, bias) = parameters(
            [in_channels, per_group],
            kernel_size,
            options.conv.bias.then_some(out_channels),
            per_group,
            weights,
        )?;
        Ok(Self { weight, bias, params, name: weights.layer_name("ConvTranspose") })
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_activated(input, Activation::None)
    }

    fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
        let _layer = self.name.enter();
        unbatched::<N>(input, |input| {
            input.conv_transpose(&self.weight, self.bias.as_ref(), self.params, activation)
        })
    }
}

/// `weight` and `bias`; in one output meet `channels` times the kernel's taps.
fn parameters<const N: usize>(
    first: [usize; 2],
    kernel: [usize; N],
    bias: Option<usize>,
    channels: usize,
    weights: &Weights,
) -> Result<(Tensor, Option<Tensor>)> {
    let taps = kernel.iter().fold(channels, |product, &size| product.saturating_mul(size));
    let init = Init::fan_in(taps);
    let weight = weights.get("weight", &[&first[..], &kernel[..]].concat(), init)?;
    Ok((weight, bias.map(|outputs| weights.get("bias", &[outputs], init)).transpose()?))
}

/// An input without a batch is a batch of one.
pub(super) fn unbatched<const N: usize>(
    input: &Tensor,
    apply: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if input.rank() == N + 1 { apply(&input.unsqueeze(0)?)?.squeeze(0) } else { apply(input) }
}

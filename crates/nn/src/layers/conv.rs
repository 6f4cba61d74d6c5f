//! Convolutions.

use millstream_core::{Activation, ConvParams, DType, LayerName, MAX_SPATIAL};

use super::check::{wants_channels, wants_dtype};
use super::describe::described;
use super::{BatchNorm, Module};
use crate::error::{invalid, refused};
use crate::{Init, Result, Tensor, Weights};

/// The options of a convolution over `N` spatial axes, with PyTorch's defaults.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::ConvOptions;
///
/// let options = ConvOptions { stride: [2, 2], padding: [1, 1], ..Default::default() };
/// assert_eq!((options.dilation, options.groups, options.bias), ([1, 1], 1, true));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<const N: usize> {
    /// The step of the window.
    pub stride: [u32; N],
    /// How many zeros are added on both sides.
    pub padding: [u32; N],
    /// The distance between taps.
    pub dilation: [u32; N],
    /// The number of groups that channels are split into; each is convolved by itself.
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
    pub(super) fn params(&self, op: &'static str) -> Result<ConvParams> {
        const { assert!(N >= 1 && N <= MAX_SPATIAL, "1 to 3 spatial axes") };
        let Some(groups) = u32::try_from(self.groups).ok().filter(|&groups| groups > 0) else {
            return invalid(op, format!("{} groups, but it takes 1 or more", self.groups));
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
/// `N` is 1 to 3; 4 does not compile:
///
/// ```compile_fail
/// # use millstream_cpu as _;
/// # use millstream_nn::doctest as millstream;
/// # use millstream::nn::{Conv, Weights};
/// # use millstream::{DType, Device};
/// let weights = Weights::random(1, DType::F32, &Device::cpu().unwrap());
/// let _ = Conv::<4>::new(1, 1, [1; 4], Default::default(), &weights);
/// ```
pub struct Conv<const N: usize> {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) params: ConvParams,
    name: LayerName,
    /// Whether the weights are stand-ins, since some weights of the model did not fit.
    stands_in: bool,
}

/// Convolution over one spatial axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Conv1d, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let conv = Conv1d::new(2, 8, [3], Default::default(), &weights)?;
/// let input = Tensor::ones(&[1, 2, 10], DType::F32, &device)?;
/// assert_eq!(conv.forward(&input)?.shape(), [1, 8, 8]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type Conv1d = Conv<1>;
/// Convolution over two spatial axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Conv2d, ConvOptions, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let options = ConvOptions { stride: [2, 2], padding: [1, 1], ..Default::default() };
/// let conv = Conv2d::new(3, 8, [3, 3], options, &weights)?;
/// let input = Tensor::ones(&[1, 3, 32, 32], DType::F32, &device)?;
/// assert_eq!(conv.forward(&input)?.shape(), [1, 8, 16, 16]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type Conv2d = Conv<2>;
/// Convolution over three spatial axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Conv3d, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let conv = Conv3d::new(1, 2, [2, 2, 2], Default::default(), &weights)?;
/// let input = Tensor::ones(&[1, 1, 4, 4, 4], DType::F32, &device)?;
/// assert_eq!(conv.forward(&input)?.shape(), [1, 2, 3, 3, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// Takes `weight` from the weights, and `bias` if the options ask for it.
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
        check_groups(in_channels, out_channels, options.groups, weights.layer_name("Conv"))?;
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

    pub(super) fn in_channels(&self) -> usize {
        self.weight.shape()[1] * self.params.groups as usize
    }

    /// This convolution and the batch normalization after it, as one convolution.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{BatchNorm2d, Conv2d, Module, Weights};
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let weights = Weights::random(1, DType::F32, &device);
    /// let conv = Conv2d::new(3, 8, [3, 3], Default::default(), &weights.child("conv"))?;
    /// let norm = BatchNorm2d::new(8, Default::default(), &weights.child("norm"))?;
    /// let both = conv.with_batch_norm(&norm)?; // costs no more than the convolution
    /// let input = Tensor::ones(&[1, 3, 8, 8], DType::F32, &device)?;
    /// assert_eq!(both.forward(&input)?.shape(), norm.forward(&conv.forward(&input)?)?.shape());
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        wants_channels::<N>(self.name.as_str(), input, self.in_channels())?;
        wants_dtype(self.name.as_str(), input, self.weight.dtype())?;
        unbatched::<N>(input, |input| {
            input.conv(&self.weight, self.bias.as_ref(), self.params, activation)
        })
    }

    described!();
}

/// Checks that the groups divide the channels of input and output.
pub(super) fn check_groups(
    inputs: usize,
    outputs: usize,
    groups: usize,
    name: LayerName,
) -> Result<()> {
    if inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        return Ok(());
    }
    refused(name.as_str(), format!("{groups} groups do not divide {inputs} and {outputs} channels"))
}

/// `weight` and `bias`. One output is the sum over `channels` and all elements of the kernel.
pub(super) fn parameters<const N: usize>(
    first: [usize; 2],
    kernel: [usize; N],
    bias_size: Option<usize>,
    channels: usize,
    weights: &Weights,
) -> Result<(Tensor, Option<Tensor>)> {
    let taps = kernel.iter().fold(channels, |product, &size| product.saturating_mul(size));
    let init = Init::fan_in(taps);
    let weight = weights.parameter("weight", &[&first[..], &kernel[..]].concat(), init)?;
    let bias = |outputs| weights.parameter_like("weight", "bias", &[outputs], init)?.settle();
    Ok((weight.settle()?, bias_size.map(bias).transpose()?))
}

/// Applies a function to an input that may have no batch axis.
pub(super) fn unbatched<const N: usize>(
    input: &Tensor,
    apply: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if input.rank() == N + 1 { apply(&input.unsqueeze(0)?)?.squeeze(0) } else { apply(input) }
}

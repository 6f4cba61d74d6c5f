//! Pooling.

use millstream_core::{MAX_SPATIAL, PoolKind, PoolOrder, PoolParams};

use super::Module;
use super::check::wants_spatial;
use super::conv::unbatched;
use super::describe::described;
use crate::{Result, Tensor};

fn params<const N: usize>(
    kind: PoolKind,
    kernel: [u32; N],
    stride: [u32; N],
    padding: [u32; N],
) -> PoolParams {
    const { assert!(N >= 1 && N <= MAX_SPATIAL, "1 to 3 spatial axes") };
    let wide = |narrow: [u32; N], rest: u32| -> [u32; MAX_SPATIAL] {
        std::array::from_fn(|axis| narrow.get(axis).copied().unwrap_or(rest))
    };
    PoolParams {
        kind,
        spatial: N as u8,
        kernel: wide(kernel, 1),
        stride: wide(stride, 1),
        pad_before: wide(padding, 0),
        pad_after: wide(padding, 0),
        dilation: [1; MAX_SPATIAL],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    }
}

/// The largest element of each window of `[batch, channels, spatial…]`.
///
/// [`MaxPool2d`] has an example.
#[derive(Clone, Copy)]
pub struct MaxPool<const N: usize>(pub(super) PoolParams);

/// The largest element of windows over one axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{MaxPool1d, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[[[1.0f32, 4.0, 3.0, 2.0]]], &Device::cpu()?)?;
/// assert_eq!(MaxPool1d::new([2], [2], [0]).forward(&input)?.to_vec::<f32>()?, [4.0, 3.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type MaxPool1d = MaxPool<1>;
/// The largest element of windows over two axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{MaxPool2d, Module};
/// use millstream::{DType, Device, Tensor};
///
/// let input = Tensor::ones(&[1, 3, 8, 8], DType::F32, &Device::cpu()?)?;
/// assert_eq!(MaxPool2d::new([2, 2], [2, 2], [0, 0]).forward(&input)?.shape(), [1, 3, 4, 4]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type MaxPool2d = MaxPool<2>;

impl<const N: usize> MaxPool<N> {
    pub(super) const NAME: &str = ["MaxPool1d", "MaxPool2d", "MaxPool3d"][N - 1];

    /// Windows of `kernel_size`, `stride` apart. Padding never counts as the largest element.
    pub fn new(kernel_size: [u32; N], stride: [u32; N], padding: [u32; N]) -> Self {
        Self(params(PoolKind::Max, kernel_size, stride, padding))
    }
}

impl<const N: usize> Module for MaxPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        wants_spatial::<N>(Self::NAME, input)?;
        unbatched::<N>(input, |input| input.pool(self.0))
    }

    described!();
}

/// The mean of each window of `[batch, channels, spatial…]`.
///
/// [`AvgPool2d`] has an example.
#[derive(Clone, Copy)]
pub struct AvgPool<const N: usize>(pub(super) PoolParams);

/// The mean of windows over one axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AvgPool1d, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[[[1.0f32, 4.0, 3.0, 2.0]]], &Device::cpu()?)?;
/// assert_eq!(AvgPool1d::new([2], [2], [0], true).forward(&input)?.to_vec::<f32>()?, [2.5, 2.5]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type AvgPool1d = AvgPool<1>;
/// The mean of windows over two axes.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AvgPool2d, Module};
/// use millstream::{DType, Device, Tensor};
///
/// let input = Tensor::ones(&[1, 3, 8, 8], DType::F32, &Device::cpu()?)?;
/// assert_eq!(AvgPool2d::new([2, 2], [2, 2], [0, 0], true).forward(&input)?.shape(), [1, 3, 4, 4]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type AvgPool2d = AvgPool<2>;

impl<const N: usize> AvgPool<N> {
    pub(super) const NAME: &str = ["AvgPool1d", "AvgPool2d", "AvgPool3d"][N - 1];

    /// Windows of `kernel_size`, `stride` apart. Padding is zeros, which are part of the mean if `count_include_pad`.
    pub fn new(
        kernel_size: [u32; N],
        stride: [u32; N],
        padding: [u32; N],
        count_include_pad: bool,
    ) -> Self {
        let kind = PoolKind::Average { include_padding: count_include_pad };
        Self(params(kind, kernel_size, stride, padding))
    }
}

impl<const N: usize> Module for AvgPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        wants_spatial::<N>(Self::NAME, input)?;
        unbatched::<N>(input, |input| input.pool(self.0))
    }

    described!();
}

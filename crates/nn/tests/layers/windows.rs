//! Convolution and pooling.

use std::collections::HashMap;

use millstream_core::{DType, Device};
use millstream_nn::{
    AvgPool2d, BatchNorm, Conv1d, Conv2d, ConvOptions, ConvTranspose1d, ConvTranspose2d,
    ConvTransposeOptions, MaxPool2d, Module, Result, Tensor, Weights,
};

use crate::fixture::module;

#[test]
fn convolution() {
    let options = ConvOptions { stride: [2], padding: [1], ..Default::default() };
    module("conv1d", |weights| Conv1d::new(4, 6, [3], options, weights));
    let options =
        ConvOptions { padding: [2, 1], dilation: [2, 1], groups: 2, ..Default::default() };
    module("conv2d", |weights| Conv2d::new(6, 8, [3, 2], options, weights));
    let options = ConvOptions { groups: 6, bias: false, ..Default::default() };
    module("conv2d_depthwise", |weights| Conv2d::new(6, 6, [3, 3], options, weights));
}

#[test]
fn transposed_convolution() {
    let conv = ConvOptions { stride: [2], padding: [1], ..Default::default() };
    let options = ConvTransposeOptions { conv, ..Default::default() };
    module("conv_transpose1d", |weights| ConvTranspose1d::new(4, 6, [4], options, weights));
    let conv = ConvOptions { stride: [2; 2], padding: [1; 2], groups: 2, ..Default::default() };
    let options = ConvTransposeOptions { conv, output_padding: [1; 2] };
    module("conv_transpose2d", |weights| ConvTranspose2d::new(4, 6, [3, 3], options, weights));
}

#[test]
fn a_batch_norm_folds_into_the_convolution_before_it() -> Result<()> {
    let device = Device::cpu()?;
    let weights = Weights::random(3, DType::F32, &device);
    let vector = |seed| Tensor::rand(&[6], seed, DType::F32, &device);
    let names = ["weight", "bias", "running_mean", "running_var"];
    let tensors: HashMap<_, _> = (1..)
        .zip(names)
        .map(|(seed, name)| Ok((name.to_owned(), vector(seed)?)))
        .collect::<Result<_>>()?;
    let norm = BatchNorm::new(6, Default::default(), &Weights::from_tensors(tensors, &device))?;
    let input = Tensor::randn(&[2, 4, 9], 9, DType::F32, &device)?;
    for bias in [true, false] {
        let options = ConvOptions { bias, ..Default::default() };
        let conv = Conv1d::new(4, 6, [3], options, &weights)?;
        let expected = norm.forward(&conv.forward(&input)?)?;
        let found = conv.with_batch_norm(&norm)?.forward(&input)?;
        let difference = (found - expected)?.abs()?.max(.., false)?.to_scalar::<f32>()?;
        assert!(difference < 1e-5, "{difference}");
        let other = Conv1d::new(4, 5, [3], options, &weights)?;
        assert!(other.with_batch_norm(&norm).is_err());
        let other = Conv1d::new(4, 1, [3], options, &weights)?;
        assert!(other.with_batch_norm(&norm).is_err());
    }
    Ok(())
}

#[test]
fn pooling() {
    module("max_pool2d", |_| Ok(MaxPool2d::new([3, 2], [2, 2], [1, 1])));
    module("avg_pool2d", |_| Ok(AvgPool2d::new([3, 3], [2, 2], [1, 1], false)));
}

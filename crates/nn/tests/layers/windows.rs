//! Convolution and pooling.

use millstream_nn::{
    AvgPool2d, Conv1d, Conv2d, ConvOptions, ConvTranspose1d, ConvTranspose2d, ConvTransposeOptions,
    MaxPool2d,
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
fn pooling() {
    module("max_pool2d", |_| Ok(MaxPool2d::new([3, 2], [2, 2], [1, 1])));
    module("avg_pool2d", |_| Ok(AvgPool2d::new([3, 3], [2, 2], [1, 1], false)));
}

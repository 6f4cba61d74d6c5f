//! Layers whose results are known by hand, as PyTorch gives them.

use millstream_cpu as _;

use millstream_core::{DType, Device};
use millstream_nn::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AttentionMask, AvgPool1d, InstanceNorm,
    InstanceNormOptions, LayerNorm, MaxPool1d, Module, PReLU, Tensor, TransformerDecoder,
    TransformerDecoderLayer, TransformerOptions, Upsample, UpsampleMode, Weights,
};

fn device() -> Device {
    Device::cpu().unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

fn close(found: &Tensor, expected: &[f32]) {
    let found = values(found);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
    }
}

fn weights() -> Weights {
    Weights::random(3, DType::F32, &device())
}

#[test]
fn adaptive_windows_cover_all_elements_evenly_or_not() {
    let line = Tensor::new(&[[[1.0f32, 2.0, 3.0, 4.0, 5.0]]], &device()).unwrap();
    // Windows 0..2, 1..4, 3..5.
    close(&AdaptiveAvgPool1d::new([3]).forward(&line).unwrap(), &[1.5, 3.0, 4.5]);
    close(&AdaptiveAvgPool1d::new([1]).forward(&line).unwrap(), &[3.0]);
    close(&AdaptiveAvgPool1d::new([5]).forward(&line).unwrap(), &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let plane = Tensor::arange(0.0, 12.0, 1.0, DType::F32, &device()).unwrap();
    let plane = plane.reshape(&[1, 1, 3, 4]).unwrap();
    // Rows 0..2 and 1..3, columns in pairs.
    close(&AdaptiveAvgPool2d::new([2, 2]).forward(&plane).unwrap(), &[2.5, 4.5, 6.5, 8.5]);
    let alone = AdaptiveAvgPool2d::new([1, 1]).forward(&plane.squeeze(0).unwrap()).unwrap();
    assert_eq!((alone.shape(), values(&alone)), (&[1, 1, 1][..], vec![5.5]));
    assert!(AdaptiveAvgPool2d::new([0, 2]).forward(&plane).is_err());
    assert!(AdaptiveAvgPool2d::new([2, 2]).forward(&line.squeeze(0).unwrap()).is_err());
}

#[test]
fn pools_over_one_axis() {
    let line = Tensor::new(&[[[1.0f32, 5.0, 2.0, 4.0]]], &device()).unwrap();
    close(&MaxPool1d::new([2], [2], [0]).forward(&line).unwrap(), &[5.0, 4.0]);
    close(&AvgPool1d::new([2], [1], [0], true).forward(&line).unwrap(), &[3.0, 3.5, 3.0]);
}

#[test]
fn larger_images_by_each_mode() {
    let line = Tensor::new(&[[[1.0f32, 3.0]]], &device()).unwrap();
    let by = |mode, align_corners| {
        Upsample { scale_factor: 2.0, mode, align_corners }.forward(&line).unwrap()
    };
    close(&by(UpsampleMode::Nearest, false), &[1.0, 1.0, 3.0, 3.0]);
    close(&by(UpsampleMode::Linear, false), &[1.0, 1.5, 2.5, 3.0]);
    close(&by(UpsampleMode::Linear, true), &[1.0, 5.0 / 3.0, 7.0 / 3.0, 3.0]);
    let bad = Upsample { scale_factor: f64::NAN, mode: UpsampleMode::Linear, align_corners: false };
    assert!(bad.forward(&line).is_err());
}

#[test]
fn slopes_and_norms_of_channels() {
    let input = Tensor::new(&[[[-4.0f32, 4.0], [-8.0, 0.0]]], &device()).unwrap();
    let one = weights().load(|weights| PReLU::new(1, weights)).unwrap();
    close(&one.forward(&input).unwrap(), &[-1.0, 4.0, -2.0, 0.0]);
    let each = weights().load(|weights| PReLU::new(2, weights)).unwrap();
    close(&each.forward(&input).unwrap(), &[-1.0, 4.0, -2.0, 0.0]);
    let options = InstanceNormOptions { eps: 0.0, affine: true };
    let norm = weights().load(|weights| InstanceNorm::new(2, options, weights)).unwrap();
    close(&norm.forward(&input).unwrap(), &[-1.0, 1.0, -1.0, 1.0]);
}

#[test]
fn a_decoder_is_its_layers_in_turn_and_a_norm() {
    let options =
        TransformerOptions { dim_feedforward: 16, batch_first: true, ..Default::default() };
    let decoder =
        weights().load(|weights| TransformerDecoder::new(8, 2, 2, true, options, weights)).unwrap();
    let layer = |index: usize| {
        let load = |weights: &Weights| {
            TransformerDecoderLayer::new(8, 2, options, &weights.child("layers").child(index))
        };
        weights().load(load).unwrap()
    };
    let norm = weights()
        .load(|weights| LayerNorm::new(&[8], Default::default(), &weights.child("norm")))
        .unwrap();
    let target = Tensor::randn(&[1, 3, 8], 1, DType::F32, &device()).unwrap();
    let memory = Tensor::randn(&[1, 5, 8], 2, DType::F32, &device()).unwrap();
    let (causal, none) = (AttentionMask::causal(), AttentionMask::none());
    let whole = decoder.forward(&target, &memory, &causal, &none).unwrap();
    let mut value = target;
    for index in 0..2 {
        value = layer(index).forward(&value, &memory, &causal, &none).unwrap();
    }
    assert_eq!(values(&whole), values(&norm.forward(&value).unwrap()));
}

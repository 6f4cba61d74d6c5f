//! Inputs that do not fit a layer: the layer is named by its path, and the input is to blame.

use millstream_core::DType;
use millstream_nn::*;

use super::{check, random, zeros, zeros_of};

/// Layers of a model whose weights lie below `net`.
fn at(name: &str) -> Weights {
    random().child("net").child(name)
}

#[test]
fn linear_and_embedding() {
    let linear = Linear::new(16, 8, true, &at("fc")).unwrap();
    let root = Linear::new(16, 8, true, &random()).unwrap();
    let table = Embedding::new(10, 4, &at("words")).unwrap();
    let residual =
        linear.forward_fused(&zeros(&[2, 16]), Some(&zeros(&[3, 8])), Default::default());
    check([
        (
            linear.forward(&zeros(&[3, 4])),
            "net.fc: input f32[3, 4], but the layer takes 16 features",
        ),
        (linear.forward(&zeros(&[])), "net.fc: input f32[], but the layer takes 16 features"),
        (root.forward(&zeros(&[4])), "Linear: input f32[4], but the layer takes 16 features"),
        (
            linear.forward(&zeros_of(DType::F16, &[3, 16])),
            "net.fc: input f16[3, 16], but the layer has weights of f32: convert one with to_dtype",
        ),
        (
            residual,
            "net.fc: linear: residual is f32[3, 8], expected a shape that broadcasts to [2, 8]",
        ),
        (
            table.forward(&zeros(&[2])),
            "net.words: input f32[2], but the layer takes indices of rows, i32 or i64",
        ),
    ]);
}

#[test]
fn convolutions_and_pools() {
    let line = Conv1d::new(4, 2, [3], Default::default(), &at("conv1")).unwrap();
    let plane = Conv2d::new(3, 8, [3, 3], Default::default(), &at("conv2")).unwrap();
    let up = ConvTranspose2d::new(3, 8, [3, 3], Default::default(), &at("up")).unwrap();
    let groups = ConvOptions { groups: 2, ..Default::default() };
    check([
        (
            line.forward(&zeros(&[1, 5, 8])),
            "net.conv1: input f32[1, 5, 8], but the layer takes 4 channels",
        ),
        (
            line.forward(&zeros(&[4])),
            "net.conv1: input f32[4], but the layer takes [batch, 4, length] or [4, length]",
        ),
        (
            plane.forward(&zeros(&[1, 4, 8, 8])),
            "net.conv2: input f32[1, 4, 8, 8], but the layer takes 3 channels",
        ),
        (
            plane.forward(&zeros(&[8, 8])),
            "net.conv2: input f32[8, 8], but the layer takes [batch, 3, height, width] or [3, height, width]",
        ),
        (
            plane.forward(&zeros_of(DType::F64, &[1, 3, 8, 8])),
            "net.conv2: input f64[1, 3, 8, 8], but the layer has weights of f32: convert one with to_dtype",
        ),
        (
            plane.forward(&zeros(&[1, 3, 2, 8])),
            "net.conv2: conv: input is f32[1, 3, 2, 8], expected 3 elements or more on spatial axis 0, \
             padding counted",
        ),
        (
            up.forward(&zeros(&[1, 4, 8, 8])),
            "net.up: input f32[1, 4, 8, 8], but the layer takes 3 channels",
        ),
        (
            MaxPool2d::new([2, 2], [2, 2], [0, 0]).forward(&zeros(&[4, 4])),
            "MaxPool2d: input f32[4, 4], but the layer takes [batch, channels, height, width] or \
             [channels, height, width]",
        ),
        (
            AvgPool1d::new([2], [2], [0], true).forward(&zeros(&[4])),
            "AvgPool1d: input f32[4], but the layer takes [batch, channels, length] or [channels, length]",
        ),
        (
            AdaptiveAvgPool2d::new([0, 1]).forward(&zeros(&[1, 2, 4, 4])),
            "AdaptiveAvgPool2d: input f32[1, 2, 4, 4], but the layer cannot make [0, 1] of it",
        ),
        (
            Upsample { scale_factor: 2.0, mode: Default::default(), align_corners: false }
                .forward(&zeros(&[4])),
            "Upsample: input f32[4], but the layer takes [batch, channels, spatial…] to scale by 2",
        ),
        (
            Conv2d::new(3, 8, [3, 3], groups, &at("conv3")).map(|_| zeros(&[])),
            "net.conv3: 2 groups do not divide 3 and 8 channels",
        ),
    ]);
}

#[test]
fn norms() {
    let layer = LayerNorm::new(&[16], Default::default(), &at("norm")).unwrap();
    let rms = RMSNorm::new(&[2, 16], Default::default(), &at("rms")).unwrap();
    let group = GroupNorm::new(2, 4, Default::default(), &at("group")).unwrap();
    let batch = BatchNorm2d::new(4, Default::default(), &at("batch")).unwrap();
    let instance = InstanceNorm::new(4, Default::default(), &at("instance")).unwrap();
    let slopes = PReLU::new(4, &at("slopes")).unwrap();
    check([
        (
            layer.forward(&zeros(&[3, 4])),
            "net.norm: input f32[3, 4], but the layer normalizes last axes of shape [16]",
        ),
        (
            layer.forward(&zeros_of(DType::BF16, &[3, 16])),
            "net.norm: input bf16[3, 16], but the layer has weights of f32: convert one with to_dtype",
        ),
        (
            rms.forward(&zeros(&[3, 16])),
            "net.rms: input f32[3, 16], but the layer normalizes last axes of shape [2, 16]",
        ),
        (
            group.forward(&zeros(&[2, 6, 3])),
            "net.group: input f32[2, 6, 3], but the layer takes [batch, 4, …]",
        ),
        (
            batch.forward(&zeros(&[2, 3, 8, 8])),
            "net.batch: input f32[2, 3, 8, 8], but the layer takes [batch, 4, …]",
        ),
        (
            instance.forward(&zeros(&[2, 8, 3])),
            "net.instance: input f32[2, 8, 3], but the layer takes [batch, 4, …]",
        ),
        (
            slopes.forward(&zeros(&[2, 3])),
            "net.slopes: input f32[2, 3], but the layer takes [batch, 4, …]",
        ),
        (
            GroupNorm::new(3, 4, Default::default(), &at("group")).map(|_| zeros(&[])),
            "net.group: 3 groups do not divide 4 channels",
        ),
    ]);
}

#[test]
fn recurrent_layers() {
    let options = RecurrentOptions { num_layers: 2, ..Default::default() };
    let lstm = LSTM::new(8, 4, options, &at("lstm")).unwrap();
    let gru =
        GRU::new(8, 4, RecurrentOptions { batch_first: true, ..options }, &at("gru")).unwrap();
    let state = |hidden: &[usize], cell: Option<&[usize]>| RecurrentState {
        hidden: zeros(hidden),
        cell: cell.map(zeros),
    };
    let input = zeros(&[5, 3, 8]);
    let with = |state| lstm.forward_state(&input, Some(&state)).map(|(output, _)| output);
    check([
        (
            lstm.forward(&zeros(&[5, 3, 6])),
            "net.lstm: input f32[5, 3, 6], but the layer takes 8 features",
        ),
        (
            lstm.forward(&zeros(&[8])),
            "net.lstm: input f32[8], but the layer takes [time, batch, 8] or [time, 8]",
        ),
        (
            gru.forward(&zeros(&[1, 1, 5, 8])),
            "net.gru: input f32[1, 1, 5, 8], but the layer takes [batch, time, 8] or [time, 8]",
        ),
        (
            lstm.forward(&zeros_of(DType::I64, &[5, 3, 8])),
            "net.lstm: input i64[5, 3, 8], but the layer has weights of f32: convert one with to_dtype",
        ),
        (
            with(state(&[1, 3, 4], None)),
            "net.lstm: hidden state f32[1, 3, 4], but the layer takes f32[2, 3, 4]",
        ),
        (
            with(state(&[2, 3, 4], Some(&[2, 4]))),
            "net.lstm: cell state f32[2, 4], but the layer takes f32[2, 3, 4]",
        ),
        (
            gru.forward_state(&input, Some(&state(&[2, 5, 4], Some(&[2, 5, 4]))))
                .map(|made| made.0),
            "net.gru: a cell state, which only an LSTM has",
        ),
    ]);
}

#[test]
fn attention_and_transformers() {
    let attention = MultiheadAttention::new(16, 4, Default::default(), &at("attn")).unwrap();
    let options = TransformerOptions { dim_feedforward: 32, ..Default::default() };
    let encoder = TransformerEncoder::new(16, 4, 2, true, options, &at("encoder")).unwrap();
    let first = TransformerOptions { norm_first: true, batch_first: true, ..options };
    let normed = TransformerEncoderLayer::new(16, 4, first, &at("normed")).unwrap();
    let (five, four) = (zeros(&[5, 2, 16]), zeros(&[4, 2, 16]));
    let none = AttentionMask::none();
    let mask = AttentionMask::new(&zeros(&[4, 5])).unwrap();
    check([
        (
            attention.forward(&zeros(&[5, 2, 8]), &five, &five, &none),
            "net.attn: query f32[5, 2, 8], but the layer takes [length, batch, 16] or [length, 16]",
        ),
        (
            attention.forward(&five, &zeros(&[4, 16]), &four, &none),
            "net.attn: key f32[4, 16], but the layer takes [length, batch, 16] or [length, 16]",
        ),
        (
            attention.forward(&five, &four, &five, &none),
            "net.attn: key f32[4, 2, 16] and value f32[5, 2, 16] have different lengths",
        ),
        (
            attention.forward(&zeros(&[5, 3, 16]), &four, &four, &none),
            "net.attn: query f32[5, 3, 16] and key f32[4, 2, 16] have different batches",
        ),
        (
            attention.forward(&five, &five, &five, &mask),
            "net.attn: attention: mask is f32[4, 5], expected a shape that broadcasts to [2, 4, 5, 5]",
        ),
        (
            encoder.forward(&zeros(&[5, 2, 8])),
            "net.encoder.layers.0.self_attn: input f32[5, 2, 8], but the layer takes [length, batch, 16] or \
             [length, 16]",
        ),
        (
            normed.forward(&zeros(&[2, 5, 8])),
            "net.normed.norm1: input f32[2, 5, 8], but the layer normalizes last axes of shape [16]",
        ),
        (
            MultiheadAttention::new(16, 3, Default::default(), &at("attn")).map(|_| zeros(&[])),
            "net.attn: 3 heads do not divide 16 features",
        ),
        (
            AttentionMask::new(&five).map(|_| zeros(&[])),
            "attn_mask: shape [5, 2, 16], but it takes 2 or 4 axes",
        ),
    ]);
}

#[test]
fn an_index_that_a_table_does_not_have_is_reported_with_the_layer() {
    let table = Embedding::new(10, 4, &at("words")).unwrap();
    let ids = Tensor::new(&[3i64, 10], &super::device()).unwrap();
    let error = table.forward(&ids).unwrap().to_vec::<f32>().unwrap_err().to_string();
    // Stream and sequence number are whatever they are.
    assert!(error.starts_with("embedding in layer net.words failed on stream "), "{error}");
    assert!(error.contains("10"), "{error}");
}

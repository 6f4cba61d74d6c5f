//! Modules print as PyTorch prints them.

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::*;

fn weights() -> Weights {
    Weights::random(1, DType::F32, &Device::cpu().unwrap())
}

#[test]
fn layers_print_their_arguments() {
    let w = weights();
    let plain = ConvOptions { bias: false, padding: [1, 1], groups: 2, ..Default::default() };
    let up = ConvTransposeOptions {
        conv: ConvOptions { stride: [2], ..Default::default() },
        output_padding: [1],
    };
    let lstm =
        RecurrentOptions { num_layers: 2, batch_first: true, bidirectional: true, bias: false };
    let up_by_two =
        Upsample { scale_factor: 2.0, mode: UpsampleMode::Nearest, align_corners: false };
    let rows: Vec<(Box<dyn Module>, &str)> = vec![
        (
            Box::new(Linear::new(8, 16, true, &w).unwrap()),
            "Linear(in_features=8, out_features=16, bias=True)",
        ),
        (Box::new(Embedding::new(10, 4, &w).unwrap()), "Embedding(10, 4)"),
        (
            Box::new(Conv1d::new(4, 2, [3], Default::default(), &w).unwrap()),
            "Conv1d(4, 2, kernel_size=(3,), stride=(1,))",
        ),
        (
            Box::new(Conv2d::new(4, 8, [3, 3], plain, &w).unwrap()),
            "Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2, bias=False)",
        ),
        (
            Box::new(ConvTranspose1d::new(4, 2, [3], up, &w).unwrap()),
            "ConvTranspose1d(4, 2, kernel_size=(3,), stride=(2,), output_padding=(1,))",
        ),
        (
            Box::new(MaxPool2d::new([2, 2], [2, 2], [0, 0])),
            "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        ),
        (
            Box::new(AvgPool2d::new([3, 2], [1, 1], [0, 0], true)),
            "AvgPool2d(kernel_size=(3, 2), stride=1, padding=0)",
        ),
        (Box::new(AdaptiveAvgPool2d::new([1, 1])), "AdaptiveAvgPool2d(output_size=(1, 1))"),
        (Box::new(AdaptiveAvgPool1d::new([5])), "AdaptiveAvgPool1d(output_size=5)"),
        (Box::new(up_by_two), "Upsample(scale_factor=2.0, mode='nearest')"),
        (
            Box::new(LayerNorm::new(&[16], Default::default(), &w).unwrap()),
            "LayerNorm((16,), eps=1e-05, elementwise_affine=True)",
        ),
        (
            Box::new(RMSNorm::new(&[2, 16], Default::default(), &w).unwrap()),
            "RMSNorm((2, 16), eps=None, elementwise_affine=True)",
        ),
        (
            Box::new(GroupNorm::new(2, 4, Default::default(), &w).unwrap()),
            "GroupNorm(2, 4, eps=1e-05, affine=True)",
        ),
        (
            Box::new(InstanceNorm::new(4, Default::default(), &w).unwrap()),
            "InstanceNorm(4, eps=1e-05, affine=False)",
        ),
        (
            Box::new(BatchNorm2d::new(4, Default::default(), &w).unwrap()),
            "BatchNorm(4, eps=1e-05, affine=True)",
        ),
        (
            Box::new(LSTM::new(4, 8, lstm, &w).unwrap()),
            "LSTM(4, 8, num_layers=2, bias=False, batch_first=True, bidirectional=True)",
        ),
        (Box::new(GRU::new(4, 8, Default::default(), &w).unwrap()), "GRU(4, 8)"),
        (Box::new(RNN::new(4, 8, Default::default(), &w).unwrap()), "RNN(4, 8)"),
        (Box::new(PReLU::new(1, &w).unwrap()), "PReLU(num_parameters=1)"),
        (Box::new(ReLU), "ReLU()"),
        (Box::new(ReLU6), "ReLU6()"),
        (Box::new(SiLU), "SiLU()"),
        (Box::new(Sigmoid), "Sigmoid()"),
        (Box::new(Tanh), "Tanh()"),
        (Box::new(Hardswish), "Hardswish()"),
        (Box::new(Hardsigmoid), "Hardsigmoid()"),
        (Box::new(Mish), "Mish()"),
        (Box::new(SELU), "SELU()"),
        (Box::new(Softplus), "Softplus()"),
        (Box::new(Softsign), "Softsign()"),
        (Box::new(Identity), "Identity()"),
        (Box::new(GELU { tanh: true }), "GELU(approximate='tanh')"),
        (Box::new(LeakyReLU::default()), "LeakyReLU(negative_slope=0.01)"),
        (Box::new(ELU::default()), "ELU(alpha=1.0)"),
        (Box::new(Softmax { dim: -1 }), "Softmax(dim=-1)"),
        (Box::new(LogSoftmax { dim: 1 }), "LogSoftmax(dim=1)"),
        (Box::new(Dropout { p: 0.5 }), "Dropout(p=0.5, inplace=False)"),
        (Box::new(Flatten), "Flatten(start_dim=1, end_dim=-1)"),
    ];
    for (module, expected) in rows {
        let text = format!("{:?}", Sequential::new().push(module));
        assert_eq!(text, format!("Sequential(\n  (0): {expected}\n)"));
    }
}

/// A module that says nothing of how it prints.
struct Twice(Linear);

impl Module for Twice {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.forward(&self.0.forward(input)?)
    }
}

#[test]
fn modules_print_the_modules_they_are_made_of() {
    let w = weights();
    let linear = |name: &str| Linear::new(8, 8, true, &w.child(name)).unwrap();
    let inner = Sequential::new().push(linear("0.0")).push(ReLU);
    let model = Sequential::new().push(inner).push(Twice(linear("1"))).push(Box::new(Tanh));
    let expected = "\
Sequential(
  (0): Sequential(
    (0): Linear(in_features=8, out_features=8, bias=True)
    (1): ReLU()
  )
  (1): Twice()
  (2): Tanh()
)";
    assert_eq!(format!("{model:?}"), expected);
    assert_eq!(format!("{:?}", Sequential::new()), "Sequential()");
}

#[test]
fn layers_that_are_alike_print_once() {
    let options = TransformerOptions { dim_feedforward: 32, ..Default::default() };
    let encoder = TransformerEncoder::new(16, 4, 3, true, options, &weights()).unwrap();
    let expected = "\
TransformerEncoder(
  (layers): ModuleList(
    (0-2): 3 x TransformerEncoderLayer(
      (self_attn): MultiheadAttention(
        (out_proj): Linear(in_features=16, out_features=16, bias=True)
      )
      (linear1): Linear(in_features=16, out_features=32, bias=True)
      (linear2): Linear(in_features=32, out_features=16, bias=True)
      (norm1): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
      (norm2): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
    )
  )
  (norm): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
)";
    assert_eq!(format!("{encoder:?}"), expected);
    let decoder = TransformerDecoder::new(16, 4, 1, false, options, &weights()).unwrap();
    let expected = "\
TransformerDecoder(
  (layers): ModuleList(
    (0): TransformerDecoderLayer(
      (self_attn): MultiheadAttention(
        (out_proj): Linear(in_features=16, out_features=16, bias=True)
      )
      (multihead_attn): MultiheadAttention(
        (out_proj): Linear(in_features=16, out_features=16, bias=True)
      )
      (linear1): Linear(in_features=16, out_features=32, bias=True)
      (linear2): Linear(in_features=32, out_features=16, bias=True)
      (norm1): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
      (norm2): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
      (norm3): LayerNorm((16,), eps=1e-05, elementwise_affine=True)
    )
  )
)";
    assert_eq!(format!("{decoder:?}"), expected);
}

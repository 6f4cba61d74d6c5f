//! How each layer prints: as in PyTorch.

use std::fmt;

use super::describe::{one_or_tuple, python, small, tuple};
use super::*;

macro_rules! prints {
    ($($type:ty: |$layer:ident| $description:expr;)*) => {
        $(
            impl fmt::Debug for $type {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let $layer = self;
                    $description.write(f)
                }
            }
        )*
    };
}

fn kind(name: &'static str) -> Description {
    Description::new(name)
}

prints! {
    Linear: |layer| Linear::description(layer.inputs(), layer.outputs(), layer.bias.is_some());
    Embedding: |layer| Embedding::description(layer.weight());
    LayerNorm: |norm| kind("LayerNorm")
        .value(tuple(&norm.normalized_shape))
        .argument("eps", small(norm.eps))
        .argument("elementwise_affine", python(norm.weight.is_some()));
    RMSNorm: |norm| kind("RMSNorm")
        .value(tuple(&norm.normalized_shape))
        .argument("eps", norm.eps.map_or("None".into(), small))
        .argument("elementwise_affine", python(norm.weight.is_some()));
    GroupNorm: |norm| kind("GroupNorm")
        .value(norm.groups)
        .value(norm.channels)
        .argument("eps", small(norm.eps))
        .argument("affine", python(norm.weight.is_some()));
    InstanceNorm: |norm| kind("InstanceNorm")
        .value(norm.0.channels)
        .argument("eps", small(norm.0.eps))
        .argument("affine", python(norm.0.weight.is_some()));
    BatchNorm: |norm| kind("BatchNorm")
        .value(norm.scale().elements())
        .argument("eps", small(norm.options.eps))
        .argument("affine", python(norm.options.affine));
    ReLU: |_layer| kind("ReLU");
    ReLU6: |_layer| kind("ReLU6");
    SiLU: |_layer| kind("SiLU");
    Sigmoid: |_layer| kind("Sigmoid");
    Tanh: |_layer| kind("Tanh");
    Hardswish: |_layer| kind("Hardswish");
    Hardsigmoid: |_layer| kind("Hardsigmoid");
    Mish: |_layer| kind("Mish");
    SELU: |_layer| kind("SELU");
    Softplus: |_layer| kind("Softplus");
    Softsign: |_layer| kind("Softsign");
    Identity: |_layer| kind("Identity");
    GELU: |layer| kind("GELU")
        .argument("approximate", if layer.tanh { "'tanh'" } else { "'none'" });
    LeakyReLU: |layer| kind("LeakyReLU").argument("negative_slope", small(layer.negative_slope));
    ELU: |layer| kind("ELU").argument("alpha", small(layer.alpha));
    PReLU: |layer| kind("PReLU").argument("num_parameters", layer.weight.elements());
    Softmax: |layer| kind("Softmax").argument("dim", layer.dim);
    LogSoftmax: |layer| kind("LogSoftmax").argument("dim", layer.dim);
    Dropout: |layer| kind("Dropout").argument("p", small(layer.p)).argument("inplace", "False");
    Flatten: |_layer| kind("Flatten").argument("start_dim", 1).argument("end_dim", -1);
    Upsample: |layer| kind("Upsample")
        .argument("scale_factor", small(layer.scale_factor))
        .argument("mode", match layer.mode {
            UpsampleMode::Nearest => "'nearest'",
            UpsampleMode::Linear => "'linear'",
            UpsampleMode::Bicubic => "'bicubic'",
        });
}

/// What both kinds of convolution print after their channels.
fn window<const N: usize>(
    description: Description,
    kernel: &[usize],
    params: &millstream_core::ConvParams,
    bias: bool,
) -> Description {
    let usual = |numbers: &[u32], number: u32| numbers.iter().all(|&given| given == number);
    let [stride, padding, dilation, output_padding] =
        [&params.stride, &params.pad_before, &params.dilation, &params.output_padding]
            .map(|numbers| &numbers[..N]);
    description
        .argument("kernel_size", tuple(kernel))
        .argument("stride", tuple(stride))
        .argument_if(!usual(padding, 0), "padding", tuple(padding))
        .argument_if(!usual(dilation, 1), "dilation", tuple(dilation))
        .argument_if(!usual(output_padding, 0), "output_padding", tuple(output_padding))
        .argument_if(params.groups != 1, "groups", params.groups)
        .argument_if(!bias, "bias", "False")
}

impl<const N: usize> fmt::Debug for Conv<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["Conv1d", "Conv2d", "Conv3d"][N - 1];
        let description = kind(name).value(self.in_channels()).value(self.weight.shape()[0]);
        let (kernel, bias) = (&self.weight.shape()[2..], self.bias.is_some());
        window::<N>(description, kernel, &self.params, bias).write(f)
    }
}

impl<const N: usize> fmt::Debug for ConvTranspose<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"][N - 1];
        let outputs = self.weight.shape()[1] * self.params.groups as usize;
        let description = kind(name).value(self.weight.shape()[0]).value(outputs);
        let (kernel, bias) = (&self.weight.shape()[2..], self.bias.is_some());
        window::<N>(description, kernel, &self.params, bias).write(f)
    }
}

impl<const N: usize> fmt::Debug for MaxPool<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pool::<N>(Self::NAME, &self.0)
            .argument("dilation", one_or_tuple(&self.0.dilation[..N]))
            .argument("ceil_mode", python(self.0.ceil))
            .write(f)
    }
}

impl<const N: usize> fmt::Debug for AvgPool<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pool::<N>(Self::NAME, &self.0).write(f)
    }
}

fn pool<const N: usize>(name: &'static str, params: &millstream_core::PoolParams) -> Description {
    kind(name)
        .argument("kernel_size", one_or_tuple(&params.kernel[..N]))
        .argument("stride", one_or_tuple(&params.stride[..N]))
        .argument("padding", one_or_tuple(&params.pad_before[..N]))
}

impl<const N: usize> fmt::Debug for AdaptiveAvgPool<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = match &self.output_size[..] {
            [size] => size.to_string(),
            sizes => tuple(sizes),
        };
        kind(Self::NAME).argument("output_size", size).write(f)
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = kind("Sequential");
        for (index, module) in self.modules.iter().enumerate() {
            description = description.child(&index.to_string(), &describe::Shown(&**module));
        }
        description.write(f)
    }
}

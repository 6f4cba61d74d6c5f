//! The models, with random weights: what they compute matters, not with which numbers.

use std::sync::OnceLock;

use candle_core::{D, DType, Device, Module, Result, Tensor, bail};
use candle_nn::{Activation, Conv1d, Conv1dConfig, LayerNorm, Linear, ops};

type Model = Box<dyn Module + Sync>;

/// candle's own `Sequential` cannot be shared between threads.
#[derive(Default)]
struct Chain(Vec<Model>);

impl Chain {
    fn add(mut self, layer: impl Module + Sync + 'static) -> Self {
        self.0.push(Box::new(layer));
        self
    }
}

impl Module for Chain {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

pub fn load(name: &str) -> Result<(Model, &'static [usize])> {
    Ok(match name {
        "mm" => (
            boxed(Chain::default().add(linear(512, 512, false)?).add(Activation::Relu)),
            &[512, 512],
        ),
        "mlp" => (boxed(linears(&[512, 1024, 1024, 512])?), &[1, 512]),
        "mlp-large" => (boxed(linears(&[2048, 2048, 2048])?), &[64, 2048]),
        "conv1d" => (boxed(conv1d()?), &[1, 80, 200]),
        "encoder" => (boxed(Encoder::new(256, 4, 1024)?), &[1, 128, 256]),
        _ => bail!("no workload is called {name}"),
    })
}

/// The CPU, unless `MILLSTREAM_PEER_DEVICE` is `metal`. One for the process: tensors of two do not mix.
fn device() -> Result<&'static Device> {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    if let Some(device) = DEVICE.get() {
        return Ok(device);
    }
    let made = match std::env::var("MILLSTREAM_PEER_DEVICE").as_deref() {
        Ok("metal") => Device::new_metal(0)?,
        _ => Device::Cpu,
    };
    Ok(DEVICE.get_or_init(|| made))
}

pub fn input(shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(0f32, 1.0, shape, device()?)
}

fn boxed(model: impl Module + Sync + 'static) -> Model {
    Box::new(model)
}

fn weight(shape: &[usize], inputs: usize) -> Result<Tensor> {
    let bound = 1.0 / (inputs as f32).sqrt();
    Tensor::rand(-bound, bound, shape, device()?)
}

fn linear(inputs: usize, outputs: usize, bias: bool) -> Result<Linear> {
    let bias = bias.then(|| weight(&[outputs], inputs)).transpose()?;
    Ok(Linear::new(weight(&[outputs, inputs], inputs)?, bias))
}

fn linears(sizes: &[usize]) -> Result<Chain> {
    let mut model = Chain::default();
    for (index, pair) in sizes.windows(2).enumerate() {
        model = if index == 0 { model } else { model.add(Activation::Relu) };
        model = model.add(linear(pair[0], pair[1], true)?);
    }
    Ok(model)
}

fn conv1d() -> Result<Chain> {
    let config = Conv1dConfig { padding: 1, ..Default::default() };
    let mut model = Chain::default();
    for channels in [80, 256, 256] {
        let bias = weight(&[256], channels * 3)?;
        let layer = Conv1d::new(weight(&[256, channels, 3], channels * 3)?, Some(bias), config);
        model = model.add(layer).add(Activation::Relu);
    }
    Ok(model)
}

/// PyTorch's encoder layer with the norms behind the sums.
struct Encoder {
    heads: usize,
    inward: Linear,
    outward: Linear,
    linear1: Linear,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
}

impl Encoder {
    fn new(size: usize, heads: usize, inner: usize) -> Result<Self> {
        let norm = || -> Result<LayerNorm> {
            let ones = Tensor::ones(size, DType::F32, device()?)?;
            Ok(LayerNorm::new(ones.clone(), ones.zeros_like()?, 1e-5))
        };
        Ok(Self {
            heads,
            inward: linear(size, 3 * size, true)?,
            outward: linear(size, size, true)?,
            linear1: linear(size, inner, true)?,
            linear2: linear(inner, size, true)?,
            norm1: norm()?,
            norm2: norm()?,
        })
    }

    fn attend(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length, size) = x.dims3()?;
        let head = size / self.heads;
        let parts = self.inward.forward(x)?.reshape((batch, length, 3, self.heads, head))?;
        let part =
            |index: usize| parts.narrow(2, index, 1)?.squeeze(2)?.transpose(1, 2)?.contiguous();
        let (query, key, value) = ((part(0)? * (head as f64).sqrt().recip())?, part(1)?, part(2)?);
        let scores = query.matmul(&key.transpose(D::Minus1, D::Minus2)?)?;
        let mixed = ops::softmax_last_dim(&scores)?.matmul(&value)?;
        self.outward.forward(&mixed.transpose(1, 2)?.reshape((batch, length, size))?)
    }
}

impl Module for Encoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.norm1.forward(&(x + self.attend(x)?)?)?;
        let inner = self.linear1.forward(&x)?.relu()?;
        self.norm2.forward(&(&x + self.linear2.forward(&inner)?)?)
    }
}

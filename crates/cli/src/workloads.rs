//! The models that are measured and traced: those that are built in, and those of folders.

mod folder;

use millstream::graph::{Batching, ValueType};
use millstream::nn::models::bert::Bert;
use millstream::nn::{
    Conv1d, ConvOptions, Linear, Module, Plan, ReLU, Result, Sequential, TransformerEncoderLayer,
    TransformerOptions, Weights,
};
use millstream::{DType, Device, Download, HostBytes, Session, Tensor};

pub(crate) use folder::of_folder;

/// A model and the shape of its input.
pub(crate) struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    input: &'static [usize],
    source: Source,
}

/// Where a model comes from.
enum Source {
    /// Layers with random weights; inputs are random numbers.
    Layers(fn(&Weights) -> Result<Sequential>),
    /// An encoder in a folder; inputs are random tokens of so many.
    Bert { folder: &'static str, vocabulary: usize },
}

pub(crate) const ALL: &[Workload] = &[
    Workload {
        name: "mm",
        about: "512² matmul + ReLU",
        input: &[512, 512],
        source: Source::Layers(mm),
    },
    Workload {
        name: "mlp",
        about: "512-1024-1024-512 with ReLU, batch 1",
        input: &[1, 512],
        source: Source::Layers(|weights| linears(&[512, 1024, 1024, 512], weights)),
    },
    Workload {
        name: "mlp-large",
        about: "2048-2048-2048 with ReLU, batch 64",
        input: &[64, 2048],
        source: Source::Layers(|weights| linears(&[2048, 2048, 2048], weights)),
    },
    Workload {
        name: "conv1d",
        about: "3 convolutions of 256 channels, kernel 3, with ReLU, on (1, 80, 200)",
        input: &[1, 80, 200],
        source: Source::Layers(conv1d),
    },
    Workload {
        name: "encoder",
        about: "a transformer encoder layer, d=256 h=4 ff=1024, on (1, 128, 256)",
        input: &[1, 128, 256],
        source: Source::Layers(encoder),
    },
];

/// Their names, for the command line.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name).collect()
}

/// Those with the given names, or all if none is given.
pub(crate) fn chosen(names: &[String]) -> Vec<&'static Workload> {
    let wanted = |workload: &&Workload| names.iter().any(|name| name == workload.name);
    ALL.iter().filter(|workload| names.is_empty() || wanted(workload)).collect()
}

impl Workload {
    /// The model, with the same weights on every device.
    pub fn load(&self, device: &Device) -> Result<Box<dyn Module>> {
        Ok(match self.source {
            Source::Layers(build) => Box::new(Weights::random(1, DType::F32, device).load(build)?),
            Source::Bert { folder, .. } => Box::new(folder::Tokens(Bert::open(folder, device)?)),
        })
    }

    /// A session of the model, which joins calls.
    pub fn session(&self, device: &Device, batching: Batching) -> Result<Session> {
        let model = self.load(device)?;
        let declared = [("input", ValueType::Tensor(self.dtype(), None))];
        Session::builder(device)
            .batching(batching)
            .trace(&declared, &["output"], move |inputs| Ok(vec![model.forward(&inputs[0])?]))
    }

    /// A plan of the model.
    pub fn plan(&self, model: &dyn Module, device: &Device) -> Result<Plan> {
        Plan::of_module(model, self.input, self.dtype(), device)
    }

    /// One of its inputs.
    pub fn input(&self, seed: usize, device: &Device) -> Result<Tensor> {
        match self.source {
            Source::Layers(_) => Tensor::randn(self.input, seed as u64, DType::F32, device),
            Source::Bert { vocabulary, .. } => {
                let ids = folder::ids(seed, vocabulary, self.input.iter().product());
                Tensor::from_slice(&ids, self.input, device)
            }
        }
    }

    fn dtype(&self) -> DType {
        match self.source {
            Source::Layers(_) => DType::F32,
            Source::Bert { .. } => DType::I64,
        }
    }
}

/// Where callers have their inputs.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Origin {
    /// On the device already: a call moves only the answer.
    Device,
    /// In host memory: a call moves the input there and the answer back.
    Host,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Device => "device",
            Origin::Host => "host",
        }
    }
}

/// An input as its caller holds it.
pub(crate) enum Input {
    Device(Tensor),
    Host { bytes: HostBytes, shape: Vec<usize>, dtype: DType, device: Device },
}

impl Input {
    pub fn new(tensor: Tensor, origin: Origin) -> Result<Self> {
        Ok(match origin {
            Origin::Device => Input::Device(tensor),
            Origin::Host => Input::Host {
                // Prepared where the device reads it, as the peers of `bench/gpu` do.
                bytes: tensor.device().stream()?.host_copy_of(&tensor.to_bytes()?),
                shape: tensor.shape().to_vec(),
                dtype: tensor.dtype(),
                device: tensor.device(),
            },
        })
    }

    /// The input on the device.
    pub fn tensor(&self) -> Result<Tensor> {
        match self {
            Input::Device(tensor) => Ok(tensor.clone()),
            Input::Host { bytes, shape, dtype, device } => {
                Tensor::from_host(bytes.clone(), shape, *dtype, device)
            }
        }
    }

    /// One call as its caller sees it: from where the input is to the answer on the host.
    pub fn call(&self, model: &dyn Module) -> Result<Download> {
        call(model, &self.tensor()?)
    }
}

/// One call from a tensor to the answer, which is on the host when this returns.
pub(crate) fn call(model: &dyn Module, input: &Tensor) -> Result<Download> {
    let answer = model.forward(input)?.download()?;
    answer.view_bytes()?;
    Ok(answer)
}

fn mm(weights: &Weights) -> Result<Sequential> {
    Ok(Sequential::new().push(Linear::new(512, 512, false, weights)?).push(ReLU))
}

/// Linear layers with ReLU between them.
fn linears(sizes: &[usize], weights: &Weights) -> Result<Sequential> {
    let mut model = Sequential::new();
    for (index, pair) in sizes.windows(2).enumerate() {
        model = if index == 0 { model } else { model.push(ReLU) };
        model = model.push(Linear::new(pair[0], pair[1], true, &weights.child(2 * index))?);
    }
    Ok(model)
}

fn conv1d(weights: &Weights) -> Result<Sequential> {
    let options = ConvOptions { padding: [1], ..Default::default() };
    let mut model = Sequential::new();
    for (index, channels) in [80, 256, 256].into_iter().enumerate() {
        let layer = Conv1d::new(channels, 256, [3], options, &weights.child(2 * index))?;
        model = model.push(layer).push(ReLU);
    }
    Ok(model)
}

fn encoder(weights: &Weights) -> Result<Sequential> {
    let options =
        TransformerOptions { dim_feedforward: 1024, batch_first: true, ..Default::default() };
    Ok(Sequential::new().push(TransformerEncoderLayer::new(256, 4, options, weights)?))
}

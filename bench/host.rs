//! What a call costs the calling thread before the device has all of it.
//!
//! `cargo bench --bench host -- cuda` makes calls, hands each to the device, and takes the time up to there; then it
//! waits. Medians of many calls are printed, beside the whole call. `MILLSTREAM_CUDA_GRAPHS=0` shows the same
//! without replay. `--json` prints JSON, a line for each kind of call:
//!
//! - `mlp`: Commands recorded one by one, an upload, three products of one row with bias and ReLU, a download.
//! - `encoder`: a transformer encoder layer on a tensor of the device and a download, by its code (`direct`) and
//!   by a plan of it (`plan`), call by call in turn.
//!
//! Without a GPU, the driver of `crates/cuda/tests/fake_driver` shows what of this is ours: `cargo test -p
//! millstream-cuda` builds it into `target/tmp/fake-driver`, which goes into `LD_LIBRARY_PATH`, with
//! `FAKE_DRIVER_AT_ONCE=1` and `MILLSTREAM_CACHE_DIR=off`.

use std::time::{Duration, Instant};

use millstream::nn::{
    self, Module, Plan, Tensor, TransformerEncoderLayer, TransformerOptions, Weights,
};
use millstream::{
    Activation, Buffer, Command, DType, Device, Distribution, Download, Layout, Result, Stream,
};

const SIZES: [usize; 4] = [512, 1024, 1024, 512];
/// An upload, a product per pair of sizes, a download.
const COMMANDS: usize = SIZES.len() + 1;
const WARM: usize = 200;
const CALLS: usize = 5000;

fn main() -> nn::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench`.
    let name = arguments.iter().find(|argument| !argument.starts_with("--"));
    let device = Device::open(name.map_or("cpu", String::as_str))?;
    let stream = device.stream()?;
    let json = arguments.iter().any(|argument| argument == "--json");
    let report = |call: &str, commands: Option<usize>, times: &Times| {
        let name = device.name();
        let (host, whole) = (times.host(), times.whole());
        let count = commands.map_or("null".to_owned(), |commands| commands.to_string());
        if json {
            println!(
                r#"{{"device":"{name}","call":"{call}","commands":{count},"host_us":{host:.2},"call_us":{whole:.2}}}"#
            );
        } else {
            let each = commands.map_or_else(String::new, |commands| {
                format!(" ({commands} Commands, {:.2} µs each)", host / commands as f64)
            });
            println!(
                "{name}, {call}: {host:.2} µs of the calling thread per call{each}, {whole:.2} µs in all \
                 (medians of {CALLS})"
            );
        }
    };
    report("mlp", Some(COMMANDS), &mlp(&stream)?);
    let (direct, plan) = encoder(&device, &stream)?;
    report("encoder direct", None, &direct);
    report("encoder plan", None, &plan);
    Ok(())
}

/// What calls took: until the device had them, and in all.
#[derive(Default)]
struct Times(Vec<(Duration, Duration)>);

impl Times {
    fn call(
        &mut self,
        stream: &Stream,
        call: impl FnOnce() -> nn::Result<Download>,
    ) -> nn::Result<()> {
        let started = Instant::now();
        let output = call()?;
        stream.flush()?;
        let handed_over = started.elapsed();
        let values = output.read::<f32>()?;
        self.0.push((handed_over, started.elapsed()));
        assert!(values.iter().all(|value| value.is_finite()));
        Ok(())
    }

    fn host(&self) -> f64 {
        median(self.0.iter().skip(WARM).map(|time| time.0).collect())
    }

    fn whole(&self) -> f64 {
        median(self.0.iter().skip(WARM).map(|time| time.1).collect())
    }
}

fn mlp(stream: &Stream) -> nn::Result<Times> {
    let weights = SIZES.windows(2).map(|pair| Linear::new(stream, pair[0], pair[1]));
    let layers: Vec<Linear> = weights.collect::<Result<_>>()?;
    let input = vec![0.5f32; SIZES[0]];
    let mut times = Times::default();
    for _ in 0..WARM + CALLS {
        times.call(stream, || call(stream, &layers, &input))?;
    }
    Ok(times)
}

fn encoder(device: &Device, stream: &Stream) -> nn::Result<(Times, Times)> {
    let options =
        TransformerOptions { dim_feedforward: 1024, batch_first: true, ..Default::default() };
    let layer = Weights::random(1, DType::F32, device)
        .load(|weights| TransformerEncoderLayer::new(256, 4, options, weights))?;
    let shape = [1, 128, 256];
    let plan = Plan::of_module(&layer, &shape, DType::F32, device)?;
    let input = Tensor::randn(&shape, 1, DType::F32, device)?.settle()?;
    let (mut direct, mut planned) = (Times::default(), Times::default());
    for _ in 0..WARM + CALLS {
        direct.call(stream, || layer.forward(&input)?.download())?;
        planned.call(stream, || plan.forward(&input)?.download())?;
    }
    Ok((direct, planned))
}

/// The median in microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// A weight `[outputs, inputs]` and a bias.
struct Linear {
    weight: Buffer,
    bias: Buffer,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    fn new(stream: &Stream, inputs: usize, outputs: usize) -> Result<Self> {
        let random = |shape: &[usize], seed| -> Result<Buffer> {
            let layout = Layout::contiguous(DType::F32, shape)?;
            let buffer = stream.allocate(layout.dense_bytes())?;
            let spread = Distribution::Uniform { low: -0.05, high: 0.05 };
            stream.record(Command::random(buffer.operand(layout), spread, seed, 0)?)?;
            buffer.settle()?;
            Ok(buffer)
        };
        let (weight, bias) = (random(&[outputs, inputs], 1)?, random(&[outputs], 2)?);
        Ok(Self { weight, bias, inputs, outputs })
    }

    fn forward(&self, stream: &Stream, input: &Buffer) -> Result<Buffer> {
        let row = |size: usize| Layout::contiguous(DType::F32, &[1, size]);
        let output = stream.allocate(self.outputs * size_of::<f32>())?;
        let weight =
            Layout::contiguous(DType::F32, &[self.outputs, self.inputs])?.transpose(0, 1)?;
        let bias =
            Layout::contiguous(DType::F32, &[self.outputs])?.broadcast_to(&[1, self.outputs])?;
        stream.record(Command::matmul(
            output.operand(row(self.outputs)?),
            input.operand(row(self.inputs)?),
            self.weight.operand(weight),
            Some(self.bias.operand(bias)),
            None,
            1.0,
            Activation::Relu,
        )?)?;
        Ok(output)
    }
}

fn call(stream: &Stream, layers: &[Linear], input: &[f32]) -> Result<millstream::Download> {
    let mut value = stream.allocate(size_of_val(input))?;
    let row = Layout::contiguous(DType::F32, &[1, input.len()])?;
    stream.upload(value.operand(row), input)?;
    for layer in layers {
        value = layer.forward(stream, &value)?;
    }
    stream.download(value.operand(Layout::contiguous(DType::F32, &[1, SIZES[SIZES.len() - 1]])?))
}

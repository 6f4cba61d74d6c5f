//! What a call costs the calling thread before the device has all of it.
//!
//! `cargo bench --bench host -- cuda` records an upload, three products of one row with bias and ReLU, and a
//! download, hands them to the device, and takes the time up to there; then it waits. The median of many
//! calls is printed, per call and per Command, beside the whole call. `MILLSTREAM_CUDA_GRAPHS=0` shows the
//! same without replay. `--json` prints JSON.
//!
//! Without a GPU, the driver of `crates/cuda/tests/fake_driver` shows what of this is ours: `cargo test -p
//! millstream-cuda` builds it into `target/tmp/fake-driver`, which goes into `LD_LIBRARY_PATH`, with
//! `FAKE_DRIVER_AT_ONCE=1` and `MILLSTREAM_CACHE_DIR=off`.

use std::time::{Duration, Instant};

use millstream::{
    Activation, Buffer, Command, DType, Device, Distribution, Layout, Result, Stream,
};

const SIZES: [usize; 4] = [512, 1024, 1024, 512];
/// An upload, a product per pair of sizes, a download.
const COMMANDS: usize = SIZES.len() + 1;
const WARM: usize = 200;
const CALLS: usize = 5000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes `--bench`.
    let name = arguments.iter().find(|argument| !argument.starts_with("--"));
    let device = Device::open(name.map_or("cpu", String::as_str))?;
    let stream = device.stream()?;
    let weights = SIZES.windows(2).map(|pair| Linear::new(&stream, pair[0], pair[1]));
    let layers: Vec<Linear> = weights.collect::<Result<_>>()?;
    let input = vec![0.5f32; SIZES[0]];
    let mut times = Vec::with_capacity(CALLS);
    for index in 0..WARM + CALLS {
        let started = Instant::now();
        let output = call(&stream, &layers, &input)?;
        stream.flush()?;
        let handed_over = started.elapsed();
        let values = output.read::<f32>()?;
        let whole = started.elapsed();
        assert_eq!(values.len(), SIZES[SIZES.len() - 1]);
        if index >= WARM {
            times.push((handed_over, whole));
        }
    }
    let host = median(times.iter().map(|time| time.0).collect());
    let whole = median(times.iter().map(|time| time.1).collect());
    let per_command = host / COMMANDS as f64;
    if arguments.iter().any(|argument| argument == "--json") {
        println!(
            r#"{{"device":"{}","commands":{COMMANDS},"host_us":{host:.2},"host_us_per_command":{per_command:.2},"call_us":{whole:.2}}}"#,
            device.name()
        );
    } else {
        println!(
            "{}: {host:.2} µs of the calling thread per call of {COMMANDS} Commands ({per_command:.2} µs each), \
             {whole:.2} µs in all (medians of {CALLS})",
            device.name()
        );
    }
    Ok(())
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

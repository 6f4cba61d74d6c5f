//! What a chain of elementwise steps costs beside one step.

use std::time::{Duration, Instant};

use millstream::{
    BinaryOp, Buffer, Chain, ChainStep, ChainTerm, Command, DType, Device, Distribution, Layout,
    Operand, Result, Scalar, Stream, UnaryOp,
};

/// Elements: 16 MB.
const SHAPE: [usize; 2] = [4096, 1024];

/// Steps of the chain.
const STEPS: usize = 8;

/// Times of one step, of the chain, and of its steps one by one: medians of runs that took turns.
pub(crate) struct Ratio {
    pub one: f64,
    pub chain: f64,
    pub apart: f64,
    pub runs: usize,
}

/// Scales and shifts, limits, compares and chooses.
fn steps() -> Result<Chain> {
    let [x, scale, shift] = [0, 1, 2].map(ChainTerm::Input);
    let step = ChainTerm::Step;
    let limits = (Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.5)));
    let steps: [ChainStep; STEPS] = [
        ChainStep::binary(BinaryOp::Mul, x, scale),
        ChainStep::binary(BinaryOp::Add, step(0), shift),
        ChainStep::unary(UnaryOp::Relu, step(1)),
        ChainStep::binary(BinaryOp::Sub, step(2), scale),
        ChainStep::clip(limits.0, limits.1, step(3)),
        ChainStep::binary(BinaryOp::Less, step(4), shift),
        ChainStep::where_(step(5), step(4), step(2)),
        ChainStep::binary(BinaryOp::Mul, step(6), scale),
    ];
    Chain::new(&[DType::F32; 3], &steps)
}

/// A tensor and its layout.
struct Value(Buffer, Layout);

impl Value {
    fn new(stream: &Stream, dtype: DType, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(dtype, shape)?;
        let value = Value(stream.allocate(layout.dense_bytes())?, layout);
        if dtype.is_float() {
            let uniform = Distribution::Uniform { low: -2.0, high: 2.0 };
            stream.record(Command::random(value.operand(), uniform, 1, 0)?)?;
        }
        Ok(value)
    }

    fn operand(&self) -> Operand<&Buffer> {
        self.0.operand(self.1)
    }
}

/// Measures the three in turn for so long.
pub(crate) fn measure(device: &Device, stream: &Stream, budget: Duration) -> Result<Ratio> {
    let chain = steps()?;
    let inputs = [&SHAPE[..], &[1], &SHAPE[1..]];
    let inputs = inputs.map(|shape| Value::new(stream, DType::F32, shape));
    let inputs = inputs.into_iter().collect::<Result<Vec<_>>>()?;
    let dst = Value::new(stream, DType::F32, &SHAPE)?;
    let results = chain.results().iter();
    let results =
        results.map(|dtype| Value::new(stream, *dtype, &SHAPE)).collect::<Result<Vec<_>>>()?;
    // On the CPU a batch of one; elsewhere what a Command adds to a batch is what counts.
    let count = if device.name() == "cpu" { 1 } else { 32 };
    let timed = |record: &dyn Fn() -> Result<()>| -> Result<f64> {
        stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            record()?;
        }
        stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() / count as f64)
    };
    let one = || {
        let (dst, x) = (dst.operand(), inputs[0].operand());
        stream.record(Command::unary(UnaryOp::Relu, dst, x)?).map(drop)
    };
    let whole = || {
        let inputs = inputs.iter().map(Value::operand);
        stream.record(Command::chain(&chain, dst.operand(), inputs)?).map(drop)
    };
    let apart = || {
        for (place, step) in chain.steps().iter().enumerate() {
            let terms = step.terms().iter().map(|term| match term {
                ChainTerm::Input(at) => inputs[usize::from(*at)].operand(),
                ChainTerm::Step(at) => results[usize::from(*at)].operand(),
            });
            stream.record(Command::new(step.to_op(), [results[place].operand()], terms)?)?;
        }
        Ok(())
    };
    let ways: [&dyn Fn() -> Result<()>; 3] = [&one, &whole, &apart];
    // The first runs find memory and kernels that are new.
    for way in ways.iter().cycle().take(3 * ways.len()) {
        timed(way)?;
    }
    let mut times = [const { Vec::new() }; 3];
    let started = Instant::now();
    while started.elapsed() < budget || times[0].len() < 5 {
        for (way, times) in ways.iter().zip(&mut times) {
            times.push(timed(way)?);
        }
    }
    let runs = times[0].len();
    let [one, chain, apart] = times.map(median);
    Ok(Ratio { one, chain, apart, runs })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

impl Ratio {
    /// In words.
    pub fn print(&self) {
        println!(
            "\nA chain of {STEPS} steps over 16 MB of f32 takes {:.2} times as long as one step, and its steps one by \
             one {:.2} times as long ({:.0}, {:.0} and {:.0} µs: medians of {} runs in turn).",
            self.chain / self.one,
            self.apart / self.one,
            self.chain * 1e6,
            self.apart * 1e6,
            self.one * 1e6,
            self.runs,
        );
    }
}

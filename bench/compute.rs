//! How close the kernels that multiply come to the machine's peak, on one thread.
//!
//! `cargo bench --bench compute` prints a table, `cargo bench --bench compute -- conv` that of the
//! settings with `conv` in their names. All figures come from one run: rounds of a few repetitions of
//! each setting are interleaved, and the best of each counts; the fraction of the peak is the median of
//! the rounds.

use std::hint::black_box;
use std::time::Instant;

use millstream::{
    Activation, BlockWeights, Buffer, Command, ConvParams, DType, Device, Distribution,
    DynamicRange, Layout, Operand, Quantized, Recurrent, RecurrentCell, RecurrentDirection, Result,
    Stream,
};

/// Rounds, and repetitions of each setting in one.
const ROUNDS: usize = 25;
const REPETITIONS: usize = 4;

type Make = Box<dyn Fn(&Stream) -> Result<()>>;

/// A setting: what it is, its multiplications and additions, and what records it.
struct Setting {
    name: &'static str,
    operations: f64,
    record: Make,
    best: f64,
    /// The fraction of the peak, which is measured just before and after, in each round.
    fractions: Vec<f64>,
}

fn main() -> Result<()> {
    let device = Device::builder("cpu").threads(1).intra_op(false).open()?;
    let stream = Stream::new(&device)?;
    let mut settings = vec![
        matmul(&stream, "f32 matmul 512³", DType::F32, 512)?,
        matmul(&stream, "i8 matmul 512³", DType::I8, 512)?,
        matmul(&stream, "u8 × i8 matmul 512³", DType::U8, 512)?,
        scaled(&stream, "u8 × i8 → f32 512³", DType::F32, 512)?,
        scaled(&stream, "u8 × i8 → u8 512³", DType::U8, 512)?,
        dynamic(&stream)?,
        blocks(&stream, "f32 × 4 bits 512³", 4, 512, 512)?,
        blocks(&stream, "f32 × 8 bits 512³", 8, 512, 512)?,
        vector(&stream)?,
        blocks(&stream, "1 row × 4 bits 4096²", 4, 1, 4096)?,
        blocks(&stream, "1 row × 8 bits 4096²", 8, 1, 4096)?,
        conv(&stream, "conv1d 256→256 k3 ×200", 1, &[256, 256, 3], &[200])?,
        conv(&stream, "conv2d 64→64 k3 56×56", 1, &[64, 64, 3, 3], &[56, 56])?,
        conv(&stream, "depthwise 128 k3 56×56", 128, &[128, 1, 3, 3], &[56, 56])?,
        attention(&stream)?,
        lstm(&stream)?,
        dft(&stream)?,
    ];
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // The first stays: others are compared with it.
    let mut index = 0;
    settings.retain(|setting| {
        index += 1;
        index == 1 || words.iter().all(|word| setting.name.contains(word))
    });
    // The clock of the machine may change at any time, so a setting is compared with the peak of the
    // same moment.
    let (mut peak, mut before) = (0.0f64, fma_peak());
    for _ in 0..ROUNDS {
        for setting in &mut settings {
            let mut best = f64::INFINITY;
            for _ in 0..REPETITIONS {
                let start = Instant::now();
                (setting.record)(&stream)?;
                stream.synchronize()?;
                best = best.min(start.elapsed().as_secs_f64());
            }
            let after = fma_peak();
            setting.fractions.push(setting.operations / best / after.max(before));
            setting.best = setting.best.min(best);
            peak = peak.max(after);
            before = after;
        }
    }
    println!("one thread, best of {ROUNDS} rounds; f32 FMA peak {:.1} GFLOP/s\n", peak / 1e9);
    println!("{:<26} {:>10} {:>10} {:>8} {:>12}", "command", "µs", "GOP/s", "peak", "f32 matmul");
    let matmul = settings[0].operations / settings[0].best;
    for setting in &mut settings {
        setting.fractions.sort_by(f64::total_cmp);
        let rate = setting.operations / setting.best;
        println!(
            "{:<26} {:>10.1} {:>10.1} {:>8.2} {:>12.2}",
            setting.name,
            setting.best * 1e6,
            rate / 1e9,
            setting.fractions[ROUNDS / 2],
            rate / matmul
        );
    }
    Ok(())
}

/// Noise of a shape; bytes get whatever bits it has.
fn noise(stream: &Stream, dtype: DType, shape: &[usize]) -> Result<(Buffer, Layout)> {
    let layout = Layout::contiguous(dtype, shape)?;
    let buffer = stream.allocate(layout.dense_bytes().next_multiple_of(4))?;
    let floats = Layout::contiguous(DType::F32, &[layout.dense_bytes().div_ceil(4)])?;
    let distribution = Distribution::Uniform { low: -0.1, high: 0.1 };
    stream.record(Command::random(buffer.operand(floats), distribution, 7, 0)?)?;
    Ok((buffer, layout))
}

/// Operands of some shapes, and what to do with them each time.
fn setting(
    stream: &Stream,
    name: &'static str,
    operations: f64,
    shapes: &[(DType, &[usize])],
    command: impl for<'a> Fn(&[Operand<&'a Buffer>]) -> Result<Command<&'a Buffer>> + 'static,
) -> Result<Setting> {
    let parts: Vec<(Buffer, Layout)> =
        shapes.iter().map(|&(dtype, shape)| noise(stream, dtype, shape)).collect::<Result<_>>()?;
    let record = Box::new(move |stream: &Stream| {
        let operands: Vec<_> =
            parts.iter().map(|(buffer, layout)| buffer.operand(*layout)).collect();
        stream.record(command(&operands)?).map(|_| ())
    });
    Ok(Setting { name, operations, record, best: f64::INFINITY, fractions: Vec::new() })
}

fn matmul(stream: &Stream, name: &'static str, dtype: DType, n: usize) -> Result<Setting> {
    let operations = 2.0 * (n as f64).powi(3);
    let shape: &[usize] = &[n, n];
    if dtype == DType::F32 {
        return setting(stream, name, operations, &[(dtype, shape); 3], |o| {
            Command::matmul(o[0], o[1], o[2], None, None, 1.0, Activation::None)
        });
    }
    let shapes = [(DType::I32, shape), (dtype, shape), (DType::I8, shape)];
    setting(stream, name, operations, &shapes, |o| {
        Command::matmul_integer(o[0], o[1], o[2], None, None)
    })
}

/// 8-bit operands with a scale for each column, and a bias.
fn scaled(stream: &Stream, name: &'static str, dtype: DType, n: usize) -> Result<Setting> {
    let (shape, each, operations) = ([n, n], [n], 2.0 * (n as f64).powi(3));
    let shapes: [(DType, &[usize]); 7] = [
        (dtype, &shape),
        (DType::U8, &shape),
        (DType::I8, &shape),
        (DType::U8, &[]),
        (DType::F32, &[]),
        (DType::F32, &each),
        (DType::F32, &each),
    ];
    setting(stream, name, operations, &shapes, move |o| {
        let a = Quantized { values: o[1], scale: o[4], zero: Some(o[3]) };
        let b = Quantized { values: o[2], scale: o[5], zero: None };
        let requantize = (dtype == DType::U8).then(|| (o[4], None));
        Command::matmul_scaled(o[0], a, b, Some(o[6]), None, Activation::Relu, requantize)
    })
}

/// Its operations are elements.
fn dynamic(stream: &Stream) -> Result<Setting> {
    let shape: &[usize] = &[512, 512];
    let shapes: [(DType, &[usize]); 4] =
        [(DType::U8, shape), (DType::F32, &[]), (DType::U8, &[]), (DType::F32, shape)];
    setting(stream, "dynamic quantize 512²", 512.0 * 512.0, &shapes, |o| {
        Command::dynamic_quantize(o[0], o[1], Some(o[2]), o[3], DynamicRange::Tensor)
    })
}

fn vector(stream: &Stream) -> Result<Setting> {
    let n = 4096;
    let shapes: [(DType, &[usize]); 3] =
        [(DType::F32, &[1, n]), (DType::F32, &[1, n]), (DType::F32, &[n, n])];
    setting(stream, "1 row × f32 4096²", 2.0 * (n * n) as f64, &shapes, |o| {
        Command::matmul(o[0], o[1], o[2], None, None, 1.0, Activation::None)
    })
}

/// Weights of few bits in blocks of 32.
fn blocks(stream: &Stream, name: &'static str, bits: u8, rows: usize, n: usize) -> Result<Setting> {
    let (count, bytes) = (n / 32, 32 * usize::from(bits) / 8);
    let shapes: [(DType, &[usize]); 4] = [
        (DType::F32, &[rows, n]),
        (DType::F32, &[rows, n]),
        (DType::U8, &[n, count, bytes]),
        (DType::F32, &[n, count]),
    ];
    let operations = 2.0 * (rows * n * n) as f64;
    setting(stream, name, operations, &shapes, move |o| {
        let (weights, scales) = (o[2], o[3]);
        let b = BlockWeights { bits, block: 32, weights, scales, zeros: None };
        Command::matmul_blocks(o[0], o[1], b, None, None, 1.0, Activation::None)
    })
}

fn conv(
    stream: &Stream,
    name: &'static str,
    groups: u32,
    weight: &'static [usize],
    plane: &[usize],
) -> Result<Setting> {
    let mut params = ConvParams { groups, ..ConvParams::new(plane.len()) };
    params.pad_before[..plane.len()].fill(1);
    params.pad_after[..plane.len()].fill(1);
    let shape = |channels: usize| [&[1, channels], plane].concat();
    let (src, dst) = (shape(weight[1] * groups as usize), shape(weight[0]));
    let products = weight.iter().product::<usize>() * plane.iter().product::<usize>();
    let float = DType::F32;
    let shapes: [(DType, &[usize]); 4] =
        [(float, &dst), (float, &src), (float, weight), (float, &weight[..1])];
    setting(stream, name, 2.0 * products as f64, &shapes, move |o| {
        Command::conv(o[0], o[1], o[2], Some(o[3]), None, params, 1.0, Activation::Relu)
    })
}

fn attention(stream: &Stream) -> Result<Setting> {
    let shape: &[usize] = &[1, 4, 128, 64];
    let operations = 2.0 * 2.0 * (4 * 128 * 128 * 64) as f64;
    setting(stream, "attention 128×64×4", operations, &[(DType::F32, shape); 4], |o| {
        Command::attention(o[0], o[1], o[2], o[3], None, 0.125, false)
    })
}

fn lstm(stream: &Stream) -> Result<Setting> {
    let (time, batch, size) = (64, 8, 256);
    let operations = 2.0 * (time * batch * 4 * size * 2 * size) as f64;
    let float = DType::F32;
    let shapes: [(DType, &[usize]); 6] = [
        (float, &[time, 1, batch, size]),
        (float, &[1, batch, size]),
        (float, &[1, batch, size]),
        (float, &[time, batch, size]),
        (float, &[1, 4 * size, size]),
        (float, &[1, 4 * size, size]),
    ];
    setting(stream, "lstm 64×8×256", operations, &shapes, |o| {
        Command::recurrent(Recurrent {
            cell: RecurrentCell::Lstm,
            direction: RecurrentDirection::Forward,
            sequence: o[0],
            last_hidden: o[1],
            last_cell: Some(o[2]),
            src: o[3],
            input_weight: o[4],
            hidden_weight: o[5],
            bias: None,
            initial_hidden: None,
            initial_cell: None,
            lengths: None,
        })
    })
}

fn dft(stream: &Stream) -> Result<Setting> {
    let shape: &[usize] = &[64, 1024, 2];
    let operations = 64.0 * 5.0 * 1024.0 * 10.0;
    setting(stream, "dft 64×1024", operations, &[(DType::F32, shape); 2], |o| {
        Command::dft(o[0], o[1], 1, false, false)
    })
}

/// Multiplications and additions per second of independent chains that stay in registers.
fn fma_peak() -> f64 {
    const STEPS: usize = 200_000;
    let start = Instant::now();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was detected.
            unsafe { chains_with_avx512(STEPS) };
            return (2 * STEPS * CHAINS) as f64 / start.elapsed().as_secs_f64();
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were detected.
            unsafe { chains_with_avx2(STEPS) };
            return (2 * STEPS * CHAINS) as f64 / start.elapsed().as_secs_f64();
        }
    }
    chains(STEPS);
    (2 * STEPS * CHAINS) as f64 / start.elapsed().as_secs_f64()
}

/// Enough to hide the time that one takes, and few enough for the registers.
const CHAINS: usize = 12 * 16;

#[inline(always)]
fn chains(steps: usize) {
    let (factor, term) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [1.0f32; CHAINS];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = sum.mul_add(factor, term);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn chains_with_avx512(steps: usize) {
    chains(steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn chains_with_avx2(steps: usize) {
    chains(steps);
}

//! The conformance suite on the CPU device, and on a CUDA device if there is one, through streams and
//! memory as users go.

use std::time::Duration;

use millstream::{Buffer, DType, Device, Layout, Op, OpKind, Stream};
use millstream_conformance::{
    Case, Outcome, Target, cases, check, proptest_target, run_all, run_kinds,
};

/// A device, taken through the public interface.
struct OnDevice {
    device: Device,
    name: &'static str,
    bit_identical: bool,
}

impl OnDevice {
    fn new(name: &'static str, threads: usize, intra_op: bool) -> Self {
        let builder = Device::builder("cpu").threads(threads).intra_op(intra_op);
        // A busy machine takes its time; only what hangs waits that long.
        let device = builder.wait_timeout(Duration::from_secs(120)).open().unwrap();
        Self { device, name, bit_identical: true }
    }

    /// The CUDA device, if there is one. `MILLSTREAM_REQUIRE_CUDA=1` makes it an error if there is none.
    fn cuda() -> Option<Self> {
        match Device::builder("cuda").open() {
            Ok(device) => Some(Self { device, name: "cuda", bit_identical: false }),
            Err(error) => {
                let required = std::env::var_os("MILLSTREAM_REQUIRE_CUDA").is_some();
                assert!(!required, "{error}");
                eprintln!("SKIPPED: {error}");
                None
            }
        }
    }

    fn execute(&self, case: &Case) -> millstream::Result<Outcome> {
        let stream = Stream::new(&self.device)?;
        let bytes = |buffer: &Buffer| Layout::contiguous(DType::U8, &[buffer.bytes()]);
        let mut buffers = Vec::new();
        for content in &case.buffers {
            let buffer = stream.allocate(content.len())?;
            stream.upload(buffer.operand(bytes(&buffer)?), content)?;
            buffers.push(buffer);
        }
        let command = case.command(|index| &buffers[index])?;
        let op = command.op().clone();
        stream.record(command)?;
        let downloads: Vec<_> = buffers
            .iter()
            .map(|buffer| stream.download(buffer.operand(bytes(buffer)?)))
            .collect::<Result<_, _>>()?;
        stream.synchronize()?;
        let host = match op {
            // SAFETY: the stream was synchronized, and nothing else writes to these bytes.
            Op::Download { target } => Some(unsafe { target.as_slice() }.to_vec()),
            _ => None,
        };
        let buffers = downloads.into_iter().map(|download| download.bytes());
        Ok(Outcome { buffers: buffers.collect::<Result<_, _>>()?, host })
    }
}

impl Target for OnDevice {
    fn name(&self) -> &str {
        self.name
    }

    /// `MILLSTREAM_CONFORMANCE_KINDS=matmul,conv` leaves the others out, so that several processes can share
    /// the suite.
    fn supports(&self, kind: OpKind) -> bool {
        let chosen = std::env::var("MILLSTREAM_CONFORMANCE_KINDS").unwrap_or_default();
        let wanted = chosen.is_empty() || chosen.split(',').any(|name| name == kind.name());
        wanted && self.device.supports(kind)
    }

    /// `MILLSTREAM_CONFORMANCE_PART=2/8` leaves all but the second of eight parts out, for the same reason.
    fn skips(&self, case: &Case) -> Option<String> {
        let chosen = std::env::var("MILLSTREAM_CONFORMANCE_PART").ok()?;
        let parts: Option<(u64, u64)> = chosen
            .split_once('/')
            .and_then(|(own, all)| Some((own.parse().ok()?, all.parse().ok()?)));
        let (own, all) = parts.filter(|(own, all)| own <= all).expect("a part is as in 2/8");
        let mark = case.name.bytes().fold(0u64, |mark, byte| mark * 31 % 65521 + u64::from(byte));
        (mark % all + 1 != own).then(|| "of another part".into())
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        self.execute(case).map_err(|error| error.to_string())
    }

    fn is_bit_identical(&self) -> bool {
        self.bit_identical
    }
}

/// Runs the suite's cases and properties of some kinds on the CPU device. The properties compare every row
/// alone with the same row among others, bit for bit, since the CPU device says that it is bit-identical.
fn cpu_conforms(kinds: &[OpKind]) {
    let report = run_kinds(&OnDevice::new("cpu", 2, true), kinds);
    assert!(report.is_clean() && report.unsupported.is_empty(), "{report}");
    println!("{report}");
}

/// A test for every family of kinds, so that none takes long and they run beside each other.
macro_rules! families {
    ($($family:ident: $($kind:ident)*;)*) => {
        const FAMILIES: &[&[OpKind]] = &[$(&[$(OpKind::$kind),*]),*];

        /// Invariant 10: batched equals unbatched.
        mod invariant_10_the_cpu_device_conforms_and_rows_do_not_depend_on_their_batch {
            use super::*;

            $(
                #[test]
                fn $family() {
                    cpu_conforms(&[$(OpKind::$kind),*]);
                }
            )*
        }
    };
}

families! {
    elementwise: Fill Iota Copy Unary Where Clip;
    binary: Binary;
    chains: Chain;
    reductions: Reduce CumSum Softmax TopK;
    norms: LayerNorm RmsNorm GroupNorm;
    products: MatMul PackWeights MatMulPacked MatMulBlocks;
    integers: Quantize Dequantize DynamicQuantize MatMulInteger ConvInteger;
    windows: Conv ConvTranspose Pool Resize Pad Reverse GridSample RoiAlign DeformConv;
    indices: Gather GatherElements GatherNd ScatterElements ScatterNd Embedding;
    compaction: NonZero Compress Unique NonMaxSuppression;
    caches: CacheWrite Rope;
    sequences: Attention Recurrent Dft Stft;
    host: Random Upload Download Timestamp;
}

#[test]
fn every_kind_is_in_a_family_and_no_case_is_missing() {
    let mut kinds = FAMILIES.concat();
    kinds.sort_unstable_by_key(|&kind| kind as u8);
    assert_eq!(kinds, OpKind::ALL);
    let count: usize = kinds.into_iter().map(|kind| cases(kind).len()).sum();
    assert!(count > 20_000, "{count}");
}

#[test]
fn random_cases_conform_on_one_thread() {
    proptest_target(&OnDevice::new("cpu, one thread", 1, false), 2000);
}

#[test]
fn random_cases_conform_on_four_threads() {
    proptest_target(&OnDevice::new("cpu, four threads", 4, true), 2000);
}

const THREADS: usize = 31;

/// Some cases of every kind that a target supports.
fn samples(target: &OnDevice) -> Vec<Case> {
    const OF_A_KIND: usize = 16;
    let kinds = OpKind::ALL.iter().filter(|&&kind| target.supports(kind));
    kinds
        // The time is another each time.
        .filter(|&&kind| kind != OpKind::Timestamp)
        .flat_map(|&kind| {
            let all = cases(kind);
            let step = all.len().div_ceil(OF_A_KIND).max(1);
            all.into_iter().step_by(step)
        })
        .collect()
}

/// Cases of every kind, from 31 threads with a stream each, every thread beginning at another case, so
/// that all kinds run beside each other. Of four parts, each with cases of every kind, this is one.
fn thirty_one_streams_at_once(part: usize) {
    let alone = OnDevice::new("cpu, one stream", 1, false);
    let shared = OnDevice::new("cpu, 31 streams", 2, true);
    let samples: Vec<Case> = samples(&shared).into_iter().skip(part).step_by(4).collect();
    let expected: Vec<Outcome> = samples.iter().map(|case| alone.run(case).unwrap()).collect();
    let barrier = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, samples, expected, barrier) = (&shared, &samples, &expected, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for index in 0..samples.len() {
                    let index = (index + thread * samples.len() / THREADS) % samples.len();
                    let found = shared.run(&samples[index]).unwrap();
                    assert!(found == expected[index], "{} differs", samples[index].name);
                }
            });
        }
    });
}

mod thirty_one_streams_at_once_give_the_bits_of_one {
    #[test]
    fn first_quarter() {
        super::thirty_one_streams_at_once(0);
    }

    #[test]
    fn second_quarter() {
        super::thirty_one_streams_at_once(1);
    }

    #[test]
    fn third_quarter() {
        super::thirty_one_streams_at_once(2);
    }

    #[test]
    fn last_quarter() {
        super::thirty_one_streams_at_once(3);
    }
}

#[test]
fn the_cuda_device_conforms() {
    let Some(target) = OnDevice::cuda() else { return };
    let report = run_all(&target);
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn random_cases_conform_on_the_cuda_device() {
    let Some(target) = OnDevice::cuda() else { return };
    proptest_target(&target, 200);
}

/// Some cases of every kind, one after another: for a quick look, also under compute-sanitizer.
#[test]
fn a_sample_conforms_on_the_cuda_device() {
    let Some(target) = OnDevice::cuda() else { return };
    for case in samples(&target) {
        if let Err(failure) = check(&target, &case) {
            panic!("{failure}");
        }
    }
}

/// The same on a CUDA device, within the bounds of the suite: not every sum there has one order.
#[test]
fn thirty_one_streams_at_once_conform_on_the_cuda_device() {
    let Some(target) = OnDevice::cuda() else { return };
    let samples = samples(&target);
    let barrier = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (target, samples, barrier) = (&target, &samples, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for index in 0..samples.len() {
                    let index = (index + thread * samples.len() / THREADS) % samples.len();
                    if let Err(failure) = check(target, &samples[index]) {
                        panic!("thread {thread}: {failure}");
                    }
                }
            });
        }
    });
}

//! The conformance suite on the CPU device, and on a CUDA device if there is one, through streams and
//! memory as users go.

#[path = "gpu/on_device.rs"]
mod on_device;

use millstream::OpKind;
use millstream_conformance::{
    Case, Outcome, Target, cases, check, proptest_target, run_all, run_kinds,
};
use on_device::{OnDevice, samples};

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
    let Some(target) = OnDevice::gpu("cuda", "MILLSTREAM_REQUIRE_CUDA") else { return };
    let report = match chosen_kinds() {
        Some(kinds) => run_kinds(&target, &kinds),
        None => run_all(&target),
    };
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

/// The kinds that `MILLSTREAM_CONFORMANCE_KINDS` names, as in `softmax,conv`: for a look at what has changed.
fn chosen_kinds() -> Option<Vec<OpKind>> {
    let chosen = std::env::var("MILLSTREAM_CONFORMANCE_KINDS").ok()?;
    let kind = |name: &str| {
        let found = OpKind::ALL.iter().copied().find(|kind| kind.name() == name.trim());
        found.unwrap_or_else(|| panic!("{name} is no kind of Command"))
    };
    Some(chosen.split(',').map(kind).collect())
}

#[test]
fn random_cases_conform_on_the_cuda_device() {
    let Some(target) = OnDevice::gpu("cuda", "MILLSTREAM_REQUIRE_CUDA") else { return };
    proptest_target(&target, 200);
}

/// For a Mac; on Linux the same suite runs in `crates/metal/tests`, on a driver.
#[test]
fn the_metal_device_conforms() {
    let Some(target) = OnDevice::gpu("metal", "MILLSTREAM_REQUIRE_METAL") else { return };
    let report = run_all(&target);
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

/// Some cases of every kind, one after another: for a quick look, also under compute-sanitizer.
#[test]
fn a_sample_conforms_on_the_cuda_device() {
    let Some(target) = OnDevice::gpu("cuda", "MILLSTREAM_REQUIRE_CUDA") else { return };
    for case in samples(&target) {
        if let Err(failure) = check(&target, &case) {
            panic!("{failure}");
        }
    }
}

/// The same on a CUDA device, within the bounds of the suite: not every sum there has one order.
#[test]
fn thirty_one_streams_at_once_conform_on_the_cuda_device() {
    let Some(target) = OnDevice::gpu("cuda", "MILLSTREAM_REQUIRE_CUDA") else { return };
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

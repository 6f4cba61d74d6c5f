//! The epilogue of library products, which no Command of the suite is made of.

use half::{bf16, f16};
use millstream_conformance::erf;
use millstream_core::{
    Activation, DType, Epilogue, Layout, Operand, RawBuffer, as_bytes, from_bytes,
};
use millstream_kernels::lower_epilogue;

use crate::host;
use crate::keys::ACTIVATIONS;
use crate::memory::Bytes;

fn expected(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::LeakyRelu { slope } if x < 0.0 => f64::from(slope) * x,
        Activation::LeakyRelu { .. } => x,
        Activation::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::ScaledHardSwish { scale, shift } => {
            f64::from(scale) * x * (x + 3.0).clamp(0.0, 6.0) / 6.0 + f64::from(shift)
        }
        Activation::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
    }
}

#[test]
fn the_epilogue_adds_and_activates() {
    let Some(host) = host() else { return };
    // Rows of whole vectors, and rows with a remainder.
    for (columns, has) in [(8usize, 3u8), (8, 1), (8, 2), (7, 3), (5, 0)] {
        for activation in ACTIVATIONS {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                check(host, dtype, columns, has, activation);
            }
        }
    }
}

/// Numbers that 16 bits hold exactly.
fn values(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * step) % 23) as f32 / 4.0 - 2.75).collect()
}

fn encoded(dtype: DType, values: &[f32]) -> Vec<u8> {
    match dtype {
        DType::F16 => {
            as_bytes(&values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>()).to_vec()
        }
        DType::BF16 => {
            as_bytes(&values.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>()).to_vec()
        }
        _ => as_bytes(values).to_vec(),
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        DType::F16 => from_bytes::<f16>(bytes).into_iter().map(f32::from).collect(),
        DType::BF16 => from_bytes::<bf16>(bytes).into_iter().map(f32::from).collect(),
        _ => from_bytes(bytes),
    }
}

/// In place in 32 bits; from 32 to 16 bits for the other types, rounded once.
fn check(
    host: &crate::target::Host,
    dtype: DType,
    columns: usize,
    has: u8,
    activation: Activation,
) {
    let rows = 5;
    let in_place = dtype == DType::F32;
    // Times a number with many bits, so that a rounding in between would show.
    let sums: Vec<f32> = values(rows * columns, 7).iter().map(|x| x * 1.000_123_4).collect();
    let (bias, residual) = (values(columns, 5), values(rows * columns, 3));
    let dst = if in_place { sums.clone() } else { vec![0.0; rows * columns] };
    let bytes = [
        Bytes::of(&encoded(dtype, &dst)),
        Bytes::of(as_bytes(&sums[..])),
        Bytes::of(&encoded(dtype, &bias)),
        Bytes::of(&encoded(dtype, &residual)),
    ];
    let whole = |dtype| Layout::contiguous(dtype, &[rows, columns]).unwrap();
    let row =
        Layout::contiguous(dtype, &[columns]).unwrap().broadcast_to(&[rows, columns]).unwrap();
    let layouts = [whole(dtype), whole(DType::F32), row, whole(dtype)];
    let operand = |at: usize| {
        let buffer = RawBuffer { address: bytes[at].address(), bytes: layouts[at].extent_bytes() };
        Operand::new(buffer, layouts[at])
    };
    let (biased, added) = (has & 1 != 0, has & 2 != 0);
    let epilogue = Epilogue { scale: 1.0, bias: biased, residual: added, activation };
    let lowered = lower_epilogue(
        &epilogue,
        &operand(0),
        &operand(usize::from(!in_place)),
        biased.then(|| operand(2)).as_ref(),
        added.then(|| operand(3)).as_ref(),
        &host.limits,
    );
    // SAFETY: the buffers live until the end of this function.
    unsafe { host.launch(&lowered, 3, false) }.unwrap();
    let got = decoded(dtype, &bytes[0].to_vec(dtype.size() * dst.len()));
    // Half a unit in the last place.
    let rounding = match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 0.0,
    };
    for (at, &got) in got.iter().enumerate() {
        let mut x = f64::from(sums[at]);
        x += if biased { f64::from(bias[at % columns]) } else { 0.0 };
        x += if added { f64::from(residual[at]) } else { 0.0 };
        let right = expected(activation, x);
        let bound = 3e-6 * (1.0 + right.abs()) + rounding * right.abs();
        assert!(
            (f64::from(got) - right).abs() <= bound,
            "{dtype:?}, {activation:?} of {x}: {got}, not {right}"
        );
    }
}

//! The epilogue of library products, which no Command of the suite is made of.

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
        Activation::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
    }
}

#[test]
fn the_epilogue_adds_and_activates() {
    let Some(host) = host() else { return };
    // Rows of whole vectors, and rows with a remainder.
    for (columns, has) in [(8usize, 3u8), (8, 1), (8, 2), (7, 3), (5, 0)] {
        for activation in ACTIVATIONS {
            check(host, columns, has, activation);
        }
    }
}

fn check(host: &crate::target::Host, columns: usize, has: u8, activation: Activation) {
    let rows = 5;
    let value = |at: usize, step: usize| ((at * step) % 23) as f32 / 4.0 - 2.75;
    let dst: Vec<f32> = (0..rows * columns).map(|at| value(at, 7)).collect();
    let bias: Vec<f32> = (0..columns).map(|at| value(at, 5)).collect();
    let residual: Vec<f32> = (0..rows * columns).map(|at| value(at, 3)).collect();
    let bytes = [&dst, &bias, &residual].map(|values| Bytes::of(as_bytes(&values[..])));
    let whole = Layout::contiguous(DType::F32, &[rows, columns]).unwrap();
    let row = Layout::contiguous(DType::F32, &[columns]).unwrap();
    let layouts = [whole, row.broadcast_to(&[rows, columns]).unwrap(), whole];
    let operand = |at: usize| {
        let buffer = RawBuffer { address: bytes[at].address(), bytes: layouts[at].extent_bytes() };
        Operand::new(buffer, layouts[at])
    };
    let (biased, added) = (has & 1 != 0, has & 2 != 0);
    let epilogue = Epilogue { scale: 1.0, bias: biased, residual: added, activation };
    let lowered = lower_epilogue(
        &epilogue,
        &operand(0),
        biased.then(|| operand(1)).as_ref(),
        added.then(|| operand(2)).as_ref(),
        &host.limits,
    );
    // SAFETY: the three buffers live until the end of this function.
    unsafe { host.launch(&lowered, 3, false) }.unwrap();
    let got: Vec<f32> = from_bytes(&bytes[0].to_vec(4 * dst.len()));
    for (at, &got) in got.iter().enumerate() {
        let mut x = f64::from(dst[at]);
        x += if biased { f64::from(bias[at % columns]) } else { 0.0 };
        x += if added { f64::from(residual[at]) } else { 0.0 };
        let right = expected(activation, x);
        assert!(
            (f64::from(got) - right).abs() <= 3e-6 * (1.0 + right.abs()),
            "{activation:?} of {x}: {got}, not {right}"
        );
    }
}

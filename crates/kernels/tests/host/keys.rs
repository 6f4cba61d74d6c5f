//! The kernels that the conformance suite needs.

use std::collections::BTreeSet;

use millstream_conformance::{Case, cases};
use millstream_core::{
    Activation, BoundCommand, DType, Epilogue, Layout, Op, OpKind, Operand, RawBuffer,
};
use millstream_kernels::{Key, Limits, Lowered, Slot, lower, lower_copy, lower_epilogue, supports};

/// The kinds that `MILLSTREAM_KERNELS_KINDS` names, as in `fill,copy`; without it all that there are.
pub fn chosen_kinds() -> Vec<OpKind> {
    let chosen = std::env::var("MILLSTREAM_KERNELS_KINDS").unwrap_or_default();
    let wanted = |kind: &OpKind| {
        can_run(*kind)
            && (chosen.is_empty() || chosen.split(',').any(|name| name.trim() == kind.name()))
    };
    OpKind::ALL.iter().copied().filter(wanted).collect()
}

/// Whether there are kernels for it, counting the copies that transfers are made of.
pub fn can_run(kind: OpKind) -> bool {
    matches!(kind, OpKind::Upload | OpKind::Download) || supports(kind)
}

/// The launches of a command. Transfers are a backend's own; here they go through dense bytes at
/// `staging`.
pub fn lower_any(
    command: &BoundCommand,
    staging: usize,
    limits: &Limits,
) -> Result<Lowered, String> {
    let dense = |operand: &Operand<RawBuffer>| {
        let layout = Layout::contiguous(operand.layout.dtype(), operand.layout.shape()).unwrap();
        Operand::new(RawBuffer { address: staging, bytes: layout.dense_bytes() }, layout)
    };
    match command.op() {
        Op::Upload { .. } => {
            let dst = &command.outputs()[0];
            Ok(lower_copy(dst, &dense(dst), limits))
        }
        Op::Download { .. } => {
            let src = &command.inputs()[0];
            Ok(lower_copy(&dense(src), src, limits))
        }
        _ => lower(command, 5, limits).map_err(|error| error.to_string()),
    }
}

/// A number that depends on the name of a case alone.
pub fn mark(case: &Case) -> i32 {
    case.name.bytes().map(i32::from).sum()
}

/// Whether a case is run with 64-bit positions too, as operands need that are far larger than any here.
pub fn is_wide(case: &Case) -> bool {
    mark(case) % 37 == 0
}

/// The keys of all fixed cases of some kinds, and how many cases need a type that such a device lacks.
pub fn keys(kinds: &[OpKind], limits: &Limits) -> Result<(BTreeSet<Key>, usize), String> {
    let (mut keys, mut left_out) = (BTreeSet::new(), 0);
    for case in kinds.iter().flat_map(|&kind| cases(kind)) {
        match keys_of(&case, limits) {
            Ok(found) => keys.extend(found),
            Err(error) if !limits.f64 && error.contains("no 64-bit floating point") => {
                left_out += 1
            }
            Err(error) => return Err(error),
        }
    }
    keys.extend(epilogues(limits));
    Ok((keys, left_out))
}

/// The keys of one case.
pub fn keys_of(case: &Case, limits: &Limits) -> Result<Vec<Key>, String> {
    let name = |buffer: usize| RawBuffer {
        address: (buffer + 1) << 32,
        bytes: case.buffers[buffer].len(),
    };
    let failed = |error: String| format!("{}: {error}", case.name);
    let command = case.command(name).map_err(|error| failed(error.to_string()))?;
    let lowered = lower_any(&command, 1 << 40, limits).map_err(failed)?;
    // A platform binds memory to every slot, also to those that a kernel does not read.
    let mut slots = lowered.launches.iter().flat_map(|launch| launch.slots.iter());
    if slots.any(|slot| *slot == Slot::Address(0)) {
        return Err(failed("a launch names memory that nobody has".into()));
    }
    let mut keys: Vec<Key> = lowered.launches.iter().map(|launch| launch.key).collect();
    if is_wide(case) {
        keys.extend(lowered.launches.iter().map(|launch| launch.key.with("WIDE", 1)));
    }
    Ok(keys)
}

/// Every activation.
pub const ACTIVATIONS: [Activation; 11] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::LeakyRelu { slope: 0.1 },
    Activation::HardSwish,
    Activation::ScaledHardSwish { scale: 1.25, shift: -0.5 },
    Activation::Clip { min: -0.5, max: 1.5 },
];

/// The kernels that follow a library's matrix product, which no case has: with a bias per column. Products
/// of 16-bit numbers come from it in 32 bits.
fn epilogues(limits: &Limits) -> Vec<Key> {
    let operand = |address: usize, dtype: DType, shape: &[usize]| {
        let layout = Layout::contiguous(dtype, shape).unwrap().broadcast_to(&[16, 32]).unwrap();
        Operand::new(RawBuffer { address, bytes: layout.extent_bytes() }, layout)
    };
    let mut keys = Vec::new();
    for activation in ACTIVATIONS {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let dst = operand(1 << 32, dtype, &[16, 32]);
            let (bias, added) =
                (operand(2 << 32, dtype, &[32]), operand(3 << 32, dtype, &[16, 32]));
            let src = match dtype {
                DType::F32 => dst,
                _ => operand(4 << 32, DType::F32, &[16, 32]),
            };
            for (bias, added) in [(Some(&bias), None), (Some(&bias), Some(&added)), (None, None)] {
                let epilogue = Epilogue {
                    scale: 1.0,
                    bias: bias.is_some(),
                    residual: added.is_some(),
                    activation,
                };
                let lowered = lower_epilogue(&epilogue, &dst, &src, bias, added, limits);
                keys.extend(lowered.launches.iter().map(|launch| launch.key));
            }
        }
    }
    keys
}

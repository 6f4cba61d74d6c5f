//! The epilogue of a library's matrix product.

use millstream_core::{Activation, Epilogue, Operand, RawBuffer};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `epilogue`.
    EpilogueParams { walk: Walk<4>, tail: u32, a: f32, b: f32 }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "epilogue",
    text: include_str!("../../programs/epilogue.kernel"),
    constants: &["DST", "SRC", "ACT", "HAS", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: EpilogueParams::declaration,
};

/// The number of an activation in `activate` of the program texts, and its parameters.
pub(crate) fn activation_code(activation: Activation) -> (i32, f32, f32) {
    match activation {
        Activation::None => (0, 0.0, 0.0),
        Activation::Relu => (1, 0.0, 0.0),
        Activation::Gelu => (2, 0.0, 0.0),
        Activation::GeluTanh => (3, 0.0, 0.0),
        Activation::Silu => (4, 0.0, 0.0),
        Activation::Sigmoid => (5, 0.0, 0.0),
        Activation::Tanh => (6, 0.0, 0.0),
        Activation::LeakyRelu { slope } => (7, slope, 0.0),
        Activation::HardSwish => (8, 0.0, 0.0),
        Activation::Clip { min, max } => (9, min, max),
        Activation::ScaledHardSwish { scale, shift } => (10, scale, shift),
    }
}

/// `dst = activation(src + bias + residual)`: the epilogue that a library's product does not do. Bias and residual
/// broadcast to `dst`. `src` is `dst` itself, or the 32-bit sums of a 16-bit product. The library applies the scale.
pub fn lower_epilogue(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    limits: &Limits,
) -> Lowered {
    let (act, a, b) = activation_code(epilogue.activation);
    let has = i32::from(bias.is_some()) | i32::from(residual.is_some()) << 1;
    if act == 0 && has == 0 && dst == src {
        return Lowered::default();
    }
    let operands = [dst, src, bias.unwrap_or(src), residual.unwrap_or(src)];
    let Some(grid) = Elementwise::new(operands, limits) else { return Lowered::default() };
    let [dst, src] = [dst, src].map(|operand| operand.layout.dtype() as i32);
    let constants = [dst, src, act, has, grid.rank, grid.wide, grid.vector, grid.steps];
    let launch = Launch {
        key: Key::new(Program::Epilogue, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: operands.iter().map(|&operand| Slot::from(operand)).collect(),
        params: EpilogueParams { walk: grid.walk, tail: grid.tail, a, b }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

//! Functions of one element.

use millstream_core::{BoundCommand, UnaryOp};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `unary` is told.
    UnaryParams {
        walk: Walk<2>,
        tail: u32,
        /// The parameters of the function.
        a: f32,
        b: f32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "unary",
    text: include_str!("../../programs/unary.kernel"),
    constants: &["OP", "DTYPE", "TO", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: UnaryParams::declaration,
};

/// The number of a function in the program text, and its parameters.
pub(super) fn code(op: UnaryOp) -> (i32, f32, f32) {
    use UnaryOp::*;
    let flag = |set: bool| f32::from(u8::from(set));
    match op {
        Abs => (0, 0.0, 0.0),
        Neg => (1, 0.0, 0.0),
        Sign => (2, 0.0, 0.0),
        Relu => (3, 0.0, 0.0),
        Exp => (4, 0.0, 0.0),
        Expm1 => (5, 0.0, 0.0),
        Log => (6, 0.0, 0.0),
        Log1p => (7, 0.0, 0.0),
        Log2 => (8, 0.0, 0.0),
        Sqrt => (9, 0.0, 0.0),
        Rsqrt => (10, 0.0, 0.0),
        Reciprocal => (11, 0.0, 0.0),
        Square => (12, 0.0, 0.0),
        Sin => (13, 0.0, 0.0),
        Cos => (14, 0.0, 0.0),
        Tan => (15, 0.0, 0.0),
        Asin => (16, 0.0, 0.0),
        Acos => (17, 0.0, 0.0),
        Atan => (18, 0.0, 0.0),
        Sinh => (19, 0.0, 0.0),
        Cosh => (20, 0.0, 0.0),
        Tanh => (21, 0.0, 0.0),
        Asinh => (22, 0.0, 0.0),
        Acosh => (23, 0.0, 0.0),
        Atanh => (24, 0.0, 0.0),
        Erf => (25, 0.0, 0.0),
        Floor => (26, 0.0, 0.0),
        Ceil => (27, 0.0, 0.0),
        Round => (28, 0.0, 0.0),
        Trunc => (29, 0.0, 0.0),
        Sigmoid => (30, 0.0, 0.0),
        HardSigmoid { alpha, beta } => (31, alpha, beta),
        HardSwish => (32, 0.0, 0.0),
        Silu => (33, 0.0, 0.0),
        Gelu => (34, 0.0, 0.0),
        GeluTanh => (35, 0.0, 0.0),
        Softplus => (36, 0.0, 0.0),
        Softsign => (37, 0.0, 0.0),
        Mish => (38, 0.0, 0.0),
        LeakyRelu { slope } => (39, slope, 0.0),
        Elu { alpha } => (40, alpha, 0.0),
        Celu { alpha } => (41, alpha, 0.0),
        Selu { alpha, gamma } => (42, alpha, gamma),
        ThresholdedRelu { alpha } => (43, alpha, 0.0),
        Shrink { lambda, bias } => (44, lambda, bias),
        IsNan => (45, 0.0, 0.0),
        IsInf { positive, negative } => (46, flag(positive), flag(negative)),
        Not => (47, 0.0, 0.0),
    }
}

pub(super) fn lower(command: &BoundCommand, op: UnaryOp, limits: &Limits) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    let Some(grid) = Elementwise::new([dst, src], limits) else { return Lowered::default() };
    let (from, to) = (src.layout.dtype() as i32, dst.layout.dtype() as i32);
    let (code, a, b) = code(op);
    let constants = [code, from, to, grid.rank, grid.wide, grid.vector, grid.steps];
    let launch = Launch {
        key: Key::new(Program::Unary, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: UnaryParams { walk: grid.walk, tail: grid.tail, a, b }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

//! The kernels of the CPU device: one function that executes one Command.
//!
//! A kernel splits its *outputs* in chunks whose size depends on the problem alone, and the order in
//! which one output element is computed depends neither on the chunk nor on its place in it. So
//! results have the same bits with any number of threads, and a row has the same bits in a batch of
//! any size.
//!
//! The rooms: `walk` turns layouts into runs of elements, `block` moves runs between buffers and
//! scratch in the type that is computed in, `number` and `math` are about single elements; each
//! family of operations has a room of its own.

mod activation;
mod binary;
mod block;
mod copy;
mod host;
mod integer;
mod lanes;
mod layer_norm;
mod math;
mod matmul;
mod number;
mod parallel;
mod past_cache;
pub(crate) mod peak;
mod random;
mod reduce;
mod simd;
mod softmax;
mod transpose;
mod unary;
mod walk;

#[cfg(test)]
mod testing;

pub(crate) use matmul::packed_bytes;
pub use parallel::{Parallel, Sequential};

use millstream_core::{BoundCommand, Op, OpKind, Operand, RawBuffer};

/// Whether the CPU device has a kernel for this kind.
pub fn supports(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Fill
            | OpKind::Copy
            | OpKind::Unary
            | OpKind::Binary
            | OpKind::Reduce
            | OpKind::Softmax
            | OpKind::LayerNorm
            | OpKind::MatMul
            | OpKind::PackWeights
            | OpKind::MatMulPacked
            | OpKind::Random
            | OpKind::Upload
            | OpKind::Download
            | OpKind::Timestamp
    )
}

/// Executes one Command and returns when it is done. `clock_ns` is what a timestamp writes.
///
/// # Panics
///
/// A kind that is not [supported](supports).
///
/// # Safety
///
/// The addresses of operands are host pointers, aligned to 64 bytes and valid for the extent of the
/// operand; inputs are initialised. During the call no other thread touches what the Command writes,
/// nor writes what it reads. Operands of different buffers do not overlap. `parallel` runs each chunk
/// exactly once and has finished all when it returns.
pub unsafe fn execute(command: &BoundCommand, parallel: &dyn Parallel, clock_ns: i64) {
    let (outputs, inputs) = (command.outputs(), command.inputs());
    // SAFETY: every call passes on what the caller promises; the operands that each kernel expects
    // are those that the constructor of the operation put in this order.
    unsafe {
        match command.op() {
            Op::Fill { value } => copy::fill(&outputs[0], *value, parallel),
            Op::Copy => copy::copy(&outputs[0], &inputs[0], parallel),
            Op::Unary { op } => unary::unary(*op, &outputs[0], &inputs[0], parallel),
            Op::Binary { op } => {
                binary::binary(*op, &outputs[0], &inputs[0], &inputs[1], parallel);
            }
            Op::Reduce { op, axes } => {
                reduce::reduce(*op, *axes, &outputs[0], &inputs[0], parallel);
            }
            Op::Softmax { axis, log } => {
                softmax::softmax(usize::from(*axis), *log, &outputs[0], &inputs[0], parallel);
            }
            Op::LayerNorm { axes, epsilon, weight, bias } => {
                let (src, rest) = (&inputs[0], &inputs[1..]);
                let (weight, rest) = take(*weight, rest);
                let (bias, _) = take(*bias, rest);
                let axes = usize::from(*axes);
                layer_norm::layer_norm(axes, *epsilon, &outputs[0], src, weight, bias, parallel);
            }
            Op::MatMul { epilogue } => {
                let (bias, rest) = take(epilogue.bias, &inputs[2..]);
                let (residual, _) = take(epilogue.residual, rest);
                let factors = [&inputs[0], &inputs[1]];
                matmul::matmul(epilogue, &outputs[0], factors, bias, residual, parallel);
            }
            Op::PackWeights => matmul::pack_weights(&outputs[0], &inputs[0], parallel),
            Op::MatMulPacked { epilogue } => {
                let (bias, rest) = take(epilogue.bias, &inputs[2..]);
                let (residual, _) = take(epilogue.residual, rest);
                let factors = [&inputs[0], &inputs[1]];
                matmul::matmul_packed(epilogue, &outputs[0], factors, bias, residual, parallel);
            }
            Op::Random { distribution, seed, offset } => {
                random::random(*distribution, *seed, *offset, &outputs[0], parallel);
            }
            Op::Upload { source } => host::upload(&outputs[0], source, parallel),
            Op::Download { target } => host::download(target, &inputs[0], parallel),
            Op::Timestamp => host::timestamp(&outputs[0], clock_ns),
            other => unreachable!("the CPU device has no kernel for {}", other.name()),
        }
    }
}

/// Splits an optional operand off.
fn take(
    given: bool,
    rest: &[Operand<RawBuffer>],
) -> (Option<&Operand<RawBuffer>>, &[Operand<RawBuffer>]) {
    match rest {
        [first, rest @ ..] if given => (Some(first), rest),
        _ => (None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_the_first_stage_are_supported() {
        let names: Vec<_> =
            OpKind::ALL.iter().filter(|&&kind| supports(kind)).map(|kind| kind.name()).collect();
        assert_eq!(
            names,
            [
                "fill",
                "copy",
                "unary",
                "binary",
                "reduce",
                "softmax",
                "layer_norm",
                "matmul",
                "pack_weights",
                "matmul_packed",
                "random",
                "upload",
                "download",
                "timestamp"
            ]
        );
    }
}

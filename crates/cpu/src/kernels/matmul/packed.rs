//! Weights that are packed once.

use millstream_core::{DType, Epilogue, Layout, Operand, RawBuffer};

use super::multiply;
use super::pack::pack_right;
use super::problem::{Matrix, Problem};
use super::scratch::new_name;
use super::tile::Multiplied;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{KernelFault, Result};
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::simd::Machine;

/// Bytes that packed weights of a layout take, which is `[k, n]` of a floating-point type.
///
/// Packed weights hold every element, also those of a repeated axis. More than memory can have is said as
/// the most that it can: an allocation of that is refused.
pub(crate) fn packed_bytes(layout: &Layout) -> Option<usize> {
    if !layout.dtype().is_float() || layout.rank() != 2 {
        return None;
    }
    let size = [layout.shape()[0], layout.shape()[1]];
    let bytes = with_float!(layout.dtype(), T => bytes_of::<T>(size, Machine::detect()));
    Some(bytes.unwrap_or(isize::MAX as usize))
}

/// `None` if memory cannot have them.
fn bytes_of<T: Multiplied>([depth, width]: [usize; 2], machine: Machine) -> Option<usize> {
    let width = width.checked_next_multiple_of(T::shape(machine).columns)?;
    let bytes = depth.checked_mul(width)?.checked_mul(size_of::<T>())?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn pack_weights(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    with_float!(src.layout.dtype(), T => {
        // SAFETY: passed on; the machine was detected.
        unsafe { pack::<T>(dst, src, Machine::detect(), parallel) }
    })
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the weights have the type `T`, and the machine at hand
/// is this one or a better one.
pub(super) unsafe fn pack<T: Multiplied>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    machine: Machine,
    parallel: &dyn Parallel,
) -> Result {
    let size = [src.layout.shape()[0], src.layout.shape()[1]];
    let ([depth, width], panel) = (size, T::shape(machine).columns);
    check::<T>(dst, size, machine)?;
    if src.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on.
    let (matrix, to) = unsafe { (Matrix::<T>::of(src, 0), Shared::new(base::<T>(dst))) };
    share(parallel, width.div_ceil(panel), panel * depth / 2, |range| {
        // SAFETY: panels are disjoint parts of the output, whose size was checked.
        unsafe {
            let to = to.get().add(range.start * panel * depth);
            pack_right(&matrix, size, panel, range, to, machine);
        }
    });
    Ok(())
}

/// # Errors
///
/// Packed weights of another size, or at an address that elements do not have: only the device knows both.
fn check<T: Multiplied>(packed: &Operand<RawBuffer>, size: [usize; 2], machine: Machine) -> Result {
    let (bytes, given) = (bytes_of::<T>(size, machine), packed.layout.elements());
    let address = packed.buffer.address + packed.layout.offset();
    if bytes != Some(given) {
        let bytes = bytes.map_or("too many".into(), |bytes| bytes.to_string());
        let text = format!("packed weights of {size:?} are {bytes} bytes here, got {given}");
        return Err(KernelFault::new(text));
    }
    if !address.is_multiple_of(align_of::<T>()) {
        return Err(KernelFault::new("packed weights begin between two elements"));
    }
    Ok(())
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn matmul_packed(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    factors: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    with_float!(dst.layout.dtype(), T => {
        let machine = Machine::detect();
        // SAFETY: passed on; the machine was detected.
        unsafe { run::<T>(epilogue, dst, factors, bias, residual, machine, parallel) }
    })
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the operands have the type `T`, and the machine at hand
/// is this one or a better one.
pub(super) unsafe fn run<T: Multiplied>(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    [left, packed]: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    machine: Machine,
    parallel: &dyn Parallel,
) -> Result {
    let shape = dst.layout.shape();
    let rank = shape.len();
    let (depth, columns) = (left.layout.shape()[rank - 1], shape[rank - 1]);
    check::<T>(packed, [depth, columns], machine)?;
    if dst.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on.
    let right = Shared::new(unsafe { base::<u8>(packed) }.cast::<T>());
    // The factor that was packed, for its sizes alone: it stands for all products of the batch.
    let mut whole: smallvec::SmallVec<[usize; 8]> = shape.into();
    whole[rank - 2] = depth;
    let plain = Layout::contiguous(dst.layout.dtype(), &[depth, columns])
        .and_then(|layout| layout.broadcast_to(&whole))
        .expect("smaller than the packed weights");
    let plain = Operand::new(packed.buffer, plain);
    // SAFETY: passed on.
    let problem = unsafe { Problem::<T>::new(epilogue, dst, [left, &plain], bias, residual) };
    let name = new_name();
    for batch in 0..problem.batches() {
        // SAFETY: passed on; the size of the packed weights was checked.
        unsafe { multiply(&problem, name, batch, Some(right), machine, parallel)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests;

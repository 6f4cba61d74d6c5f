//! Weights that are packed once.

use millstream_core::{DType, Epilogue, Layout, Operand, RawBuffer};

use super::micro_kernel::GemmElement;
use super::multiply;
use super::pack::pack_rhs;
use super::problem::{Matrix, Problem};
use super::scratch::new_name;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{KernelFault, Result};
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::simd::Isa;

/// Bytes that packed weights of a layout take, which is `[k, n]` of a floating-point type.
///
/// Packed weights hold every element, also those of a repeated axis. More than memory can have is said as
/// the most that it can: an allocation of that is refused.
pub(crate) fn packed_bytes(layout: &Layout) -> Option<usize> {
    if !layout.dtype().is_float() || layout.rank() != 2 {
        return None;
    }
    let size = [layout.shape()[0], layout.shape()[1]];
    let bytes = with_float!(layout.dtype(), T => bytes_of::<T>(size, Isa::detect()));
    Some(bytes.unwrap_or(isize::MAX as usize))
}

/// `None` if memory cannot have them.
fn bytes_of<T: GemmElement>([k, width]: [usize; 2], isa: Isa) -> Option<usize> {
    let width = width.checked_next_multiple_of(T::shape(isa).columns)?;
    let bytes = k.checked_mul(width)?.checked_mul(size_of::<T>())?;
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
        // SAFETY: passed on; the ISA was detected.
        unsafe { pack::<T>(dst, src, Isa::detect(), parallel) }
    })
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the weights have the type `T`, and the CPU has
/// this ISA.
pub(super) unsafe fn pack<T: GemmElement>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    isa: Isa,
    parallel: &dyn Parallel,
) -> Result {
    let size = [src.layout.shape()[0], src.layout.shape()[1]];
    let ([k, width], panel) = (size, T::shape(isa).columns);
    check::<T>(dst, size, isa)?;
    if src.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on.
    let (matrix, to) = unsafe { (Matrix::<T>::of(src, 0), Shared::new(base::<T>(dst))) };
    share(parallel, width.div_ceil(panel), panel * k / 2, |range| {
        // SAFETY: panels are disjoint parts of the output, whose size was checked.
        unsafe {
            let to = to.get().add(range.start * panel * k);
            pack_rhs(&matrix, size, panel, range, to, isa);
        }
    });
    Ok(())
}

/// # Errors
///
/// Packed weights of another size, or at an address that elements do not have: only the device knows both.
fn check<T: GemmElement>(packed: &Operand<RawBuffer>, size: [usize; 2], isa: Isa) -> Result {
    let (bytes, given) = (bytes_of::<T>(size, isa), packed.layout.elements());
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
    operands: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    with_float!(dst.layout.dtype(), T => {
        let isa = Isa::detect();
        // SAFETY: passed on; the ISA was detected.
        unsafe { run::<T>(epilogue, dst, operands, bias, residual, isa, parallel) }
    })
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the operands have the type `T`, and the CPU has
/// this ISA.
pub(super) unsafe fn run<T: GemmElement>(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    [lhs, packed]: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    isa: Isa,
    parallel: &dyn Parallel,
) -> Result {
    let shape = dst.layout.shape();
    let rank = shape.len();
    let (k, columns) = (lhs.layout.shape()[rank - 1], shape[rank - 1]);
    check::<T>(packed, [k, columns], isa)?;
    if dst.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on.
    let rhs = Shared::new(unsafe { base::<u8>(packed) }.cast::<T>());
    // The operand that was packed, for its sizes alone: it stands for all products of the batch.
    let mut whole: smallvec::SmallVec<[usize; 8]> = shape.into();
    whole[rank - 2] = k;
    let plain = Layout::contiguous(dst.layout.dtype(), &[k, columns])
        .and_then(|layout| layout.broadcast_to(&whole))
        .expect("smaller than the packed weights");
    let plain = Operand::new(packed.buffer, plain);
    // SAFETY: passed on.
    let problem = unsafe { Problem::<T>::new(epilogue, dst, [lhs, &plain], bias, residual) };
    let name = new_name();
    for batch in 0..problem.batches() {
        // SAFETY: passed on; the size of the packed weights was checked.
        unsafe { multiply(&problem, name, batch, Some(rhs), isa, parallel)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Transfers between host and device memory, which for this device is a copy, and the clock.

use millstream_core::{HostBytes, Layout, Operand, RawBuffer};

use crate::kernels::copy::copy;
use crate::kernels::shared::block::base;
use crate::kernels::shared::parallel::Parallel;

/// Copies dense bytes of the host to an operand.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn upload(dst: &Operand<RawBuffer>, source: &HostBytes, parallel: &dyn Parallel) {
    // SAFETY: the host's bytes are as many as the elements take, nobody writes them, and they are
    // apart from device memory; the rest is passed on.
    unsafe { copy(dst, &dense(source, &dst.layout), parallel) }
}

/// Copies an operand to dense bytes of the host.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn download(
    target: &HostBytes,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: the host's bytes are as many as the elements take, only this command accesses them
    // until it completes, and they are apart from device memory; the rest is passed on.
    unsafe { copy(&dense(target, &src.layout), src, parallel) }
}

/// The host's bytes as an operand with the shape and type of a layout.
fn dense(host: &HostBytes, layout: &Layout) -> Operand<RawBuffer> {
    let dense = Layout::contiguous(layout.dtype(), layout.shape());
    let dense = dense.expect("a layout of the same shape exists");
    Operand::new(RawBuffer { address: host.as_mut_ptr() as usize, bytes: host.len() }, dense)
}

/// Writes the clock.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn timestamp(dst: &Operand<RawBuffer>, clock_ns: i64) {
    // SAFETY: the operand is one `i64`.
    unsafe { base::<i64>(dst).write(clock_ns) }
}

#[cfg(test)]
mod tests;

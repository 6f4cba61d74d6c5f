//! What a condition holds for.

use millstream_core::{Operand, RawBuffer};

use super::{Items, each_flagged, store_count, take};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::scratch::filled;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn compress(
    axis: Option<usize>,
    dst: &Operand<RawBuffer>,
    count: &Operand<RawBuffer>,
    [src, condition]: [&Operand<RawBuffer>; 2],
    parallel: &dyn Parallel,
) -> Result {
    let (conditions, stride) = (condition.layout.shape()[0], condition.layout.strides()[0]);
    // SAFETY: passed on.
    let first = Shared::new(unsafe { base::<u8>(condition) });
    let flags = |start: usize, flags: &mut [bool]| {
        for (i, flag) in flags.iter_mut().enumerate() {
            // SAFETY: the condition is one of those that there are.
            *flag = unsafe { first.get().add((start + i) * stride).read() } != 0;
        }
    };
    let mut kept = filled(conditions, 0usize)?;
    let list = Shared::new(kept.as_mut_ptr());
    // SAFETY: each place is written once, and there are as many as conditions at most.
    let found = |place: usize, index: usize| unsafe { list.get().add(place).write(index) };
    let total = each_flagged(conditions, parallel, flags, found)?;
    kept.truncate(total);
    // SAFETY: passed on; there are no more conditions than items.
    unsafe {
        take(&Items::new(&src.layout, axis), &kept, dst, src, parallel);
        store_count(count, total);
    }
    Ok(())
}

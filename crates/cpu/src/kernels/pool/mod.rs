//! Pooling.
//!
//! The taps of one window are combined in row-major order, whatever the shape of the output. Windows
//! along the last axis go through their taps together, so that neighbors become vectors.

mod axis;
mod fold;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Operand, PoolKind, PoolOrder, PoolParams, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::number::{Float, Stored, StoredFloat, with_float, with_int};
use crate::kernels::shared::parallel::{Parallel, SendPtr};
use fold::Windows;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn pool(
    params: &PoolParams,
    dst: &Operand<RawBuffer>,
    indices: Option<&Operand<RawBuffer>>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    if dst.layout.is_empty() {
        return;
    }
    let windows = Windows::new(params, dst, indices, src);
    let (dtype, order) = (dst.layout.dtype(), params.order);
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match params.kind {
            PoolKind::Average { include_padding } => with_float!(dtype, T => {
                let to = SendPtr::<T>::new(base(dst));
                let add = |sum: f64, x: <T as Stored>::Compute, _| sum + x.to_f64();
                windows.fold::<T, f64>(src, parallel, 0.0, add, |[place, _], sum, counts| {
                    let count = if include_padding { counts.padded } else { counts.inside };
                    let mean = <T as StoredFloat>::from_f64(sum / count as f64);
                    to.get().add(place).write(mean);
                });
            }),
            PoolKind::Max if dtype.is_float() => with_float!(dtype, T => {
                type C = <T as Stored>::Compute;
                let beats = |new: C, old: C| new > old || (new.is_nan() && !old.is_nan());
                match indices {
                    Some(indices) => places::<T>(&windows, dst, (indices, order), src, parallel, beats),
                    None => largest::<T>(&windows, dst, src, parallel, -C::INFINITY, Float::maximum),
                }
            }),
            PoolKind::Max => with_int!(dtype, T => match indices {
                Some(indices) => places::<T>(&windows, dst, (indices, order), src, parallel, |a, b| a > b),
                None => largest::<T>(&windows, dst, src, parallel, T::MIN, Ord::max),
            }),
        }
    }
}

unsafe fn largest<T: Stored>(
    windows: &Windows,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    lowest: T::Compute,
    larger: impl Fn(T::Compute, T::Compute) -> T::Compute + Copy + Sync,
) {
    // SAFETY: passed on; each output is stored once.
    unsafe {
        let to = SendPtr::<T>::new(base(dst));
        let step = |best, x, _| larger(best, x);
        windows.fold::<T, T::Compute>(src, parallel, lowest, step, |[place, _], best, _| {
            to.get().add(place).write(T::narrow(best));
        });
    }
}

/// The largest elements and their places; `beats(new, old)` says whether a later element counts.
unsafe fn places<T: Stored>(
    windows: &Windows,
    dst: &Operand<RawBuffer>,
    (indices, order): (&Operand<RawBuffer>, PoolOrder),
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    beats: impl Fn(T::Compute, T::Compute) -> bool + Copy + Sync,
) {
    // SAFETY: passed on; each output is stored once.
    unsafe {
        let (to, at) = (SendPtr::<T>::new(base(dst)), SendPtr::<i64>::new(base(indices)));
        // The first element counts even where it is the lowest that there is.
        type Best<C> = Option<(C, usize)>;
        let step = |best: Best<T::Compute>, x, index| match best {
            Some((old, _)) if !beats(x, old) => best,
            _ => Some((x, index)),
        };
        windows.fold::<T, Best<T::Compute>>(
            src,
            parallel,
            None,
            step,
            |[place, other], best, counts| {
                if let Some((best, index)) = best {
                    to.get().add(place).write(T::narrow(best));
                    let index = windows.place(order, counts.plane, index) as i64;
                    at.get().add(other).write(index);
                }
            },
        );
    }
}

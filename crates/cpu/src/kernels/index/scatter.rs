//! Scatter: writing by index.
//!
//! Updates of one element are applied in row-major order. So only what cannot meet is shared between
//! threads: rows along the axis of single elements, and parts of slices.

use millstream_core::{DType, Operand, RawBuffer, ScatterReduction};

use super::{FirstOutside, Slices, Tuple};
use crate::kernels::copy::copy;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_parallel_for, try_run};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Float, Stored, with_bits, with_float, with_int};
use crate::kernels::shared::parallel::{CHUNK_ELEMENTS, Parallel, SendPtr};
use crate::kernels::shared::walk::Walk;

/// Elements of a slice that are worth reading all indices for.
const PART: usize = 256;

/// The operands of a scatter.
pub(crate) struct Operands<'a> {
    pub dst: &'a Operand<RawBuffer>,
    pub src: &'a Operand<RawBuffer>,
    pub indices: &'a Operand<RawBuffer>,
    pub updates: &'a Operand<RawBuffer>,
}

/// Single elements along an axis.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn scatter_elements(
    axis: usize,
    reduction: ScatterReduction,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let (updates, dst) = (&operands.updates.layout, &operands.dst.layout);
    let strides = operands.indices.layout.strides();
    let others = (0..dst.rank()).filter(|&other| other != axis);
    let rows = Walk::from_axes(
        others.map(|i| (updates.shape()[i], [updates.strides()[i], dst.strides()[i], strides[i]])),
    );
    let target = (dst.shape()[axis], dst.strides()[axis]);
    // SAFETY: passed on.
    let tuple = unsafe { Tuple::new(operands.indices, 0, [target]) };
    let along = Along {
        rows,
        count: updates.shape()[axis],
        update: updates.strides()[axis],
        index: strides[axis],
        tuple,
    };
    // SAFETY: passed on.
    unsafe { run(&Targets::Elements(along), reduction, operands, parallel) }
}

/// Slices by tuples.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn scatter_nd(
    reduction: ScatterReduction,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let (updates, dst) = (&operands.updates.layout, &operands.dst.layout);
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::tuples(0, updates, dst, operands.indices);
        run(&Targets::Slices(slices), reduction, operands, parallel)
    }
}

/// Where updates go.
enum Targets {
    Elements(Along),
    Slices(Slices),
}

/// Single elements along an axis.
struct Along {
    /// The other axes, of updates, output and indices.
    rows: Walk<3>,
    /// Updates along the axis.
    count: usize,
    /// Strides along the axis.
    update: usize,
    index: usize,
    tuple: Tuple,
}

unsafe fn run(
    targets: &Targets,
    reduction: ScatterReduction,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    use ScatterReduction::{Add, Max, Min, Multiply, Replace};
    let (dst, src) = (operands.dst, operands.src);
    let dtype = dst.layout.dtype();
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        if dst.buffer != src.buffer || dst.layout != src.layout {
            copy(dst, src, parallel);
        }
        match reduction {
            Replace => {
                with_bits!(dtype, T => apply::<T>(targets, operands, parallel, |_, new| new))
            }
            Add | Multiply | Max | Min if dtype.is_float() => with_float!(dtype, T => {
                match reduction {
                    Add => apply::<T>(targets, operands, parallel, |old, new| old + new),
                    Multiply => apply::<T>(targets, operands, parallel, |old, new| old * new),
                    Max => apply::<T>(targets, operands, parallel, Float::maximum),
                    Min | Replace => apply::<T>(targets, operands, parallel, Float::minimum),
                }
            }),
            // Integers wrap around, so a sign changes no bit.
            Add => with_bits!(dtype, T => apply::<T>(targets, operands, parallel, Int::add)),
            Multiply => with_bits!(dtype, T => apply::<T>(targets, operands, parallel, Int::mul)),
            Max | Min => {
                // Truth values are the numbers 0 and 1 here.
                let dtype = if dtype == DType::Bool { DType::U8 } else { dtype };
                with_int!(dtype, T => match reduction {
                    Max => apply::<T>(targets, operands, parallel, Ord::max),
                    Min | Replace | Add | Multiply => {
                        apply::<T>(targets, operands, parallel, Ord::min)
                    }
                })
            }
        }
    }
}

/// Updates `count` elements of `to`. Strides of elements and updates count elements.
///
/// # Safety
///
/// The elements and updates are there, and nobody else touches the elements.
#[inline(always)]
unsafe fn update<T: Stored>(
    to: *mut T,
    from: *const T,
    strides: [usize; 2],
    count: usize,
    combine: impl Fn(T::Compute, T::Compute) -> T::Compute,
) {
    for i in 0..count {
        // SAFETY: passed on.
        unsafe {
            let (to, update) = (to.add(i * strides[0]), from.add(i * strides[1]).read());
            to.write(T::narrow(combine(to.read().widen(), update.widen())));
        }
    }
}

unsafe fn apply<T: Stored>(
    targets: &Targets,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
    combine: impl Fn(T::Compute, T::Compute) -> T::Compute + Sync,
) -> Result {
    // SAFETY: passed on.
    let (to, from) = unsafe {
        (SendPtr::<T>::new(base(operands.dst)), SendPtr::<T>::new(base(operands.updates)))
    };
    // The pointers are passed by value, so that the loop over a dense run is vectorized.
    let run = |place: usize, from_place: usize, strides: [usize; 2], count: usize| {
        // SAFETY: both runs lie inside their operands, and no other chunk touches the places.
        unsafe {
            let (to, from) = (to.get().add(place), from.get().add(from_place));
            update::<T>(to, from, strides, count, &combine);
        }
    };
    match targets {
        Targets::Elements(along) => {
            try_parallel_for(parallel, along.rows.elements(), along.count, |range| {
                let outside = FirstOutside::default();
                let one = |[update, place, index]: [usize; 3], i: usize| {
                    // SAFETY: the index is one of the indices.
                    let offset = unsafe { along.tuple.position(index + i * along.index) };
                    if let Some(offset) = outside.check(offset) {
                        run(place + offset, update + i * along.update, [0, 0], 1);
                    }
                };
                let (start, len) = (range.start, range.len());
                // Either order of the loops keeps the order within a row; this follows memory.
                if along.rows.inner_stride(0) == 1 {
                    for i in 0..along.count {
                        along.rows.steps(start, len, |positions| one(positions, i));
                    }
                } else {
                    along.rows.steps(start, len, |positions| {
                        (0..along.count).for_each(|i| one(positions, i));
                    });
                }
                outside.into_result()
            })
        }
        Targets::Slices(slices) => {
            let (count, size) = (slices.all.elements(), slices.slice.elements());
            if count == 0 || size == 0 {
                return Ok(());
            }
            let part = (CHUNK_ELEMENTS / count).max(PART);
            let strides = [slices.slice.inner_stride(1), slices.slice.inner_stride(0)];
            let body = |chunk: usize| {
                let (start, len) = (chunk * part, part.min(size - chunk * part));
                let outside = FirstOutside::default();
                slices.all.steps(0, count, |[update, place, index]| {
                    // SAFETY: the tuple lies inside the indices.
                    let offset = unsafe { slices.tuple.position(index) };
                    let Some(offset) = outside.check(offset) else { return };
                    let place = place + offset;
                    slices.slice.rows(start, len, |[a, b], count| {
                        run(place + b, update + a, strides, count);
                    });
                });
                outside.into_result()
            };
            match size.div_ceil(part) {
                1 => body(0),
                parts => try_run(parallel, parts, body),
            }
        }
    }
}

#[cfg(test)]
mod tests;

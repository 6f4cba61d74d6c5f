//! GridSample: elements at the places that a grid names.

use millstream_core::{DType, GridMode, GridPadding, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::number::{Stored, with_f32};
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};

/// Taps of three axes at most.
const MAX_TAPS: usize = 64;

/// How places are found.
#[derive(Clone, Copy)]
pub(super) struct Sampling {
    pub mode: GridMode,
    pub padding: GridPadding,
    pub align_corners: bool,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn grid_sample(
    sampling: Sampling,
    dst: &Operand<RawBuffer>,
    [src, grid]: [&Operand<RawBuffer>; 2],
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on; the type is that of all operands.
    with_f32!(dst.layout.dtype(), T => unsafe { sample::<T>(sampling, dst, src, grid, parallel) });
}

unsafe fn sample<T: Stored<Compute = f32>>(
    sampling: Sampling,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    grid: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let (shape, steps) = (dst.layout.shape(), dst.layout.strides());
    let (sizes, strides) = (src.layout.shape(), src.layout.strides());
    let points = grid.layout.strides();
    let spatial = shape.len() - 2;
    let (channels, places) = (shape[1], shape[2..].iter().product::<usize>());
    // SAFETY: passed on.
    let (to, from, read) = unsafe {
        (SendPtr::<T>::new(base(dst)), SendPtr::<T>::new(base(src)), SendPtr::<T>::new(base(grid)))
    };
    let work = channels.saturating_mul(sampling.mode.taps().pow(spatial as u32));
    parallel_for(parallel, shape[0] * places, work, |range| {
        for at in range {
            let (batch, mut rest) = (at / places, at % places);
            let (mut to_at, mut point_at) = (batch * steps[0], batch * points[0]);
            for axis in (0..spatial).rev() {
                let here = rest % shape[axis + 2];
                rest /= shape[axis + 2];
                to_at += here * steps[axis + 2];
                point_at += here * points[axis + 1];
            }
            let mut taps = Taps { list: [(0, 0.0); MAX_TAPS], count: 1 };
            taps.list[0] = (batch * strides[0], 1.0);
            for axis in 0..spatial {
                // The first coordinate is that of the last axis.
                let place = point_at + (spatial - 1 - axis) * points[spatial + 1];
                // SAFETY: the place is one of the grid.
                let coordinate = unsafe { read.get().add(place).read() }.widen();
                taps.spread(&sampling.along(coordinate, sizes[axis + 2]), strides[axis + 2]);
            }
            for channel in 0..channels {
                let mut sum = 0.0;
                for &(place, weight) in &taps.list[..taps.count] {
                    // SAFETY: taps lie inside the input.
                    let value = unsafe { from.get().add(place + channel * strides[1]).read() };
                    sum += weight * value.widen();
                }
                // SAFETY: every place of the output is one item's.
                unsafe { to.get().add(to_at + channel * steps[1]).write(T::narrow(sum)) };
            }
        }
    });
}

/// Where elements lie, and what they count.
struct Taps {
    list: [(usize, f32); MAX_TAPS],
    count: usize,
}

impl Taps {
    /// Every tap at several places of one more axis. Those that count nothing are left out.
    fn spread(&mut self, axis: &[(Option<usize>, f32)], stride: usize) {
        let (old, before) = (self.list, self.count);
        self.count = 0;
        for &(start, weight) in &old[..before] {
            for &(index, share) in axis {
                if let Some(index) = index.filter(|_| share != 0.0) {
                    self.list[self.count] = (start + index * stride, weight * share);
                    self.count += 1;
                }
            }
        }
    }
}

impl Sampling {
    /// The taps along one axis; `None` is outside, where zeros are.
    fn along(self, coordinate: f32, size: usize) -> smallvec::SmallVec<[(Option<usize>, f32); 4]> {
        let place = self.place(coordinate, size as f32);
        if self.mode == GridMode::Nearest {
            return [(self.index(place, size), 1.0)].into_iter().collect();
        }
        let first = place.floor();
        let part = place - first;
        let tap = |by: f32, weight: f32| (self.index(first + by, size), weight);
        match self.mode {
            GridMode::Nearest | GridMode::Linear => {
                [tap(0.0, 1.0 - part), tap(1.0, part)].into_iter().collect()
            }
            GridMode::Cubic => {
                let far = |x: f32| ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
                let near = |x: f32| (1.25 * x - 2.25) * x * x + 1.0;
                [
                    tap(-1.0, far(part + 1.0)),
                    tap(0.0, near(part)),
                    tap(1.0, near(1.0 - part)),
                    tap(2.0, far(2.0 - part)),
                ]
                .into_iter()
                .collect()
            }
        }
    }

    fn edges(self, size: f32) -> (f32, f32) {
        if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) }
    }

    /// A coordinate in elements, brought inside as the padding has it.
    fn place(self, coordinate: f32, size: f32) -> f32 {
        /// Beyond this nothing is near; it keeps conversions to integers in range.
        const FAR: f32 = 1e9;
        let place = match self.align_corners {
            true => (coordinate + 1.0) / 2.0 * (size - 1.0),
            false => ((coordinate + 1.0) * size - 1.0) / 2.0,
        };
        let mut place = if place > -FAR { place.min(FAR) } else { -FAR };
        if self.mode == GridMode::Nearest {
            place = place.round_ties_even();
        }
        let (low, high) = self.edges(size);
        match self.padding {
            _ if (low..=high).contains(&place) => place,
            GridPadding::Zeros => place,
            // Only the elements are those of the edge then: the curve goes on beyond it.
            GridPadding::Border if self.mode == GridMode::Cubic => place,
            GridPadding::Border => place.clamp(0.0, size - 1.0),
            GridPadding::Reflection => mirrored(place, low, high),
        }
    }

    /// The element at a whole number, or none.
    fn index(self, place: f32, size: usize) -> Option<usize> {
        let index = place as i64;
        let last = size as i64 - 1;
        match self.padding {
            _ if (0..=last).contains(&index) => Some(index as usize),
            GridPadding::Zeros => None,
            GridPadding::Border => Some(index.clamp(0, last) as usize),
            GridPadding::Reflection => {
                let (low, high) = self.edges(size as f32);
                Some((mirrored(place, low, high) as i64).clamp(0, last) as usize)
            }
        }
    }
}

/// Back and forth between two edges, from outside of them.
fn mirrored(place: f32, low: f32, high: f32) -> f32 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    let far = if place < low { low - place } else { place - high } % (range + range);
    let back = if far <= range { far } else { range + range - far };
    if place < low { low + back } else { high - back }
}

//! The nearest element.

use millstream_core::{Operand, RawBuffer, Scalar};

use crate::kernels::shared::block::base;
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::slice;
use crate::kernels::shared::walk::Walk;

/// `places` has the element for each output, axis by axis; no axis behind `last` changes.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::resize::execute), and `Bits` has the size of an element.
pub(super) unsafe fn resize<Bits: Stored>(
    places: &[Vec<Option<usize>>],
    last: usize,
    extrapolation: f32,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let bytes = Scalar::from(extrapolation).to_bytes(dst.layout.dtype());
    // SAFETY: the bytes are an element of the type, and there are at least as many.
    let outside = unsafe { bytes.as_ptr().cast::<Bits>().read_unaligned() };
    // SAFETY: passed on; bits of the size of the elements stand for them.
    let (to, from) = unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
    let behind = last + 1..dst.layout.rank();
    let slice = Walk::over([&dst.layout, &src.layout], behind.clone());
    let target = Walk::over([&dst.layout], behind);
    let (strides, steps) = (dst.layout.strides(), src.layout.strides());
    let shape = dst.layout.shape();
    let size = slice.elements();
    share(parallel, shape[..last].iter().product(), shape[last].saturating_mul(size), |range| {
        for row in range {
            let (mut rest, mut place, mut source) = (row, 0, Some(0));
            for axis in (0..last).rev() {
                let at = rest % shape[axis];
                rest /= shape[axis];
                place += at * strides[axis];
                source = source.zip(places[axis][at]).map(|(sum, at)| sum + at * steps[axis]);
            }
            for (x, &at) in places[last].iter().enumerate() {
                // SAFETY: rows are disjoint parts of the output, and places are those of elements of
                // the input.
                unsafe {
                    let to = to.get().add(place + x * strides[last]);
                    match source.zip(at) {
                        None => slice::fill(&target, to, outside),
                        Some((source, at)) => {
                            let from = from.get().add(source + at * steps[last]);
                            if size == 1 {
                                to.write(from.read());
                            } else {
                                slice::copy(&slice, to, from, 0..size);
                            }
                        }
                    }
                }
            }
        }
    });
}

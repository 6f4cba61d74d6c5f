//! Moves runs of elements between buffers and scratch.
//!
//! A kernel works on blocks of at most [`BLOCK`] elements, in the type it computes in, one after
//! another in memory. Where the elements of a buffer already lie so, the block *is* that part of the
//! buffer; else they are gathered into scratch on the stack, and results are scattered from there.
//! So one loop per operation serves every layout and element type, and no loop has to be compiled
//! for operands that might overlap.

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer};

use super::number::Stored;
use super::parallel::{Parallel, Shared, share};
use super::streaming;
use super::walk::Walk;

/// Elements of one block: large enough to hide the work per block, small enough for the first-level
/// cache to hold a few.
pub(crate) const BLOCK: usize = 512;

/// The blocks of a dense row of `count` elements, as first element and length.
#[inline(always)]
pub(crate) fn blocks(count: usize, block: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..count).step_by(block).map(move |first| (first, block.min(count - first)))
}

/// Memory of one block. It is not initialized, so that small commands do not pay for a large block.
pub(crate) struct Scratch<C>([MaybeUninit<C>; BLOCK]);

impl<C: Copy> Scratch<C> {
    #[inline(always)]
    pub fn new() -> Self {
        Scratch([const { MaybeUninit::uninit() }; BLOCK])
    }

    /// Room for so many elements.
    #[inline(always)]
    pub fn first(&mut self, len: usize) -> &mut [MaybeUninit<C>] {
        &mut self.0[..len]
    }
}

/// The first element of an operand.
///
/// # Safety
///
/// The address of the operand is a host pointer that is valid for the operand's extent.
pub(crate) unsafe fn base<T>(operand: &Operand<RawBuffer>) -> *mut T {
    let buffer = operand.buffer.address as *mut T;
    if operand.layout.is_empty() {
        // The offset of an empty layout may lie outside its buffer.
        return buffer;
    }
    // SAFETY: the first element lies inside the extent of a layout that is not empty.
    unsafe { buffer.add(operand.layout.offset()) }
}

/// An operand of a walk that is read.
#[derive(Clone, Copy)]
pub(crate) struct Input<T> {
    first: Shared<T>,
    operand: usize,
    /// Whether blocks may be read in place, from the buffer itself.
    in_place: bool,
}

/// An operand of a walk that is written.
#[derive(Clone, Copy)]
pub(crate) struct Output<T> {
    first: Shared<T>,
    operand: usize,
    /// Whether dense runs are stored past the caches.
    streaming: bool,
}

impl<T: Stored> Output<T> {
    /// Operand `operand` of a walk, with its first element.
    pub fn new(first: *mut T, operand: usize) -> Self {
        Output { first: Shared::new(first), operand, streaming: false }
    }

    /// The same operand, stored past the caches if so many elements are too large for them. A chunk
    /// then ends with [`end_chunk`](Self::end_chunk), which [`each_block`] sees to.
    pub fn of_elements(self, count: usize) -> Self {
        Output { streaming: streaming::is_large(count.saturating_mul(size_of::<T>())), ..self }
    }

    /// Whether the operand is stored past the caches, and so its inputs likely come from beyond them.
    #[inline(always)]
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// Elements to compute before they are stored.
    #[inline(always)]
    pub fn block(&self) -> usize {
        if self.streaming { streaming::BURST / size_of::<T>() } else { BLOCK }
    }

    /// Stores dense results, `count` elements from the first.
    ///
    /// # Safety
    ///
    /// The elements lie inside the buffer and nobody else touches them.
    #[inline(always)]
    pub unsafe fn narrow(&self, count: usize, from: &[T::Compute]) {
        // SAFETY: passed on; where no conversion is needed, the types are the same in memory.
        unsafe {
            let to = self.first.get().add(count);
            if T::DIRECT && self.streaming {
                streaming::store(from, to.cast());
            } else {
                let to = std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<T>>(), from.len());
                T::narrow_run(from, to);
            }
        }
    }

    /// Makes what this thread has stored visible to others.
    pub fn end_chunk(&self) {
        if self.streaming {
            streaming::fence();
        }
    }

    /// The same operand with all elements moved by `count` elements.
    ///
    /// # Safety
    ///
    /// The new first element lies inside the buffer.
    pub unsafe fn moved(self, count: usize) -> Self {
        // SAFETY: passed on.
        let first = Shared::new(unsafe { self.first.get().add(count) });
        Output { first, ..self }
    }

    /// Stores one element, `count` elements from the first.
    ///
    /// # Safety
    ///
    /// The element lies inside the buffer and nobody else touches it.
    pub unsafe fn set(&self, count: usize, value: T) {
        // SAFETY: passed on.
        unsafe { self.first.get().add(count).write(value) }
    }

    /// Makes one block of results with `compute` and stores it in the elements `start .. start +
    /// len`.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer, nobody else touches them during the call, and `compute`
    /// initializes all it is given.
    #[inline(always)]
    pub unsafe fn write<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: &mut Scratch<T::Compute>,
        compute: impl FnOnce(&mut [MaybeUninit<T::Compute>]),
    ) {
        // SAFETY: passed on.
        unsafe { self.write_through(walk, start, len, scratch.first(len), compute) }
    }

    /// As [`write`](Self::write), with scratch that has room for just these elements.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write).
    #[inline(always)]
    pub unsafe fn write_through<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: &mut [MaybeUninit<T::Compute>],
        compute: impl FnOnce(&mut [MaybeUninit<T::Compute>]),
    ) {
        let first = self.first.get();
        let stride = walk.inner_stride(self.operand);
        if T::DIRECT && stride == 1 && start % walk.inner() + len <= walk.inner() {
            let first = first.wrapping_add(walk.position(self.operand, start));
            let first = first.cast::<MaybeUninit<T::Compute>>();
            if self.streaming {
                compute(scratch);
                // SAFETY: the elements are in the buffer, of this type, and only this call accesses
                // them.
                unsafe { streaming::store(scratch, first) };
            } else {
                // SAFETY: the elements lie one after another inside the buffer, are of the type
                // computed in, and are not accessed otherwise during the call.
                compute(unsafe { std::slice::from_raw_parts_mut(first, len) });
            }
            return;
        }
        compute(scratch);
        // SAFETY: `compute` initialized the block.
        let block = unsafe { scratch.assume_init_ref() };
        walk.runs(self.operand, start, len, |position, before, count| {
            let values = &block[before..before + count];
            // SAFETY: the walk gives positions inside the buffer, which only this call accesses.
            unsafe {
                let first = first.add(position);
                if stride == 1 {
                    let run = std::slice::from_raw_parts_mut(first.cast::<MaybeUninit<T>>(), count);
                    T::narrow_run(values, run);
                } else {
                    for (i, &value) in values.iter().enumerate() {
                        first.add(i * stride).write(T::narrow(value));
                    }
                }
            }
        });
    }
}

impl<T: Stored> Input<T> {
    /// Operand `operand` of a walk, with its first element, in a command that writes from `output`
    /// on. An input that *is* the output is never read in place, since such a block must not change.
    pub fn new<D>(first: *const T, operand: usize, output: *const D) -> Self {
        let in_place = first.cast::<u8>() != output.cast::<u8>();
        Input { first: Shared::new(first.cast_mut()), operand, in_place }
    }

    /// The same operand with all elements moved by `count` elements.
    ///
    /// # Safety
    ///
    /// The new first element lies inside the buffer.
    pub unsafe fn moved(self, count: usize) -> Self {
        // SAFETY: passed on.
        let first = Shared::new(unsafe { self.first.get().add(count) });
        Input { first, ..self }
    }

    /// The first element.
    ///
    /// # Safety
    ///
    /// There is one, initialized, and nobody writes it.
    pub unsafe fn first(&self) -> T::Compute {
        // SAFETY: passed on.
        unsafe { self.first.get().read() }.widen()
    }

    /// Asks for elements that will be read soon, `count` elements from the first, of which there need
    /// be none.
    #[inline(always)]
    pub fn prefetch(&self, count: usize, len: usize) {
        streaming::prefetch(self.first.get().wrapping_add(count), len);
    }

    /// Widens `to.len()` elements that lie one after another from `count` elements after the first.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer and initialized, and nobody writes them.
    #[inline(always)]
    pub unsafe fn widen(&self, count: usize, to: &mut [MaybeUninit<T::Compute>]) {
        // SAFETY: passed on.
        let from = unsafe { std::slice::from_raw_parts(self.first.get().add(count), to.len()) };
        T::widen_run(from, to);
    }

    /// The elements `start .. start + len`, in the type computed in.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer and initialized, and nobody writes them during the life of
    /// the result, other than the caller if this input was created as being the output.
    #[inline(always)]
    pub unsafe fn read<'a, const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: &'a mut Scratch<T::Compute>,
    ) -> &'a [T::Compute] {
        // SAFETY: passed on.
        unsafe { self.read_through(walk, start, len, scratch.first(len)) }
    }

    /// As [`read`](Self::read), with scratch that has room for just these elements.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read).
    #[inline(always)]
    pub unsafe fn read_through<'a, const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: &'a mut [MaybeUninit<T::Compute>],
    ) -> &'a [T::Compute] {
        let first = self.first.get().cast_const();
        let stride = walk.inner_stride(self.operand);
        if T::DIRECT && self.in_place && stride == 1 && start % walk.inner() + len <= walk.inner() {
            // SAFETY: the elements lie one after another inside the buffer, are of the type computed
            // in, and are not written as long as the slice lives.
            return unsafe {
                let first = first.add(walk.position(self.operand, start));
                std::slice::from_raw_parts(first.cast::<T::Compute>(), len)
            };
        }
        let block = scratch;
        walk.runs(self.operand, start, len, |position, before, count| {
            let values = &mut block[before..before + count];
            // SAFETY: the walk gives positions inside the buffer.
            unsafe {
                let first = first.add(position);
                match stride {
                    1 => T::widen_run(std::slice::from_raw_parts(first, count), values),
                    0 => {
                        values.fill(MaybeUninit::new(first.read().widen()));
                    }
                    _ => {
                        for (i, value) in values.iter_mut().enumerate() {
                            value.write(first.add(i * stride).read().widen());
                        }
                    }
                }
            }
        });
        // SAFETY: the runs cover the whole block, and each was written above.
        unsafe { block.assume_init_ref() }
    }
}

/// Shares the blocks of an elementwise command between threads: `body(start, len)`.
pub(crate) fn each_block<const N: usize>(
    walk: &Walk<N>,
    parallel: &dyn Parallel,
    body: impl Fn(usize, usize) + Sync,
) {
    // Whatever the type, so that it need not be known here; small blocks and a fence cost little.
    let large = streaming::is_large(walk.elements().saturating_mul(size_of::<u64>()));
    let block = if large { streaming::BURST / size_of::<f32>() } else { BLOCK };
    share(parallel, walk.elements(), 1, |range| {
        walk.blocks(range, block, &body);
        if large {
            streaming::fence();
        }
    });
}

//! Operands of a walk as bytes: what depends on the layout and on the size of an element, and not on its type.
//!
//! All of it is compiled once. A block of a few hundred elements is moved at a time, so what it costs to find out the
//! size at run time does not show.

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer};

use super::block::first_byte;
use super::number::with_size;
use super::parallel::SendPtr;
use super::streaming;
use super::walk::{OperandWalk, Walk};

/// An operand of a walk that is read.
#[derive(Clone, Copy)]
pub(crate) struct UntypedInput {
    elements: Elements,
    /// Whether blocks may be read in place, from the buffer itself.
    in_place: bool,
}

/// An operand of a walk that is written.
#[derive(Clone, Copy)]
pub(crate) struct UntypedOutput {
    elements: Elements,
    /// Whether dense runs are stored with streaming stores.
    streaming: bool,
}

/// Where elements lie.
#[derive(Clone, Copy)]
struct Elements {
    first: SendPtr<u8>,
    /// Bytes of each.
    size: usize,
    /// Which operand of the walk it is.
    place: usize,
}

impl Elements {
    /// # Safety
    ///
    /// As for [`first_byte`].
    unsafe fn new(operand: &Operand<RawBuffer>, place: usize) -> Self {
        let size = operand.layout.dtype().size();
        // SAFETY: passed on.
        Elements { first: SendPtr::new(unsafe { first_byte(operand) }), size, place }
    }

    /// The address of an element, counted from the first. It need not be one of the operand.
    #[inline(always)]
    fn at(&self, count: usize) -> *mut u8 {
        self.first.get().wrapping_add(count.wrapping_mul(self.size))
    }
}

impl UntypedInput {
    /// Operand `place` of a walk, in a command that writes `output`. An input that *is* the output is never
    /// read in place, since such a block must not change.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`].
    pub unsafe fn new(
        operand: &Operand<RawBuffer>,
        place: usize,
        output: &Operand<RawBuffer>,
    ) -> Self {
        // SAFETY: passed on.
        let (elements, output) = unsafe { (Elements::new(operand, place), first_byte(output)) };
        UntypedInput { elements, in_place: elements.first.get() != output }
    }

    /// Operand `place` of a walk, in a command whose outputs all lie elsewhere.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`].
    pub unsafe fn apart(operand: &Operand<RawBuffer>, place: usize) -> Self {
        // SAFETY: passed on.
        UntypedInput { elements: unsafe { Elements::new(operand, place) }, in_place: true }
    }

    /// The same operand with all elements moved by `count` elements.
    #[inline(always)]
    pub fn moved(self, count: usize) -> Self {
        let first = SendPtr::new(self.elements.at(count));
        UntypedInput { elements: Elements { first, ..self.elements }, ..self }
    }

    /// The address of an element, counted from the first. It need not be one of the operand.
    #[inline(always)]
    pub fn at(&self, count: usize) -> *const u8 {
        self.elements.at(count)
    }

    /// Asks for elements that will be read soon, `count` elements from the first, of which there need
    /// be none.
    #[inline(always)]
    pub fn prefetch(&self, count: usize, len: usize) {
        streaming::prefetch(self.at(count), len * self.elements.size);
    }

    /// Whether blocks may be read in place, from the buffer itself.
    #[inline(always)]
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Where the elements `start .. start + len` lie one after another, if they do.
    #[inline(always)]
    pub fn dense<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
    ) -> Option<*const u8> {
        let walk = walk.of(self.elements.place);
        walk.is_dense(start, len).then(|| self.at(walk.position(start)))
    }

    /// Where the elements `start .. start + len` lie one after another: in the buffer, or in `scratch`, to which
    /// they are copied.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer and initialized, and nobody writes them as long as the result is read,
    /// other than the caller if this input was created as being the output. There is room for them.
    #[inline]
    pub unsafe fn read<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: *mut u8,
    ) -> *const u8 {
        if self.in_place
            && let Some(first) = self.dense(walk, start, len)
        {
            return first;
        }
        // SAFETY: passed on.
        unsafe { self.gather(walk, start, len, scratch) };
        scratch
    }

    /// Copies the elements `start .. start + len` to dense memory.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read).
    pub unsafe fn gather<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        to: *mut u8,
    ) {
        let Elements { first, size, place } = self.elements;
        // SAFETY: passed on.
        with_size!(size, Bits => unsafe {
            gather(first.get().cast::<Bits>(), walk.of(place), start, len, to.cast());
        });
    }
}

impl UntypedOutput {
    /// Operand `place` of a walk.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`].
    pub unsafe fn new(operand: &Operand<RawBuffer>, place: usize) -> Self {
        // SAFETY: passed on.
        UntypedOutput { elements: unsafe { Elements::new(operand, place) }, streaming: false }
    }

    /// The same operand, stored with streaming stores if so many elements are too large for the caches. A
    /// chunk then ends with [`end_chunk`](Self::end_chunk), which [`each_block`](super::block::each_block) sees to.
    pub fn of_elements(self, count: usize) -> Self {
        UntypedOutput { streaming: streaming::is_large(count.saturating_mul(self.size())), ..self }
    }

    /// The same operand with all elements moved by `count` elements.
    #[inline(always)]
    pub fn moved(self, count: usize) -> Self {
        let first = SendPtr::new(self.elements.at(count));
        UntypedOutput { elements: Elements { first, ..self.elements }, ..self }
    }

    /// Bytes of an element.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.elements.size
    }

    /// The address of an element, counted from the first. It need not be one of the operand.
    #[inline(always)]
    pub fn at(&self, count: usize) -> *mut u8 {
        self.elements.at(count)
    }

    /// Whether the operand is stored with streaming stores, and so its inputs likely come from memory.
    #[inline(always)]
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// Makes what this thread has stored visible to others.
    pub fn end_chunk(&self) {
        if self.streaming {
            streaming::fence();
        }
    }

    /// Where the elements `start .. start + len` lie one after another, if they do.
    #[inline(always)]
    pub fn dense<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
    ) -> Option<*mut u8> {
        let walk = walk.of(self.elements.place);
        walk.is_dense(start, len).then(|| self.at(walk.position(start)))
    }

    /// Makes one block of results with `compute`, which gets the place for it, and stores it in the elements
    /// `start .. start + len`.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer, nobody else touches them during the call, `compute` initializes all
    /// bytes of the block, and `scratch` has room for it.
    #[inline(always)]
    pub unsafe fn write<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        scratch: *mut u8,
        compute: impl FnOnce(*mut u8),
    ) {
        let in_place = self.dense(walk, start, len).filter(|_| !self.streaming);
        compute(in_place.unwrap_or(scratch));
        if in_place.is_none() {
            // SAFETY: passed on.
            unsafe { self.store(walk, start, len, scratch) };
        }
    }

    /// Stores a block in the elements `start .. start + len`.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer, nobody else touches them during the call, and the block is initialized.
    pub unsafe fn store<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        len: usize,
        block: *const u8,
    ) {
        let Elements { first, size, place } = self.elements;
        let walk = walk.of(place);
        // SAFETY: passed on.
        unsafe {
            if walk.is_dense(start, len) {
                return self.store_dense(walk.position(start), len, block);
            }
            with_size!(size, Bits => {
                scatter(first.get().cast::<Bits>(), walk, start, len, block.cast());
            });
        }
    }

    /// Stores a dense block, `count` elements from the first.
    ///
    /// # Safety
    ///
    /// As for [`store`](Self::store).
    pub unsafe fn store_dense(&self, count: usize, len: usize, block: *const u8) {
        let (to, bytes) = (self.at(count), len * self.elements.size);
        // SAFETY: passed on.
        unsafe {
            if self.streaming {
                streaming::store(std::slice::from_raw_parts(block, bytes), to);
            } else {
                to.copy_from_nonoverlapping(block, bytes);
            }
        }
    }
}

/// # Safety
///
/// As for [`UntypedInput::gather`].
unsafe fn gather<T: Copy>(
    first: *const T,
    walk: OperandWalk<'_>,
    start: usize,
    len: usize,
    to: *mut T,
) {
    let stride = walk.inner_stride();
    walk.runs(start, len, |position, before, count| {
        // SAFETY: the walk gives positions inside the buffer, and there is room for all elements.
        unsafe {
            let (from, to) = (first.add(position), to.add(before));
            match stride {
                1 => to.copy_from_nonoverlapping(from, count),
                0 => {
                    let to = std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<T>>(), count);
                    to.fill(MaybeUninit::new(from.read()));
                }
                _ => (0..count).for_each(|i| to.add(i).write(from.add(i * stride).read())),
            }
        }
    });
}

/// # Safety
///
/// As for [`UntypedOutput::store`].
unsafe fn scatter<T: Copy>(
    first: *mut T,
    walk: OperandWalk<'_>,
    start: usize,
    len: usize,
    from: *const T,
) {
    let stride = walk.inner_stride();
    walk.runs(start, len, |position, before, count| {
        // SAFETY: the walk gives positions inside the buffer, which only this call accesses.
        unsafe {
            let (to, from) = (first.add(position), from.add(before));
            if stride == 1 {
                to.copy_from_nonoverlapping(from, count);
            } else {
                (0..count).for_each(|i| to.add(i * stride).write(from.add(i).read()));
            }
        }
    });
}

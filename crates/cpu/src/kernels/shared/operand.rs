//! Operands of a walk in the type that is computed in.
//!
//! A kernel works on blocks of at most [`BLOCK`] elements, in the type it computes in, one after another in memory.
//! Where the elements of a buffer already lie so, the block *is* that part of the buffer; else they are gathered
//! into memory on the stack, and results are scattered from there. So one loop per operation serves every layout,
//! and no loop has to be compiled for operands that might overlap.
//!
//! The type in memory is known at run time only, and blocks are converted through a pointer to a function. So a
//! kernel for `f32` serves `f16` and `bf16` too, and one for `i64` all integers with a sign.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer};

use super::block::{BLOCK, BlockBuffer};
use super::conversion::Conversion;
use super::streaming;
use super::untyped::{UntypedInput, UntypedOutput};
use super::walk::Walk;

/// A type that kernels compute in.
pub(crate) trait Computed: Copy + Send + Sync + 'static {
    /// The type in memory that is the same.
    const DTYPE: DType;
}

macro_rules! computed {
    ($($type:ty: $dtype:ident),*) => {
        $(
            impl Computed for $type {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

computed!(f32: F32, f64: F64);
computed!(i64: I64, u64: U64, i32: I32, u32: U32, i16: I16, u16: U16, i8: I8, u8: U8);

/// The function that converts between types, unless they are the same in memory.
fn conversion(from: DType, to: DType) -> Option<Conversion> {
    // A truth value is the number 0 or 1.
    let is_whole = |dtype: DType| dtype.is_int() || dtype == DType::Bool;
    let same_bits = is_whole(from) && is_whole(to) && from.size() == to.size();
    (from != to && !same_bits).then(|| Conversion::new(from, to))
}

/// An operand that is read.
#[derive(Clone, Copy)]
pub(crate) struct Input<C> {
    bytes: UntypedInput,
    /// Makes the type that is computed in, if that is another.
    widen: Option<Conversion>,
    computed: PhantomData<C>,
}

/// An operand that is written.
#[derive(Clone, Copy)]
pub(crate) struct Output<C> {
    bytes: UntypedOutput,
    /// Makes the type in memory, if that is another.
    narrow: Option<Conversion>,
    computed: PhantomData<C>,
}

impl<C: Computed> Input<C> {
    /// Operand `place` of a walk, in a command that writes `output`. An input that *is* the output is never
    /// read in place, since such a block must not change.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`](super::block::first_byte).
    pub unsafe fn new(
        operand: &Operand<RawBuffer>,
        place: usize,
        output: &Operand<RawBuffer>,
    ) -> Self {
        // SAFETY: passed on.
        let bytes = unsafe { UntypedInput::new(operand, place, output) };
        Self::of(bytes, operand)
    }

    /// Operand `place` of a walk, in a command whose outputs all lie elsewhere.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`](super::block::first_byte).
    pub unsafe fn apart(operand: &Operand<RawBuffer>, place: usize) -> Self {
        // SAFETY: passed on.
        Self::of(unsafe { UntypedInput::apart(operand, place) }, operand)
    }

    fn of(bytes: UntypedInput, operand: &Operand<RawBuffer>) -> Self {
        let widen = conversion(operand.layout.dtype(), C::DTYPE);
        Input { bytes, widen, computed: PhantomData }
    }

    /// The same operand with all elements moved by `count` elements.
    ///
    /// # Safety
    ///
    /// The new first element lies inside the buffer.
    #[inline(always)]
    pub unsafe fn moved(self, count: usize) -> Self {
        Input { bytes: self.bytes.moved(count), ..self }
    }

    /// The element `count` elements from the first.
    ///
    /// # Safety
    ///
    /// There is one, initialized, and nobody writes it.
    #[inline]
    pub unsafe fn get(&self, count: usize) -> C {
        let mut value = MaybeUninit::uninit();
        // SAFETY: passed on.
        unsafe { self.dense(count, std::slice::from_mut(&mut value))[0] }
    }

    /// Asks for elements that will be read soon, `count` elements from the first, of which there need
    /// be none.
    #[inline(always)]
    pub fn prefetch(&self, count: usize, len: usize) {
        self.bytes.prefetch(count, len);
    }

    /// As many elements as `scratch` has room for, which lie one after another from `count` elements after the first.
    ///
    /// # Safety
    ///
    /// The elements are inside the buffer and initialized, and nobody writes them during the life of the result.
    #[inline(always)]
    pub unsafe fn dense<'a>(&self, count: usize, scratch: &'a mut [MaybeUninit<C>]) -> &'a [C] {
        let from = self.bytes.at(count);
        // SAFETY: passed on; the conversion fills the block.
        unsafe {
            match self.widen {
                None => std::slice::from_raw_parts(from.cast(), scratch.len()),
                Some(widen) => {
                    widen.run(from, scratch.as_mut_ptr().cast(), scratch.len());
                    scratch.assume_init_ref()
                }
            }
        }
    }

    /// The elements `start .. start + len`.
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
        scratch: &'a mut BlockBuffer<C>,
    ) -> &'a [C] {
        let scratch = scratch.first(len);
        if self.widen.is_none()
            && self.bytes.is_in_place()
            && let Some(first) = self.bytes.dense(walk, start, len)
        {
            // SAFETY: passed on; the type in memory is the one that is computed in.
            return unsafe { std::slice::from_raw_parts(first.cast(), len) };
        }
        // SAFETY: passed on; the block is filled.
        unsafe {
            self.fetch(walk, start, scratch);
            scratch.assume_init_ref()
        }
    }

    /// Copies elements from `start` on to a block.
    #[inline(never)]
    unsafe fn fetch<const N: usize>(
        &self,
        walk: &Walk<N>,
        start: usize,
        block: &mut [MaybeUninit<C>],
    ) {
        let (to, len) = (block.as_mut_ptr().cast::<u8>(), block.len());
        // SAFETY: passed on; what is gathered is no larger than a block of the largest type.
        unsafe {
            let Some(widen) = self.widen else { return self.bytes.gather(walk, start, len, to) };
            if let Some(from) = self.bytes.dense(walk, start, len) {
                return widen.run(from, to, len);
            }
            let mut gathered = BlockBuffer::<u64>::new();
            let gathered = gathered.as_mut_ptr();
            self.bytes.gather(walk, start, len, gathered);
            widen.run(gathered, to, len);
        }
    }
}

impl<C: Computed> Output<C> {
    /// Operand `place` of a walk.
    ///
    /// # Safety
    ///
    /// As for [`first_byte`](super::block::first_byte).
    pub unsafe fn new(operand: &Operand<RawBuffer>, place: usize) -> Self {
        // SAFETY: passed on.
        let bytes = unsafe { UntypedOutput::new(operand, place) };
        let narrow = conversion(C::DTYPE, operand.layout.dtype());
        Output { bytes, narrow, computed: PhantomData }
    }

    /// The same operand, stored with streaming stores if so many elements are too large for the caches. A
    /// chunk then ends with [`end_chunk`](Self::end_chunk), which [`each_block`](super::block::each_block) sees to.
    pub fn of_elements(self, count: usize) -> Self {
        Output { bytes: self.bytes.of_elements(count), ..self }
    }

    /// Whether the operand is stored with streaming stores, and so its inputs likely come from memory.
    #[inline(always)]
    pub fn is_streaming(&self) -> bool {
        self.bytes.is_streaming()
    }

    /// Elements to compute before they are stored.
    #[inline(always)]
    pub fn block(&self) -> usize {
        if self.is_streaming() { streaming::BURST / self.bytes.size() } else { BLOCK }
    }

    /// Makes what this thread has stored visible to others.
    pub fn end_chunk(&self) {
        self.bytes.end_chunk();
    }

    /// The same operand with all elements moved by `count` elements.
    ///
    /// # Safety
    ///
    /// The new first element lies inside the buffer.
    #[inline(always)]
    pub unsafe fn moved(self, count: usize) -> Self {
        Output { bytes: self.bytes.moved(count), ..self }
    }

    /// Stores one element, `count` elements from the first.
    ///
    /// # Safety
    ///
    /// The element lies inside the buffer and nobody else touches it.
    #[inline]
    pub unsafe fn set(&self, count: usize, value: C) {
        let to = self.bytes.at(count);
        // SAFETY: passed on.
        unsafe {
            match self.narrow {
                None => to.cast::<C>().write(value),
                Some(narrow) => narrow.run((&raw const value).cast(), to, 1),
            }
        }
    }

    /// Stores dense results, `count` elements from the first.
    ///
    /// # Safety
    ///
    /// The elements lie inside the buffer and nobody else touches them.
    #[inline]
    pub unsafe fn store_dense(&self, count: usize, from: &[C]) {
        // SAFETY: passed on.
        unsafe {
            match self.narrow {
                None => self.bytes.store_dense(count, from.len(), from.as_ptr().cast()),
                Some(narrow) => narrow.run(from.as_ptr().cast(), self.bytes.at(count), from.len()),
            }
        }
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
        scratch: &mut BlockBuffer<C>,
        compute: impl FnOnce(&mut [MaybeUninit<C>]),
    ) {
        let dense = self.bytes.dense(walk, start, len);
        let in_place = dense.filter(|_| self.narrow.is_none() && !self.is_streaming());
        let block = match in_place {
            // SAFETY: the elements lie one after another inside the buffer, are of the type computed in, and are
            // not accessed otherwise during the call.
            Some(first) => unsafe { std::slice::from_raw_parts_mut(first.cast(), len) },
            None => scratch.first(len),
        };
        // One call, so that the loop is compiled once.
        compute(block);
        if in_place.is_none() {
            // SAFETY: passed on; `compute` initialized the block.
            unsafe { self.store(walk, start, scratch.first(len).assume_init_ref()) };
        }
    }

    /// Stores a block in elements from `start` on.
    #[inline(never)]
    unsafe fn store<const N: usize>(&self, walk: &Walk<N>, start: usize, block: &[C]) {
        let (from, len) = (block.as_ptr().cast::<u8>(), block.len());
        // SAFETY: passed on; what is made of a block is no larger than one of the largest type.
        unsafe {
            let Some(narrow) = self.narrow else { return self.bytes.store(walk, start, len, from) };
            if let Some(to) = self.bytes.dense(walk, start, len) {
                return narrow.run(from, to, len);
            }
            let mut made = BlockBuffer::<u64>::new();
            let made = made.as_mut_ptr();
            narrow.run(from, made, len);
            self.bytes.store(walk, start, len, made);
        }
    }
}

#[cfg(test)]
mod tests;

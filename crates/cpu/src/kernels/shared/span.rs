//! What a function of dense blocks is applied to: whole operands of a Command, or one tile of a chain.
//!
//! Which function serves which element type is said once per family of operations, over a [`Span`].

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer};

use super::block::{BLOCK, Input, Output, Scratch, base, blocks, each_block};
use super::number::Stored;
use super::parallel::Parallel;
use super::walk::Walk;

/// Elements of `N` inputs of one type, and of an output.
pub(crate) trait Span<const N: usize> {
    /// Applies a function of dense blocks to all elements.
    ///
    /// # Safety
    ///
    /// The inputs are of type `S` and the output is of type `D`; the function fills its output. What else the
    /// maker of the span promised still holds.
    unsafe fn apply<S: Stored, D: Stored>(
        self,
        function: impl Fn([&[S::Compute]; N], &mut [MaybeUninit<D::Compute>]) + Sync,
    );
}

/// The operands of a Command. Whoever makes one promises what [`execute`](crate::kernels::execute) asks for.
pub(crate) struct Whole<'a, const N: usize> {
    pub dst: &'a Operand<RawBuffer>,
    pub inputs: [&'a Operand<RawBuffer>; N],
    pub parallel: &'a dyn Parallel,
}

impl Span<1> for Whole<'_, 1> {
    unsafe fn apply<S: Stored, D: Stored>(
        self,
        function: impl Fn([&[S::Compute]; 1], &mut [MaybeUninit<D::Compute>]) + Sync,
    ) {
        let Whole { dst, inputs: [src], parallel } = self;
        let walk = Walk::in_any_order([&dst.layout, &src.layout]);
        // SAFETY: passed on.
        let (to, from) = unsafe { (base::<D>(dst), base::<S>(src)) };
        let (output, input) =
            (Output::new(to, 0).of_elements(walk.elements()), Input::new(from, 1, to));
        each_block(&walk, parallel, |start, len| {
            let (mut values, mut results) = (Scratch::new(), Scratch::new());
            // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
            // before the same elements are written.
            unsafe {
                let values = input.read(&walk, start, len, &mut values);
                output.write(&walk, start, len, &mut results, |block| {
                    function([values], block);
                });
            }
        });
    }
}

impl Span<2> for Whole<'_, 2> {
    unsafe fn apply<S: Stored, D: Stored>(
        self,
        function: impl Fn([&[S::Compute]; 2], &mut [MaybeUninit<D::Compute>]) + Sync,
    ) {
        let Whole { dst, inputs: [a, b], parallel } = self;
        let walk = Walk::in_any_order([&dst.layout, &a.layout, &b.layout]);
        // SAFETY: passed on.
        let (to, a, b) = unsafe { (base::<D>(dst), base::<S>(a), base::<S>(b)) };
        let output = Output::new(to, 0).of_elements(walk.elements());
        let (a, b) = (Input::new(a, 1, to), Input::new(b, 2, to));
        each_block(&walk, parallel, |start, len| {
            let (mut left, mut right, mut results) =
                (Scratch::new(), Scratch::new(), Scratch::new());
            // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
            // before the same elements are written.
            unsafe {
                let left = a.read(&walk, start, len, &mut left);
                let right = b.read(&walk, start, len, &mut right);
                output.write(&walk, start, len, &mut results, |block| {
                    function([left, right], block);
                });
            }
        });
    }
}

/// Dense elements as they are stored. Whoever makes one promises that all pointers are valid for so many
/// elements, aligned, that inputs are initialized, and that the output overlaps none of them.
#[derive(Clone, Copy)]
pub(crate) struct Tile<const N: usize> {
    pub to: *mut u8,
    pub from: [*const u8; N],
    pub count: usize,
}

impl<const N: usize> Span<N> for Tile<N> {
    #[inline(always)]
    unsafe fn apply<S: Stored, D: Stored>(
        self,
        function: impl Fn([&[S::Compute]; N], &mut [MaybeUninit<D::Compute>]) + Sync,
    ) {
        let Tile { to, from, count } = self;
        // SAFETY: passed on; a type that needs no conversion is the same in memory.
        unsafe {
            if S::DIRECT && D::DIRECT {
                let from =
                    from.map(|from| std::slice::from_raw_parts(from.cast::<S::Compute>(), count));
                return function(from, std::slice::from_raw_parts_mut(to.cast(), count));
            }
            let mut wide: [Scratch<S::Compute>; N] = std::array::from_fn(|_| Scratch::new());
            let mut results = Scratch::<D::Compute>::new();
            for (first, len) in blocks(count, BLOCK) {
                for (from, wide) in from.iter().zip(&mut wide) {
                    let from = std::slice::from_raw_parts(from.cast::<S>().add(first), len);
                    S::widen_run(from, wide.first(len));
                }
                let mut values = wide.iter_mut();
                let values = std::array::from_fn(|_| {
                    let values = values.next().expect("as many as inputs").first(len);
                    values.assume_init_ref()
                });
                function(values, results.first(len));
                let to = to.cast::<MaybeUninit<D>>().add(first);
                let to = std::slice::from_raw_parts_mut(to, len);
                D::narrow_run(results.first(len).assume_init_ref(), to);
            }
        }
    }
}

//! Chains: elementwise steps on tiles that stay in the first-level cache.
//!
//! A tile of every input is lent or fetched, all steps are run on it, and the last one writes to the output.
//! Results in between lie in registers: a few KB each, as they would be stored, so that a chain has the bits of
//! its steps one by one.

mod plan;
mod step;

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use millstream_core::{Chain, MAX_CHAIN_INPUTS, Operand, RawBuffer};

use super::block::{Input, Output, base};
use super::fault::{Result, try_share};
use super::number::with_bits;
use super::parallel::Parallel;
use super::past_cache;
use super::walk::Walk;
use super::workspace::with_areas;
use plan::{Place, Plan};

/// The output and all inputs; those that a chain does not have are the output again.
const OPERANDS: usize = 1 + MAX_CHAIN_INPUTS;

/// Executes a chain.
///
/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn chain(
    chain: &Chain,
    dst: &Operand<RawBuffer>,
    inputs: &[Operand<RawBuffer>],
    parallel: &dyn Parallel,
) -> Result {
    let mut layouts = [&dst.layout; OPERANDS];
    layouts[1..].iter_mut().zip(inputs).for_each(|(to, input)| *to = &input.layout);
    let walk = Walk::in_any_order(layouts);
    let plan = Plan::new(chain);
    // Where a step costs more than a few, other threads can help with less.
    let work = (chain.steps().len() / 4).max(1);
    let bytes = [plan.registers * plan.tile_bytes, (1 + inputs.len()) * plan.tile_bytes];
    try_share(parallel, walk.elements(), work, |range| {
        with_areas(bytes, |[registers, fetched]: [&mut [u8]; 2]| {
            let areas = [registers.as_mut_ptr(), fetched.as_mut_ptr()];
            let mut run = Run::new(chain, &plan, &walk, dst, inputs, areas);
            walk.blocks(range, plan.tile, |start, len| {
                // SAFETY: passed on; tiles are disjoint parts of the output.
                unsafe { run.tile(start, len) };
            });
            if run.past_cache {
                past_cache::fence();
            }
        })
    })
}

/// What one thread needs for its tiles.
struct Run<'a> {
    chain: &'a Chain,
    plan: &'a Plan,
    walk: &'a Walk<OPERANDS>,
    dst: &'a Operand<RawBuffer>,
    inputs: &'a [Operand<RawBuffer>],
    registers: *mut u8,
    /// A tile of the output, and one of each input that cannot be lent.
    fetched: *mut u8,
    /// Which element each of those repeats, and how often, where it does.
    repeated: [Option<(usize, usize)>; MAX_CHAIN_INPUTS],
    /// Where the tile of each input lies.
    tiles: [*const u8; MAX_CHAIN_INPUTS],
    past_cache: bool,
}

impl<'a> Run<'a> {
    fn new(
        chain: &'a Chain,
        plan: &'a Plan,
        walk: &'a Walk<OPERANDS>,
        dst: &'a Operand<RawBuffer>,
        inputs: &'a [Operand<RawBuffer>],
        [registers, fetched]: [*mut u8; 2],
    ) -> Self {
        let bytes = walk.elements().saturating_mul(dst.layout.dtype().size());
        Run {
            chain,
            plan,
            walk,
            dst,
            inputs,
            registers,
            fetched,
            repeated: [None; MAX_CHAIN_INPUTS],
            tiles: [std::ptr::null(); MAX_CHAIN_INPUTS],
            past_cache: past_cache::is_large(bytes),
        }
    }

    /// Runs all steps on the elements `start .. start + len`.
    ///
    /// # Safety
    ///
    /// As for [`execute`](super::execute); nobody else writes these elements of the output.
    #[inline]
    unsafe fn tile(&mut self, start: usize, len: usize) {
        for input in 0..self.inputs.len() {
            // SAFETY: passed on.
            self.tiles[input] = unsafe { self.fetch(input, start, len) };
        }
        let last = self.chain.steps().len() - 1;
        for place in 0..last {
            let to = self.register(self.plan.targets[place]);
            // SAFETY: a register has room for a tile, and is none that the step reads.
            unsafe { self.step(place, to, len) };
            self.prefetch(place, len);
        }
        self.prefetch(last, len);
        let Run { walk, dst, .. } = *self;
        let output = self.fetched;
        with_bits!(dst.layout.dtype(), Bits => {
            // SAFETY: passed on; bits of the size of the elements stand for them. A tile is lent from memory
            // other than the output, and the step fills the block.
            unsafe {
                let scratch =
                    std::slice::from_raw_parts_mut(output.cast::<MaybeUninit<Bits>>(), len);
                let target = Output::<Bits>::new(base(dst), 0).of_elements(walk.elements());
                target.write_through(walk, start, len, scratch, |block| {
                    self.step(last, block.as_mut_ptr().cast(), len);
                });
            }
        });
    }

    /// Where the elements `start .. start + len` of an input lie densely.
    ///
    /// # Safety
    ///
    /// As for [`tile`](Self::tile).
    #[inline]
    unsafe fn fetch(&mut self, input: usize, start: usize, len: usize) -> *const u8 {
        let (walk, operand) = (self.walk, &self.inputs[input]);
        let place = 1 + input;
        let own = self.fetched.wrapping_add(place * self.plan.tile_bytes);
        let repeats = walk.inner_stride(place) == 0 && start % walk.inner() + len <= walk.inner();
        if repeats {
            let position = walk.position(place, start);
            if self.repeated[input].is_some_and(|(at, count)| at == position && count >= len) {
                return own;
            }
            self.repeated[input] = Some((position, len));
        } else {
            self.repeated[input] = None;
        }
        with_bits!(operand.layout.dtype(), Bits => {
            // SAFETY: passed on; bits of the size of the elements stand for them, and there is room for a
            // tile of them.
            unsafe {
                let scratch = std::slice::from_raw_parts_mut(own.cast::<MaybeUninit<Bits>>(), len);
                let first = base::<u8>(self.dst).cast_const();
                let reader = Input::<Bits>::new(base(operand), place, first);
                reader.read_through(walk, start, len, scratch).as_ptr().cast()
            }
        })
    }

    #[inline]
    fn register(&self, register: u8) -> *mut u8 {
        self.registers.wrapping_add(usize::from(register) * self.plan.tile_bytes)
    }

    /// Runs one step.
    ///
    /// # Safety
    ///
    /// The tiles of the inputs and the results that the step reads are there; `to` has room for its result
    /// and overlaps none of them.
    #[inline]
    unsafe fn step(&self, place: usize, to: *mut u8, len: usize) {
        let from = self.plan.sources[place].map(|source| match source {
            Place::Input(input) => self.tiles[usize::from(input)],
            Place::Register(register) => self.register(register).cast_const(),
        });
        // SAFETY: passed on.
        unsafe { step::run(self.chain, place, from, to, len) }
    }

    /// Asks for a part of what the next tile reads, so that memory is busy while this one is computed.
    #[inline]
    fn prefetch(&self, place: usize, len: usize) {
        let steps = self.chain.steps().len();
        for (input, operand) in self.inputs.iter().enumerate() {
            if self.walk.inner_stride(1 + input) == 1 {
                let bytes = len * operand.layout.dtype().size();
                let (first, end) = (bytes * place / steps, bytes * (place + 1) / steps);
                let next = self.tiles[input].wrapping_add(bytes + first);
                past_cache::prefetch(next, end - first);
            }
        }
    }
}

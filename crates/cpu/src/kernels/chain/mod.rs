//! Chains: elementwise steps on tiles that stay in the first-level cache.
//!
//! A tile of every input is read in place or fetched, all steps are run on it, and the last one writes to the output.
//! Results in between lie in registers: a few KB each, as they would be stored, so that a chain has the bits of
//! its steps one by one. Where all steps are cheap functions of `f32`, results lie in the CPU's own registers
//! instead (`strip`).

mod registers;
mod step;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_variables, reason = "strips are for x86-64 alone")
)]
mod strip;

#[cfg(test)]
mod tests;

use millstream_core::{Chain, MAX_CHAIN_INPUTS, Operand, RawBuffer};

use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_scratch;
use crate::kernels::shared::untyped::{UntypedInput, UntypedOutput};
use crate::kernels::shared::walk::Walk;
use registers::{Location, RegisterAllocation};

/// The output and all inputs; those that a chain does not have are the output again.
const OPERANDS: usize = 1 + MAX_CHAIN_INPUTS;

/// Executes a chain.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn chain(
    chain: &Chain,
    dst: &Operand<RawBuffer>,
    inputs: &[Operand<RawBuffer>],
    parallel: &dyn Parallel,
) -> Result {
    let mut layouts = [&dst.layout; OPERANDS];
    layouts[1..].iter_mut().zip(inputs).for_each(|(to, input)| *to = &input.layout);
    let walk = Walk::in_any_order(layouts);
    let allocation = RegisterAllocation::new(chain);
    // Where a step costs more than a few, other threads can help with less.
    let work = (chain.steps().len() / 4).max(1);
    let program = strip::length()
        .filter(|&strip| walk.inner() >= strip && walk.inner_stride(0) == 1)
        .and_then(|_| strip::Program::new(chain));
    let slots = program.as_ref().map_or(0, |program| program.slots * strip::SLOT);
    let bytes = [
        allocation.registers * allocation.tile_bytes,
        (1 + inputs.len()) * allocation.tile_bytes,
        slots * size_of::<f32>(),
    ];
    try_parallel_for(parallel, walk.elements(), work, |range| {
        with_scratch(bytes, |areas: [&mut [u8]; 3]| {
            let areas = areas.map(|area| area.as_mut_ptr());
            let program = program.as_ref();
            // SAFETY: passed on.
            let mut run =
                unsafe { Run::new(chain, &allocation, program, &walk, dst, inputs, areas) };
            walk.blocks(range, allocation.tile, |start, len| {
                // SAFETY: passed on; tiles are disjoint parts of the output.
                unsafe { run.tile(start, len) };
            });
            run.output.end_chunk();
        })
    })
}

/// Where an element of an operand lies, counted from its first.
fn element(operand: &Operand<RawBuffer>, position: usize) -> *const u8 {
    let elements = operand.layout.offset() + position;
    let first = operand.buffer.address as *const u8;
    first.wrapping_add(elements * operand.layout.dtype().size())
}

/// What one thread needs for its tiles.
struct Run<'a> {
    chain: &'a Chain,
    allocation: &'a RegisterAllocation,
    program: Option<&'a strip::Program>,
    walk: &'a Walk<OPERANDS>,
    dst: &'a Operand<RawBuffer>,
    inputs: &'a [Operand<RawBuffer>],
    registers: *mut u8,
    /// A tile of the output, and one of each input that cannot be read in place.
    fetched: *mut u8,
    /// Inputs and slots of the program.
    sources: strip::Sources,
    /// Which element each of those repeats, and how often, where it does.
    repeated: [Option<(usize, usize)>; MAX_CHAIN_INPUTS],
    /// Where the tile of each input lies.
    tiles: [*const u8; MAX_CHAIN_INPUTS],
    output: UntypedOutput,
}

impl<'a> Run<'a> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute).
    unsafe fn new(
        chain: &'a Chain,
        allocation: &'a RegisterAllocation,
        program: Option<&'a strip::Program>,
        walk: &'a Walk<OPERANDS>,
        dst: &'a Operand<RawBuffer>,
        inputs: &'a [Operand<RawBuffer>],
        [registers, fetched, slots]: [*mut u8; 3],
    ) -> Self {
        let none = strip::Source { first: std::ptr::null(), step: 0 };
        let sources = strip::Sources { inputs: [none; MAX_CHAIN_INPUTS], slots: slots.cast() };
        Run {
            chain,
            allocation,
            program,
            walk,
            dst,
            inputs,
            registers,
            fetched,
            sources,
            repeated: [None; MAX_CHAIN_INPUTS],
            tiles: [std::ptr::null(); MAX_CHAIN_INPUTS],
            // SAFETY: passed on.
            output: unsafe { UntypedOutput::new(dst, 0) }.of_elements(walk.elements()),
        }
    }

    /// Runs all steps on the elements `start .. start + len`: in strips as far as they go, the rest step by step.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute); nobody else writes these elements of the output.
    #[inline]
    unsafe fn tile(&mut self, start: usize, len: usize) {
        let strips = match (self.program, strip::length()) {
            (Some(program), Some(strip))
                if start % self.walk.inner() + len <= self.walk.inner() =>
            {
                let strips = len / strip * strip;
                // SAFETY: passed on.
                unsafe { self.strips(program, start, strips) };
                strips
            }
            _ => 0,
        };
        if strips < len {
            // SAFETY: passed on.
            unsafe { self.steps(start + strips, len - strips) };
        }
    }

    /// Runs a program on the elements `start .. start + len`, which lie in one row.
    ///
    /// # Safety
    ///
    /// As for [`tile`](Self::tile).
    #[inline]
    unsafe fn strips(&mut self, program: &strip::Program, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        for (input, operand) in self.inputs.iter().enumerate() {
            let place = 1 + input;
            self.sources.inputs[input] = if self.walk.inner_stride(place) == 0 {
                let position = self.walk.position(place, start);
                strip::Source { first: element(operand, position), step: 0 }
            } else {
                // SAFETY: passed on.
                strip::Source { first: unsafe { self.fetch(input, start, len) }, step: 1 }
            };
        }
        // SAFETY: passed on; a program makes `f32`. A tile is read in place only from memory other than the output.
        unsafe {
            self.output.write(self.walk, start, len, self.fetched, |block| {
                strip::run(program, &self.sources, block.cast(), len);
            });
        }
    }

    /// Runs all steps on the elements `start .. start + len`, one after the other.
    ///
    /// # Safety
    ///
    /// As for [`tile`](Self::tile).
    #[inline]
    unsafe fn steps(&mut self, start: usize, len: usize) {
        for input in 0..self.inputs.len() {
            // SAFETY: passed on.
            self.tiles[input] = unsafe { self.fetch(input, start, len) };
        }
        let last = self.chain.steps().len() - 1;
        for place in 0..last {
            let to = self.register(self.allocation.targets[place]);
            // SAFETY: a register has room for a tile, and is none that the step reads.
            unsafe { self.step(place, to, len) };
        }
        // SAFETY: passed on. A tile is read in place only from memory other than the output, and the step fills the
        // block.
        unsafe {
            self.output.write(self.walk, start, len, self.fetched, |block| {
                self.step(last, block, len);
            });
        }
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
        let own = self.fetched.wrapping_add(place * self.allocation.tile_bytes);
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
        // SAFETY: passed on; there is room for a tile of the elements.
        unsafe { UntypedInput::new(operand, place, self.dst).read(walk, start, len, own) }
    }

    #[inline]
    fn register(&self, register: u8) -> *mut u8 {
        self.registers.wrapping_add(usize::from(register) * self.allocation.tile_bytes)
    }

    /// Runs one step.
    ///
    /// # Safety
    ///
    /// The tiles of the inputs and the results that the step reads are there; `to` has room for its result
    /// and overlaps none of them.
    #[inline]
    unsafe fn step(&self, place: usize, to: *mut u8, len: usize) {
        let from = self.allocation.sources[place].map(|source| match source {
            Location::Input(input) => self.tiles[usize::from(input)],
            Location::Register(register) => self.register(register).cast_const(),
        });
        // SAFETY: passed on.
        unsafe { step::run(self.chain, place, from, to, len) }
    }
}

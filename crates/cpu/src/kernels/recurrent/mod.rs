//! Recurrent layers.
//!
//! A chunk of work is one direction of a few sequences of the batch, from the first step to the last.
//! The products with the input are made for several steps at a time, those with the hidden state step
//! by step; both weights are packed once per chunk. Rows of a product do not depend on each other, so
//! neither do sequences.

mod cell;
mod general;
mod pack;
mod rounded;
mod state;
mod steps;

#[cfg(test)]
mod tests;

use millstream_core::{
    DType, Operand, RawBuffer, RecurrentDirection, RecurrentParams, RecurrentVariant,
};

use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::lengths::Lengths;
use crate::kernels::shared::number::{Float, StoredFloat, with_float};
use crate::kernels::shared::parallel::{Parallel, SendPtr};
use crate::kernels::shared::simd::Isa;
use general::Variant;
use pack::Weight;

/// Sequences of one chunk.
const SEQUENCES: usize = 16;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

/// The operands in the order of the Command.
pub(super) struct Operands<'a> {
    pub sequence: &'a Operand<RawBuffer>,
    pub last_hidden: &'a Operand<RawBuffer>,
    pub last_cell: Option<&'a Operand<RawBuffer>>,
    pub src: &'a Operand<RawBuffer>,
    pub input_weight: &'a Operand<RawBuffer>,
    pub hidden_weight: &'a Operand<RawBuffer>,
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub initial_hidden: Option<&'a Operand<RawBuffer>>,
    pub initial_cell: Option<&'a Operand<RawBuffer>>,
    pub lengths: Option<&'a Operand<RawBuffer>>,
    pub peepholes: Option<&'a Operand<RawBuffer>>,
    /// Of 8-bit weights of the input and of the hidden state.
    pub scales: [Option<&'a Operand<RawBuffer>>; 2],
    pub zeros: [Option<&'a Operand<RawBuffer>>; 2],
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn recurrent(
    params: &RecurrentParams,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    with_float!(operands.src.layout.dtype(), T => {
        // SAFETY: passed on.
        let layer = unsafe { Layer::<T>::new(params, operands) };
        // SAFETY: passed on; the ISA was detected.
        unsafe { layer.run(Isa::detect(), parallel) }
    })
}

/// An operand with strides for up to four axes.
#[derive(Clone, Copy)]
struct Tensor<T> {
    first: SendPtr<T>,
    strides: [usize; 4],
}

impl<T: Copy> Tensor<T> {
    unsafe fn new(operand: &Operand<RawBuffer>) -> Self {
        let strides = operand.layout.strides();
        Tensor {
            // SAFETY: passed on.
            first: SendPtr::new(unsafe { base(operand) }),
            strides: std::array::from_fn(|axis| strides.get(axis).copied().unwrap_or(0)),
        }
    }

    /// Where an element lies. An operand without elements may have any strides, and no element that
    /// could be reached.
    fn at(&self, place: [usize; 3]) -> *mut T {
        let offsets = place.iter().zip(&self.strides).map(|(at, by)| at.wrapping_mul(*by));
        self.first.get().wrapping_add(offsets.fold(0, usize::wrapping_add))
    }
}

struct Layer<'a, T> {
    params: &'a RecurrentParams,
    time: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    sequence: Tensor<T>,
    last_hidden: Tensor<T>,
    last_cell: Option<Tensor<T>>,
    src: Tensor<T>,
    input_weight: Weight<T>,
    hidden_weight: Weight<T>,
    bias: Option<Tensor<T>>,
    initial_hidden: Option<Tensor<T>>,
    initial_cell: Option<Tensor<T>>,
    lengths: Option<Lengths>,
    peepholes: Option<Tensor<T>>,
}

/// One direction of some sequences.
#[derive(Clone, Copy)]
struct SequenceGroup {
    direction: usize,
    reverse: bool,
    /// The first sequence, and how many there are.
    first: usize,
    count: usize,
}

impl SequenceGroup {
    /// The time of a step of a sequence of some length, which is larger than the step.
    fn time_of(self, step: usize, length: usize) -> usize {
        if self.reverse { length - 1 - step } else { step }
    }
}

impl<'a, T: StoredFloat<Compute: PanelElement>> Layer<'a, T> {
    unsafe fn new(params: &'a RecurrentParams, operands: &Operands<'_>) -> Self {
        let shape = operands.src.layout.shape();
        // SAFETY: passed on.
        let tensor = |operand: &Operand<RawBuffer>| unsafe { Tensor::new(operand) };
        // SAFETY: passed on.
        let weight = |operand: &Operand<RawBuffer>, which: usize| unsafe {
            Weight::new(operand, operands.scales[which], operands.zeros[which])
        };
        Layer {
            params,
            time: shape[0],
            batch: shape[1],
            input: shape[2],
            hidden: operands.hidden_weight.layout.shape()[2],
            sequence: tensor(operands.sequence),
            last_hidden: tensor(operands.last_hidden),
            last_cell: operands.last_cell.map(tensor),
            src: tensor(operands.src),
            input_weight: weight(operands.input_weight, 0),
            hidden_weight: weight(operands.hidden_weight, 1),
            bias: operands.bias.map(tensor),
            initial_hidden: operands.initial_hidden.map(tensor),
            initial_cell: operands.initial_cell.map(tensor),
            // SAFETY: passed on.
            lengths: operands.lengths.map(|lengths| unsafe { Lengths::new(lengths) }),
            peepholes: operands.peepholes.map(tensor),
        }
    }

    /// How the layer differs from the usual one; nothing where it does not.
    fn variant<'p>(
        &self,
        direction: usize,
        peepholes: &'p [T::Compute],
    ) -> Option<Variant<'p, T::Compute>> {
        let RecurrentVariant { clip, input_forget, activations, peepholes: has_peepholes, .. } =
            self.params.variant;
        if clip.is_none() && !input_forget && activations.is_none() && !has_peepholes {
            return None;
        }
        Some(Variant {
            activations: activations.map_or(self.params.cell.activations(), |all| all[direction]),
            clip: clip.map(T::Compute::from_f32),
            input_forget,
            peepholes: has_peepholes.then_some(peepholes),
        })
    }

    /// Rows of the weights.
    fn rows(&self) -> usize {
        self.params.cell.gates() * self.hidden
    }

    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), and the CPU has this ISA.
    unsafe fn run(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        if self.hidden == 0 {
            return Ok(());
        }
        let chunks = self.batch.div_ceil(SEQUENCES);
        let products = self.rows().saturating_mul(self.input.saturating_add(self.hidden));
        let work = products.saturating_mul(self.time.saturating_add(1)) / PRODUCTS_PER_ELEMENT;
        let directions = self.params.direction.count();
        try_parallel_for(parallel, directions * chunks, work, |range| {
            for index in range {
                let (direction, chunk) = (index / chunks, index % chunks);
                let first = chunk * SEQUENCES;
                let reverse =
                    direction == 1 || self.params.direction == RecurrentDirection::Reverse;
                let count = SEQUENCES.min(self.batch - first);
                // SAFETY: parts are disjoint in all outputs; the rest is passed on.
                unsafe { self.group(isa, SequenceGroup { direction, reverse, first, count })? };
            }
            Ok(())
        })
    }

    /// The length of a sequence, whatever number is given for it.
    unsafe fn length(&self, sequence: usize) -> usize {
        // SAFETY: there is a length for each sequence.
        self.lengths.map_or(self.time, |lengths| unsafe { lengths.at(sequence, self.time) })
    }
}

//! Recurrent layers: first the products of the inputs of all steps, then step by step.

use millstream_core::{
    Activation, BoundCommand, DType, Operand, RawBuffer, RecurrentActivation, RecurrentCell,
    RecurrentDirection, RecurrentOperands, RecurrentParams, RecurrentVariant,
};
use smallvec::smallvec;

use super::matmul;
use super::product::{Matrix, Product};
use super::recurrent_params::{FinishParams, StartParams, StepsParams};
use super::recurrent_weights::Weight;
use crate::walk::{Axes, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

/// If the hidden weights have at most this many bytes for each group that the device runs at once, one launch does
/// all steps. One group then reads them in every step.
const FEW_BYTES: usize = 1 << 10;

/// State values of each unit; see `recurrent_start.kernel`.
const STATES: usize = 5;

pub(super) type Raw = Operand<RawBuffer>;

/// A layer with its operands by name.
struct Layer<'a> {
    params: &'a RecurrentParams,
    dtype: DType,
    time: usize,
    batch: usize,
    hidden: usize,
    directions: usize,
    outputs: &'a [Raw],
    src: &'a Raw,
    input_weight: &'a Raw,
    hidden_weight: &'a Raw,
    /// Scales of the 8-bit weights of the input and of the hidden state.
    scales: [Option<&'a Raw>; 2],
    zeros: [Option<&'a Raw>; 2],
    peepholes: Option<&'a Raw>,
    bias: Option<&'a Raw>,
    initial_hidden: Option<&'a Raw>,
    initial_cell: Option<&'a Raw>,
    lengths: Option<&'a Raw>,
}

/// The strides of the first axes of an operand that may be absent.
pub(super) fn strides<const N: usize>(operand: Option<&Raw>) -> [u64; N] {
    std::array::from_fn(|axis| {
        let stride = operand.and_then(|operand| operand.layout.strides().get(axis));
        stride.map_or(0, |&stride| stride as u64)
    })
}

pub(super) fn offset(operand: Option<&Raw>) -> u64 {
    operand.map_or(0, |operand| operand.layout.offset() as u64)
}

pub(super) fn lower(command: &BoundCommand, params: &RecurrentParams, limits: &Limits) -> Lowered {
    let operands = RecurrentOperands::of(command);
    let shape = operands.src.layout.shape();
    let layer = Layer {
        params,
        dtype: operands.src.layout.dtype(),
        time: shape[0],
        batch: shape[1],
        hidden: operands.w_hidden.layout.shape()[2],
        directions: params.direction.count(),
        outputs: command.outputs(),
        src: operands.src,
        input_weight: operands.w_input,
        hidden_weight: operands.w_hidden,
        scales: [operands.input_scale, operands.hidden_scale],
        zeros: [operands.input_zero, operands.hidden_zero],
        peepholes: operands.peepholes,
        bias: operands.bias,
        initial_hidden: operands.hidden_0,
        initial_cell: operands.cell_0,
        lengths: operands.lengths,
    };
    if layer.units() == 0 {
        return Lowered::default();
    }
    layer.lower(limits)
}

impl Layer<'_> {
    fn units(&self) -> usize {
        self.directions * self.batch * self.hidden
    }

    /// The type of states and products.
    fn exact(&self) -> DType {
        if self.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    fn lower(&self, limits: &Limits) -> Lowered {
        let mut lowered = Lowered::default();
        // Peepholes follow the states, in the same type.
        let peepholes = self.peepholes.map_or(0, |peepholes| peepholes.layout.elements());
        let states = lowered.reserve((STATES * self.units() + peepholes) * self.exact().size());
        let sizes = lowered.reserve(self.batch * 4);
        lowered.launches.push(self.start(states, sizes, limits));
        if self.time > 0 {
            let rows = self.params.cell.gates() * self.hidden;
            let elements = self.directions * self.time * self.batch * rows;
            let products = lowered.reserve(elements * self.exact().size());
            let input = self.weight(self.input_weight, 0, &mut lowered, limits);
            let hidden = self.weight(self.hidden_weight, 1, &mut lowered, limits);
            let product = self.product(input, products, rows);
            lowered.launches.push(matmul::launch(&product, limits));
            self.steps(&mut lowered, hidden, [states, sizes, products], limits);
        }
        lowered.launches.push(self.finish(states, sizes, limits));
        lowered
    }

    /// A weight in floating point.
    fn weight(&self, weight: &Raw, which: usize, lowered: &mut Lowered, limits: &Limits) -> Weight {
        match self.scales[which] {
            Some(scale) => {
                let zero = self.zeros[which];
                Weight::of_bytes(weight, scale, zero, self.dtype, lowered, limits)
            }
            None => Weight::of(weight),
        }
    }

    fn start(&self, states: Slot, sizes: Slot, limits: &Limits) -> Launch {
        let given = [self.initial_hidden, self.initial_cell, self.lengths];
        let lengths = self.lengths.map_or(DType::I32, |lengths| lengths.layout.dtype());
        let params = StartParams {
            directions: self.directions as u64,
            batch: self.batch as u64,
            hidden: self.hidden as u64,
            time: self.time as u64,
            offset: given.map(offset),
            stride: given.map(strides),
            has_hidden: given[0].is_some().into(),
            has_cell: given[1].is_some().into(),
            has_lengths: given[2].is_some().into(),
            peepholes_offset: offset(self.peepholes),
            peepholes: strides(self.peepholes),
            has_peepholes: self.peepholes.is_some().into(),
        };
        let slot = |operand: Option<&Raw>| operand.map_or(states, Slot::from);
        let threads = limits.usual_threads();
        Launch {
            key: Key::new(Program::RecurrentStart, &[self.dtype as i32, lengths as i32]),
            groups: [limits.groups_for(self.units(), threads), 1, 1],
            threads,
            slots: smallvec![
                states,
                sizes,
                slot(given[0]),
                slot(given[1]),
                slot(given[2]),
                slot(self.peepholes)
            ],
            params: params.pack(),
        }
    }

    /// The inputs of all steps times their weights, plus the bias: `[directions, time, batch, rows]`.
    fn product(&self, weight: Weight, products: Slot, rows: usize) -> Product {
        let stride = |operand: &Raw, axis: usize| operand.layout.strides()[axis];
        let dst = Matrix { slot: products, dtype: self.exact(), offset: 0, row: rows, column: 1 };
        let weight_direction = weight.stride[0] as usize;
        let weight = Matrix {
            slot: weight.slot,
            dtype: self.dtype,
            offset: weight.offset as usize,
            row: weight.stride[1] as usize,
            column: weight.stride[2] as usize,
        };
        let bias = self.bias.map_or(dst.absent(), |bias| Matrix { row: 0, ..Matrix::of(bias) });
        let directions = [
            self.time * self.batch * rows,
            0,
            weight_direction,
            self.bias.map_or(0, |bias| stride(bias, 0)),
            0,
        ];
        let steps = [self.batch * rows, stride(self.src, 0), 0, 0, 0];
        let elements = self.directions * self.time * self.batch * rows;
        let mut product = Product {
            m: self.batch,
            n: rows,
            k: self.src.layout.shape()[2],
            batch: Axes::merge(std::iter::empty()),
            matrices: [dst, Matrix::of(self.src), weight.transposed(), bias, dst.absent()],
            bias: self.bias.is_some(),
            residual: false,
            scale: 1.0,
            activation: Activation::None,
            wide: elements >= 1 << 30
                || is_wide([self.src, self.input_weight].into_iter().chain(self.bias)),
        };
        product.take_batch(smallvec![(self.directions, directions), (self.time, steps)]);
        product
    }

    fn steps(
        &self,
        lowered: &mut Lowered,
        weight: Weight,
        [states, sizes, products]: [Slot; 3],
        limits: &Limits,
    ) {
        let RecurrentVariant { clip, input_forget, activations, peepholes, rounded, .. } =
            self.params.variant;
        let general =
            clip.is_some() || input_forget || activations.is_some() || peepholes || rounded;
        let activations = activations.unwrap_or([self.params.cell.activations(); 2]);
        let parts = activations.map(|direction| direction.map(RecurrentActivation::parts));
        let cell = match self.params.cell {
            RecurrentCell::Lstm => 0,
            RecurrentCell::Gru { linear_before_reset: false } => 1,
            RecurrentCell::Gru { linear_before_reset: true } => 2,
            RecurrentCell::RnnTanh => 3,
            RecurrentCell::RnnRelu => 4,
        };
        let sequence = &self.outputs[0];
        let threads = limits.usual_threads();
        let step = |first: usize, steps: usize, groups: usize, halves: u32| {
            let params = StepsParams {
                directions: self.directions as u64,
                batch: self.batch as u64,
                hidden: self.hidden as u64,
                time: self.time as u64,
                first: first as u64,
                steps: steps as u64,
                weight_offset: weight.offset,
                weight: weight.stride,
                bias_offset: offset(self.bias),
                bias: strides(self.bias),
                sequence_offset: offset(Some(sequence)),
                sequence: strides(Some(sequence)),
                reverse: match self.params.direction {
                    RecurrentDirection::Forward => 0b00,
                    RecurrentDirection::Reverse => 0b01,
                    RecurrentDirection::Both => 0b10,
                },
                halves,
                has_bias: self.bias.is_some().into(),
                kind: parts.map(|direction| direction.map(|(kind, _, _)| kind)),
                alpha: parts.map(|direction| direction.map(|(_, alpha, _)| alpha)),
                beta: parts.map(|direction| direction.map(|(_, _, beta)| beta)),
                clip: clip.unwrap_or(0.0),
                has_clip: clip.is_some().into(),
                input_forget: input_forget.into(),
                has_peepholes: peepholes.into(),
                rounded: rounded.into(),
            };
            Launch {
                key: Key::new(Program::RecurrentSteps, &[self.dtype as i32, cell, general.into()]),
                groups: [groups as u32, (self.directions * self.batch).min(65535) as u32, 1],
                threads,
                slots: smallvec![
                    Slot::from(sequence),
                    states,
                    sizes,
                    products,
                    weight.slot,
                    self.bias.map_or(states, Slot::from),
                ],
                params: params.pack(),
            }
        };
        let weights = self.params.cell.gates() * self.hidden * self.hidden * self.dtype.size();
        if weights <= FEW_BYTES * limits.parallel_groups as usize {
            lowered.launches.push(step(0, self.time, 1, 3));
            return;
        }
        let groups = self.hidden.div_ceil(threads as usize / 32);
        for at in 0..self.time {
            if cell == 1 {
                lowered.launches.push(step(at, 1, groups, 1));
            }
            lowered.launches.push(step(at, 1, groups, 2));
        }
    }

    fn finish(&self, states: Slot, sizes: Slot, limits: &Limits) -> Launch {
        let given = [Some(&self.outputs[0]), Some(&self.outputs[1]), self.outputs.get(2)];
        let params = FinishParams {
            directions: self.directions as u64,
            batch: self.batch as u64,
            hidden: self.hidden as u64,
            time: self.time as u64,
            offset: given.map(offset),
            stride: given.map(strides),
            has_cell: given[2].is_some().into(),
        };
        let slot = |operand: Option<&Raw>| operand.map_or(states, Slot::from);
        let threads = limits.usual_threads();
        Launch {
            key: Key::new(Program::RecurrentFinish, &[self.dtype as i32]),
            groups: [limits.groups_for(self.units(), threads), 1, 1],
            threads,
            slots: smallvec![slot(given[0]), slot(given[1]), slot(given[2]), states, sizes],
            params: params.pack(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Parameters of recurrent layers, from PyTorch's order of gates to that of the Command.

use millstream_core::{Op, RecurrentCell, RecurrentDirection, RecurrentParams, RecurrentVariant};

use super::RecurrentOptions;
use crate::error::invalid;
use crate::layers::MAX_LAYERS;
use crate::{Init, Result, Tensor, Weights};

/// The parameters of one layer, as the Command takes them.
pub struct Layer {
    pub direction: RecurrentDirection,
    pub input_weight: Tensor,
    pub hidden_weight: Tensor,
    pub bias: Option<Tensor>,
}

impl Layer {
    /// The operation without initial states.
    pub fn op(&self, cell: RecurrentCell) -> Op {
        let params = RecurrentParams {
            cell,
            direction: self.direction,
            bias: self.bias.is_some(),
            initial_hidden: false,
            initial_cell: false,
            lengths: false,
            variant: RecurrentVariant::default(),
        };
        Op::Recurrent { params: Box::new(params) }
    }
}

/// For each gate of the Command, in order, its index in PyTorch's order.
fn gates(cell: RecurrentCell) -> &'static [usize] {
    match cell {
        // Input, forget, cell, output there; input, output, forget, cell here.
        RecurrentCell::Lstm => &[0, 3, 1, 2],
        // Reset, update, new there; update, reset, new here.
        RecurrentCell::Gru { .. } => &[1, 0, 2],
        RecurrentCell::RnnTanh | RecurrentCell::RnnRelu => &[0],
    }
}

pub fn layers(
    cell: RecurrentCell,
    input_size: usize,
    hidden_size: usize,
    options: &RecurrentOptions,
    weights: &Weights,
) -> Result<Vec<Layer>> {
    let direction = match options.bidirectional {
        true => RecurrentDirection::Both,
        false => RecurrentDirection::Forward,
    };
    if !(1..=MAX_LAYERS).contains(&options.num_layers) || hidden_size == 0 {
        let layers = options.num_layers;
        let reason =
            format!("{layers} layers of hidden_size {hidden_size}, but it takes 1 or more");
        return invalid("recurrent", reason);
    }
    let suffixes = &["", "_reverse"][..direction.count()];
    let rows = hidden_size.saturating_mul(cell.gates());
    let init = Init::fan_in(hidden_size);
    let fetch = |name: &str, layer: usize, shape: &[usize]| {
        let all = suffixes.iter().map(|suffix| {
            let name = format!("{name}_l{layer}{suffix}");
            let tensor = weights.parameter_like("weight_ih_l0", &name, shape, init)?;
            weights.derived(shape, || {
                let blocks = gates(cell)
                    .iter()
                    .map(|gate| tensor.narrow(0, gate * hidden_size, hidden_size));
                Tensor::cat(&blocks.collect::<Result<Vec<_>>>()?, 0)
            })
        });
        let all = all.collect::<Result<Vec<_>>>()?;
        weights.derived(&[&[suffixes.len()], shape].concat(), || Tensor::stack(&all, 0))
    };
    (0..options.num_layers)
        .map(|layer| {
            let inputs = if layer == 0 { input_size } else { hidden_size * direction.count() };
            let bias = || {
                let both = [fetch("bias_ih", layer, &[rows])?, fetch("bias_hh", layer, &[rows])?];
                let shape = [suffixes.len(), both.len(), rows];
                weights.derived(&shape, || Tensor::stack(&both, 1))?.settle()
            };
            Ok(Layer {
                direction,
                input_weight: fetch("weight_ih", layer, &[rows, inputs])?.settle()?,
                hidden_weight: fetch("weight_hh", layer, &[rows, hidden_size])?.settle()?,
                bias: options.bias.then(bias).transpose()?,
            })
        })
        .collect()
}

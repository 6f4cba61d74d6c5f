//! Dequantization of the 8-bit weights of recurrent layers, into scratch memory.

use millstream_core::DType;
use smallvec::smallvec;

use super::recurrent::{Raw, offset, strides};
use crate::params::params;
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `recurrent_weights`. Operands are weight, scale and zero point.
    WeightsParams {
        directions: u64,
        rows: u64,
        columns: u64,
        offset: [u64; 3],
        stride: [[u64; 3]; 3],
        has_zero: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "recurrent_weights",
    text: include_str!("../../programs/recurrent_weights.kernel"),
    constants: &["DTYPE", "BYTES"],
    params: WeightsParams::declaration,
};

/// A weight in floating point: its place and strides.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    pub slot: Slot,
    pub offset: u64,
    pub stride: [u64; 3],
}

impl Weight {
    /// A weight that is already in floating point.
    pub fn of(weight: &Raw) -> Self {
        Self { slot: weight.into(), offset: offset(Some(weight)), stride: strides(Some(weight)) }
    }

    /// A weight of 8-bit integers, which a launch dequantizes first.
    pub fn of_bytes(
        weight: &Raw,
        scale: &Raw,
        zero: Option<&Raw>,
        dtype: DType,
        lowered: &mut Lowered,
        limits: &Limits,
    ) -> Self {
        let shape: [usize; 3] = std::array::from_fn(|axis| weight.layout.shape()[axis]);
        let [directions, rows, columns] = shape;
        let elements = weight.layout.elements();
        let slot = lowered.reserve(elements * dtype.size());
        let operands = [Some(weight), Some(scale), zero];
        let params = WeightsParams {
            directions: directions as u64,
            rows: rows as u64,
            columns: columns as u64,
            offset: operands.map(offset),
            stride: operands.map(strides),
            has_zero: zero.is_some().into(),
        };
        let threads = limits.usual_threads();
        if elements > 0 {
            let constants = [dtype as i32, weight.layout.dtype() as i32];
            lowered.launches.push(Launch {
                key: Key::new(Program::RecurrentWeights, &constants),
                groups: [limits.groups_for(elements, threads), 1, 1],
                threads,
                // Another operand stands in for absent zero points. The kernel does not read it as such.
                slots: smallvec![
                    slot,
                    Slot::from(weight),
                    Slot::from(scale),
                    Slot::from(zero.unwrap_or(weight))
                ],
                params: params.pack(),
            });
        }
        Self { slot, offset: 0, stride: [(rows * columns) as u64, columns as u64, 1] }
    }
}

//! 8-bit weights of recurrent layers, as numbers in the workspace.

use millstream_core::DType;
use smallvec::smallvec;

use super::recurrent::{Raw, offset, strides};
use crate::params::params;
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `recurrent_weights` is told: of weight, scale and zero point.
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

/// A weight as the other programs read it: where it lies, and its strides.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    pub slot: Slot,
    pub offset: u64,
    pub stride: [u64; 3],
}

impl Weight {
    /// One that is read where it lies.
    pub fn of(weight: &Raw) -> Self {
        Self { slot: weight.into(), offset: offset(Some(weight)), stride: strides(Some(weight)) }
    }

    /// One of 8-bit integers, which a launch makes numbers of first.
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
                // Without zero points nobody reads what stands in for them.
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

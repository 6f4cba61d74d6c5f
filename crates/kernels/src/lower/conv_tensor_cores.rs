//! Convolutions of 16-bit numbers by tensor cores.

use millstream_core::DType;

use super::conv::ConvLaunch;
use crate::Limits;
use crate::program::Definition;

/// Weights that are loaded at once.
pub(super) const VECTOR: usize = 8;
/// Window positions of a group: one for each lane.
const POSITIONS: usize = 32;
/// Elements along k in the stage of a simd group.
const STEP: usize = 32;
/// What is left unused behind each row of a stage, and of the sums.
const PAD: usize = 8;

pub(crate) const PROGRAM: Definition = Definition {
    name: "conv_tensor_cores",
    text: include_str!("../../programs/conv_tensor_cores.kernel"),
    constants: &["DTYPE", "ROWS", "THREADS", "SPATIAL", "DENSE", "WIDE"],
    params: ConvLaunch::declaration,
};

/// The work of a group: `16 · rows` output channels of 32 positions. It has a simd group for each slice of k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    rows: usize,
    slices: usize,
}

impl Tile {
    /// The most channels that still leave every processor a group, so that windows are gathered seldom. A step along k
    /// takes `step` bytes of group memory. `None` where tensor cores cannot do it.
    pub fn choose(
        [outputs, positions, k]: [usize; 3],
        groups: usize,
        dtype: DType,
        step: usize,
        limits: &Limits,
    ) -> Option<Self> {
        let half = matches!(dtype, DType::F16 | DType::BF16);
        if !(limits.tensor_cores && half && k > 0) {
            return None;
        }
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let fills = |rows: usize| {
            let [rows, columns] = Self { rows, slices: 1 }.groups(outputs, positions);
            rows.saturating_mul(columns).saturating_mul(groups) >= processors
        };
        let needed = outputs.div_ceil(16).next_power_of_two();
        let rows = [4, 2, 1].into_iter().filter(|&rows| rows <= needed).find(|&rows| fills(rows));
        let most = (limits.max_threads / limits.simd_width) as usize;
        let steps = k.div_ceil(STEP).next_power_of_two();
        let mut tile = Self { rows: rows.unwrap_or(1), slices: steps.min(most).min(8) };
        while tile.slices > 1 && tile.shared_bytes(step) > limits.shared_bytes as usize {
            tile.slices /= 2;
        }
        (tile.shared_bytes(step) <= limits.shared_bytes as usize).then_some(tile)
    }

    /// The numbers of rows and columns of groups.
    pub fn groups(&self, outputs: usize, positions: usize) -> [usize; 2] {
        [outputs.div_ceil(16 * self.rows), positions.div_ceil(POSITIONS)]
    }

    /// Threads of a group.
    pub fn threads(&self) -> u32 {
        32 * self.slices as u32
    }

    /// The constants of the program, given `DTYPE`, `SPATIAL`, `DENSE` and `WIDE`.
    pub fn constants(&self, [dtype, spatial, dense, wide]: [i32; 4]) -> [i32; 6] {
        [dtype, self.rows as i32, self.threads() as i32, spatial, dense, wide]
    }

    /// Bytes of group memory: the stages of all simd groups, later their sums, and the steps along k.
    fn shared_bytes(&self, step: usize) -> usize {
        let m = 16 * self.rows;
        let stage = (m + POSITIONS) * (STEP + PAD) * size_of::<u16>();
        let sums = m * (POSITIONS + PAD) * size_of::<f32>();
        self.slices * (stage.max(sums) + STEP * step)
    }
}

#[cfg(test)]
mod tests;

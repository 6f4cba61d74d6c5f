//! Register allocation for a chain: where the values of its steps lie.

use millstream_core::{Chain, ChainTerm, MAX_CHAIN_STEPS};

/// Where a step finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the tile of an input.
    Input(u8),
    /// In a register.
    Register(u8),
}

/// Which register each step of a chain uses, and how long a tile is.
pub(super) struct RegisterAllocation {
    /// Elements of a tile.
    pub tile: usize,
    /// Bytes of a register or of a tile of an input: those of the widest element.
    pub tile_bytes: usize,
    /// How many registers there are.
    pub registers: usize,
    /// Where each step finds its operands. A step with fewer than three has the last of them again.
    pub sources: [[Location; 3]; MAX_CHAIN_STEPS],
    /// The register that each step writes. The last writes to the output instead.
    pub targets: [u8; MAX_CHAIN_STEPS],
}

/// Bytes of a tile: long enough to hide what a step costs, and short enough that a few stay in the
/// first-level cache.
const TILE_BYTES: usize = 4096;

impl RegisterAllocation {
    pub fn new(chain: &Chain) -> Self {
        let steps = chain.steps();
        let sizes = chain.inputs().iter().chain(chain.results()).map(|dtype| dtype.size());
        let widest = sizes.max().unwrap_or(1);
        // After which step nobody reads a result any more.
        let mut ends = [0; MAX_CHAIN_STEPS];
        for (place, step) in steps.iter().enumerate() {
            for term in step.terms() {
                if let ChainTerm::Step(result) = term {
                    ends[usize::from(*result)] = place;
                }
            }
        }
        let mut allocation = RegisterAllocation {
            tile: TILE_BYTES / widest,
            tile_bytes: TILE_BYTES,
            registers: 0,
            sources: [[Location::Input(0); 3]; MAX_CHAIN_STEPS],
            targets: [0; MAX_CHAIN_STEPS],
        };
        // The step until which each register is taken: one that is read by a step is not written by it.
        let mut taken = [None; MAX_CHAIN_STEPS];
        for (place, step) in steps.iter().enumerate() {
            let terms = step.terms();
            allocation.sources[place] =
                std::array::from_fn(|at| match terms[at.min(terms.len() - 1)] {
                    ChainTerm::Input(input) => Location::Input(input),
                    ChainTerm::Step(result) => {
                        Location::Register(allocation.targets[usize::from(result)])
                    }
                });
            if place + 1 < steps.len() {
                let is_free = |end: &Option<usize>| end.is_none_or(|end| end < place);
                // There are as many as steps.
                let register = taken.iter().position(is_free).unwrap_or(place);
                taken[register] = Some(ends[place]);
                allocation.targets[place] = register as u8;
                allocation.registers = allocation.registers.max(register + 1);
            }
        }
        allocation
    }
}

#[cfg(test)]
mod tests;

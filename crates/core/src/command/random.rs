//! Random numbers.

use super::{BufferLike, Command, Op, Operand, TensorSpec};
use crate::Result;

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform over `low ..= high`, in practice below `high`.
    Uniform {
        /// The lower end.
        low: f32,
        /// The upper end.
        high: f32,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
}

impl<B: BufferLike> Command<B> {
    /// Fills `dst` with random numbers.
    ///
    /// Element `i` in row-major order depends on `seed` and `offset + i` alone (Philox 4×32-10): it is the same on
    /// every device and with any number of threads.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, parameters that are not finite, or an operand that does not
    /// fit its buffer.
    pub fn random(
        dst: Operand<B>,
        distribution: Distribution,
        seed: u64,
        offset: u64,
    ) -> Result<Self> {
        let spec = TensorSpec::of(&dst.layout);
        Self::new(Op::Random { distribution, seed, offset, spec }, [dst], [])
    }
}

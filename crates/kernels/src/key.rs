//! What a kernel is compiled from.

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use crate::Program;

/// The most constants that a key can hold.
pub const MAX_CONSTANTS: usize = 24;

/// A kernel: a program text specialized by constants. It holds no strings, so it is cheap on the hot path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Key {
    program: Program,
    constants: [i32; MAX_CONSTANTS],
}

/// Hashes only the constants that are used: most programs have few.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.program.hash(state);
        self.constants[..self.program.constant_names().len()].hash(state);
    }
}

impl Key {
    /// A program with its constants, in the order of [`Program::constant_names`].
    ///
    /// # Panics
    ///
    /// If the number of constants is not the program's, which is a mistake in this crate.
    pub fn new(program: Program, constants: &[i32]) -> Self {
        assert_eq!(constants.len(), program.constant_names().len(), "constants of {program:?}");
        let mut all = [0; MAX_CONSTANTS];
        all[..constants.len()].copy_from_slice(constants);
        Self { program, constants: all }
    }

    /// The program.
    pub fn program(&self) -> Program {
        self.program
    }

    /// The constants with their names.
    pub fn constants(&self) -> impl Iterator<Item = (&'static str, i32)> + '_ {
        self.program.constant_names().iter().copied().zip(self.constants)
    }

    /// The same program with one constant changed, if it has a constant of that name. Only for constants that the
    /// launch does not depend on.
    #[must_use]
    pub fn with(mut self, name: &str, value: i32) -> Self {
        if let Some(at) = self.program.constant_names().iter().position(|known| *known == name) {
            self.constants[at] = value;
        }
        self
    }

    /// The name of the function in the source: a C identifier that no other key has.
    pub fn entry(&self) -> String {
        let mut entry = format!("ms_{}", self.program.name());
        for (_, value) in self.constants() {
            let sign = if value < 0 { "m" } else { "" };
            let _ = write!(entry, "_{sign}{}", value.unsigned_abs());
        }
        entry
    }
}

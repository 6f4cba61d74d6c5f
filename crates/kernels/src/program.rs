//! The list of programs.

use crate::lower::{copy, fill, gather, pad, quantize, random, scatter, top_k};

/// A program text and what it is specialised by. Each family in [`crate::lower`] defines its own.
pub(crate) struct Definition {
    /// The name, which is part of a C identifier.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// The names of the constants, as the text uses them.
    pub constants: &'static [&'static str],
    /// The declaration of `struct Params`, from [`params!`](crate::params::params).
    pub params: fn() -> String,
}

macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident => $definition:path),* $(,)?) => {
        /// A program text: what a [`Key`](crate::Key) specialises.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Program { $($(#[$doc])* $name),* }

        impl Program {
            /// Every program.
            pub const ALL: &[Program] = &[$(Program::$name),*];

            pub(crate) fn definition(self) -> &'static Definition {
                match self { $(Program::$name => &$definition),* }
            }
        }
    };
}

// One line per program, in the order of the alphabet.
programs! {
    /// Strided copies and conversions.
    Copy => copy::PROGRAM,
    /// One value everywhere.
    Fill => fill::PROGRAM,
    /// Elements by index.
    Gather => gather::PROGRAM,
    /// Padding and cropping.
    Pad => pad::PROGRAM,
    /// To and from integers with a scale.
    Quantize => quantize::PROGRAM,
    /// Random numbers.
    Random => random::PROGRAM,
    /// Elements written by index.
    Scatter => scatter::PROGRAM,
    /// Rows sorted in memory.
    Sort => top_k::SORT,
    /// The best of tiles.
    TopK => top_k::TILES,
}

impl Program {
    /// The name, which is part of a C identifier.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// The text, without what comes before it in a [`source`](crate::source()).
    pub fn text(self) -> &'static str {
        self.definition().text
    }

    /// The names of the constants, as the text uses them.
    pub fn constant_names(self) -> &'static [&'static str] {
        self.definition().constants
    }
}

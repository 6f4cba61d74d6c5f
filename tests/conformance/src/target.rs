//! What takes part in the suite.

use millstream_core::OpKind;

use crate::Case;

/// What a run left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The bytes of every buffer of the case after the run, in the order of the case.
    pub buffers: Vec<Vec<u8>>,
    /// The bytes that a download gave the host; `None` for every other operation.
    pub host: Option<Vec<u8>>,
}

/// Something that executes Commands.
pub trait Target {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Whether this kind of operation can be run at all. The report lists those that cannot.
    fn supports(&self, kind: OpKind) -> bool;

    /// Gives every buffer of the case its first bytes, runs the case's Command once, and reads every
    /// buffer back whole.
    ///
    /// # Errors
    ///
    /// What went wrong, in words; the case counts as failed.
    fn run(&self, case: &Case) -> Result<Outcome, String>;

    /// Why this one case is left out, if it is: for what the hardware cannot do, such as an element
    /// type. The report counts these.
    fn skips(&self, _case: &Case) -> Option<String> {
        None
    }

    /// Whether an element has the same bits however many other elements are computed with it, and
    /// wherever it lies. The CPU device promises this; devices that only promise closeness say no.
    fn is_bit_identical(&self) -> bool {
        false
    }

    /// Whether arithmetic takes subnormal numbers of `f32` for zeros and gives zeros for them. Loads and stores keep
    /// them. The suite then also takes what follows from that.
    fn flushes_subnormals(&self) -> bool {
        false
    }
}

//! Runs one case and checks the outcome.

use std::fmt;

use millstream_core::DType;

use crate::{Case, Dense, Expected, Outcome, Target, Value, flush, reference};

/// What was wrong with one run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The target gave an error, or something whose shape makes no sense.
    Run(String),
    /// An element is not what it should be.
    Element {
        /// The index in row-major order, counted on from one output to the next.
        index: usize,
        /// What it should be.
        expected: Expected,
        /// What it is.
        got: Value,
        /// How many elements are wrong in all.
        wrong: usize,
        /// Of how many.
        of: usize,
    },
    /// A byte outside the output was written.
    Guard {
        /// The buffer.
        buffer: usize,
        /// The byte in it.
        byte: usize,
        /// What it was.
        before: u8,
        /// What it is.
        after: u8,
    },
    /// Several runs do not agree as they should.
    Property(String),
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The name of the case or property.
    pub name: String,
    /// What was wrong.
    pub fault: Box<Fault>,
    /// The case in words, where there is a single one.
    pub case: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &*self.fault {
            Fault::Run(message) => write!(f, "{message}"),
            Fault::Element { index, expected, got, wrong, of } => {
                write!(f, "element {index} is {got}, expected {expected} ({wrong} of {of} wrong)")
            }
            Fault::Guard { buffer, byte, before, after } => write!(
                f,
                "byte {byte} of buffer {buffer} is outside the output but went from {before:#04x} \
                 to {after:#04x}"
            ),
            Fault::Property(message) => write!(f, "{message}"),
        }?;
        match &self.case {
            Some(case) => write!(f, "\n    {case}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs a case and compares every element with the reference and every other byte with what it was.
///
/// # Errors
///
/// The first thing that is wrong. A write outside the output comes before a wrong element, since it
/// usually explains it.
pub fn check(target: &dyn Target, case: &Case) -> Result<(), Failure> {
    let checked = target.run(case).map_err(Fault::Run).and_then(|outcome| {
        check_guards(case, &outcome)?;
        check_elements(case, &outcome, target.flushes_subnormals())
    });
    checked.map_err(|fault| Failure {
        name: format!("{} on {}", case.name, target.name()),
        fault: Box::new(fault),
        case: Some(format!("{case:?}")),
    })
}

fn check_guards(case: &Case, outcome: &Outcome) -> Result<(), Fault> {
    let lengths = |buffers: &[Vec<u8>]| buffers.iter().map(Vec::len).collect::<Vec<_>>();
    let (before, after) = (lengths(&case.buffers), lengths(&outcome.buffers));
    if before != after {
        return Err(Fault::Run(format!("buffers of {after:?} bytes came back, not {before:?}")));
    }
    for (buffer, (before, after)) in case.buffers.iter().zip(&outcome.buffers).enumerate() {
        if before == after {
            continue;
        }
        let written = case.written(buffer);
        if let Some(byte) = (0..before.len()).find(|&at| !written[at] && before[at] != after[at]) {
            let (before, after) = (before[byte], after[byte]);
            return Err(Fault::Guard { buffer, byte, before, after });
        }
    }
    Ok(())
}

fn check_elements(case: &Case, outcome: &Outcome, flushes: bool) -> Result<(), Fault> {
    let expected = reference(case);
    let mut got: Vec<(DType, Value)> = Vec::new();
    for output in 0..case.outputs().len().max(1) {
        let dense = results(case, outcome, output)?;
        got.extend(dense.values.into_iter().map(|value| (dense.dtype, value)));
    }
    if got.len() != expected.len() {
        let (got, expected) = (got.len(), expected.len());
        return Err(Fault::Run(format!("{got} elements came back, not {expected}")));
    }
    let exact = |at: usize| expected[at].accepts(got[at].0, got[at].1);
    let mut flushed = None;
    if flushes && !(0..got.len()).all(exact) {
        flushed = flush::alternatives(case);
    }
    let accepted = |at: usize| match &flushed {
        Some(flushed) => [expected[at], flushed[at]]
            .iter()
            .any(|expected| flush::accepts(expected, got[at].0, got[at].1)),
        None => exact(at),
    };
    let wrong = |at: &usize| !accepted(*at);
    match (0..got.len()).find(wrong) {
        None => Ok(()),
        Some(index) => Err(Fault::Element {
            index,
            expected: expected[index],
            got: got[index].1,
            wrong: (0..got.len()).filter(wrong).count(),
            of: expected.len(),
        }),
    }
}

/// The elements that the operation gave: of one of its outputs, or of the host bytes of a download.
pub(crate) fn results(case: &Case, outcome: &Outcome, output: usize) -> Result<Dense, Fault> {
    if let Some(output) = case.outputs().get(output) {
        return Ok(Dense::read(&output.layout, &outcome.buffers[output.buffer]));
    }
    let layout = case.inputs()[0].layout;
    let bytes =
        outcome.host.as_ref().ok_or_else(|| Fault::Run("no host bytes came back".into()))?;
    if bytes.len() != layout.dense_bytes() {
        return Err(Fault::Run(format!("{} host bytes for {layout:?}", bytes.len())));
    }
    let dtype = layout.dtype();
    let values = (0..layout.elements()).map(|at| crate::value::read_at(dtype, bytes, at));
    Ok(Dense { dtype: layout.dtype(), shape: layout.shape().to_vec(), values: values.collect() })
}

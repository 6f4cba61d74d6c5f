//! Promises that only several runs together can show.

mod batch;
mod independence;
pub(crate) mod philox;
mod random;
mod samples;

use millstream_core::{Op, OpKind};

use crate::check::results;
use crate::{Case, CaseBuilder, Dense, Failure, Fault, Target, Value, View};

/// A promise about how several runs relate.
#[derive(Debug)]
pub struct Property {
    /// What is promised.
    pub name: &'static str,
    /// The kind of operation it is about.
    pub kind: OpKind,
    /// Whether it is only promised by targets that are bit-identical.
    pub bit_identical: bool,
    run: fn(&dyn Target) -> Result<(), Fault>,
}

impl Property {
    /// Whether the target keeps the promise.
    ///
    /// # Errors
    ///
    /// What does not agree.
    pub fn check(&self, target: &dyn Target) -> Result<(), Failure> {
        (self.run)(target).map_err(|fault| Failure {
            name: format!("{} on {}", self.name, target.name()),
            fault: Box::new(fault),
            case: None,
        })
    }

    /// Why the target need not keep this promise, if it need not.
    pub fn reason_to_skip(&self, target: &dyn Target) -> Option<String> {
        let excused = self.bit_identical && !target.is_bit_identical();
        excused.then(|| "only promised by devices that are bit-identical".into())
    }
}

/// The promises about one kind of operation.
pub fn properties(kind: OpKind) -> Vec<Property> {
    random::PROPERTIES
        .iter()
        .map(|&(name, run)| Property { name, kind: OpKind::Random, bit_identical: false, run })
        .chain(independence::properties())
        .chain(samples::properties())
        .chain(batch::properties())
        .chain([Property {
            name: "timestamp/the clock does not go back",
            kind: OpKind::Timestamp,
            bit_identical: false,
            run: clock_is_monotonic,
        }])
        .filter(|property| property.kind == kind)
        .collect()
}

/// Runs a case for its elements; `None` when the target leaves the case out.
fn elements(target: &dyn Target, case: &Case) -> Result<Option<Dense>, Fault> {
    if target.skips(case).is_some() {
        return Ok(None);
    }
    let outcome = target.run(case).map_err(Fault::Run)?;
    results(case, &outcome, 0).map(Some)
}

/// Whether two elements are the same number to the last bit. NaNs count as one.
fn same(left: Value, right: Value) -> bool {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        _ => left == right,
    }
}

fn hold(holds: bool, message: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::Property(message())) }
}

fn clock_is_monotonic(target: &dyn Target) -> Result<(), Fault> {
    let case = CaseBuilder::new("clock", Op::Timestamp).outputs(&[View::Dense]).build();
    let mut last = 0;
    for _ in 0..10 {
        let Some(now) = elements(target, &case)? else { return Ok(()) };
        let now = now.values[0].as_i64();
        hold(now >= last, || format!("{now} came after {last}"))?;
        last = now;
    }
    Ok(())
}

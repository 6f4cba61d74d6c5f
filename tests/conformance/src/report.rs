//! Runs the whole suite.

use std::fmt;

use millstream_core::OpKind;

use crate::{Failure, Target, cases, check, properties};

/// Failures that a printed report shows in full; the rest is counted.
const SHOWN: usize = 25;

/// How a target did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target's name.
    pub target: String,
    /// How many cases and properties held.
    pub passed: usize,
    /// Those that did not.
    pub failed: Vec<Failure>,
    /// Cases the target left out, with its reasons.
    pub skipped: Vec<(String, String)>,
    /// Kinds of operation that the target does not run.
    pub unsupported: Vec<OpKind>,
    /// Kinds of operation that the target runs and the suite has no case for.
    pub uncovered: Vec<OpKind>,
}

impl Report {
    /// Whether nothing failed, and something was run.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.passed > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, skipped) = (self.failed.len(), self.skipped.len());
        writeln!(f, "{}: {} passed, {failed} failed, {skipped} skipped", self.target, self.passed)?;
        for (what, kinds) in [("unsupported", &self.unsupported), ("no cases for", &self.uncovered)]
        {
            if !kinds.is_empty() {
                let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
                writeln!(f, "{what}: {}", names.join(", "))?;
            }
        }
        let mut reasons: Vec<_> = self.skipped.iter().map(|(_, reason)| reason).collect();
        reasons.sort_unstable();
        for group in reasons.chunk_by(|left, right| left == right) {
            writeln!(f, "skipped {}: {}", group.len(), group[0])?;
        }
        for failure in self.failed.iter().take(SHOWN) {
            writeln!(f, "- {failure}")?;
        }
        if failed > SHOWN {
            writeln!(f, "- and {} more", failed - SHOWN)?;
        }
        Ok(())
    }
}

/// Runs every case and property through a target.
pub fn run_all(target: &dyn Target) -> Report {
    run_kinds(target, OpKind::ALL)
}

/// Runs the cases and properties of some kinds of operation through a target.
pub fn run_kinds(target: &dyn Target, kinds: &[OpKind]) -> Report {
    let mut report = Report {
        target: target.name().into(),
        passed: 0,
        failed: Vec::new(),
        skipped: Vec::new(),
        unsupported: Vec::new(),
        uncovered: Vec::new(),
    };
    for &kind in kinds {
        if !target.supports(kind) {
            report.unsupported.push(kind);
            continue;
        }
        let cases = cases(kind);
        if cases.is_empty() {
            report.uncovered.push(kind);
        }
        for case in &cases {
            match target.skips(case) {
                Some(reason) => report.skipped.push((case.name.clone(), reason)),
                None => report.add(check(target, case)),
            }
        }
        for property in properties(kind) {
            match property.reason_to_skip(target) {
                Some(reason) => report.skipped.push((property.name.into(), reason)),
                None => report.add(property.check(target)),
            }
        }
    }
    report
}

impl Report {
    fn add(&mut self, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(failure) => self.failed.push(failure),
        }
    }
}

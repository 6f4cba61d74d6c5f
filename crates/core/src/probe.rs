//! Probes: what a backend assumes about its platform, measured on the machine that it runs on.

use std::time::Duration;

use crate::Result;

/// What came of a row of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProbeOutcome {
    /// The platform behaves as assumed.
    AsAssumed,
    /// It does not: the backend rests on something that does not hold here.
    Not,
    /// There is no assumption, only a figure.
    Measured,
    /// It could not be run; what was found says why.
    NotRun,
}

impl ProbeOutcome {
    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            ProbeOutcome::AsAssumed => "as assumed",
            ProbeOutcome::Not => "not",
            ProbeOutcome::Measured => "measured",
            ProbeOutcome::NotRun => "not run",
        }
    }
}

/// One assumption, and what was found.
#[derive(Clone, Debug)]
pub struct ProbeRow {
    /// The name, by which documents refer to it.
    pub name: &'static str,
    /// What the backend takes for granted; empty where there is nothing.
    pub assumed: &'static str,
    /// What was measured, or why nothing was.
    pub found: String,
    /// What came of it.
    pub outcome: ProbeOutcome,
    /// How long it took.
    pub time: Duration,
}

/// What a probe does.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Only rows with these names; all if there are none.
    pub rows: Vec<String>,
    /// Rows that make the device fail on purpose are run too.
    pub faults: bool,
    /// How long the device is left alone before the first call after an idle time is measured.
    pub idle: Duration,
    /// A row that takes longer is given up.
    pub deadline: Duration,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            faults: false,
            idle: Duration::from_secs(60),
            deadline: Duration::from_secs(120),
        }
    }
}

/// The probe of a backend that is linked into the program. Entries are collected with `inventory`, as
/// [`BackendEntry`](crate::BackendEntry) is.
#[derive(Debug)]
pub struct ProbeEntry {
    /// The name of the backend.
    pub backend: &'static str,
    /// The names of all rows with what they assume.
    pub rows: fn() -> Vec<(&'static str, &'static str)>,
    /// Runs rows one after the other and hands over each.
    pub run: fn(options: &ProbeOptions, each: &mut dyn FnMut(ProbeRow)) -> Result<()>,
}

inventory::collect!(ProbeEntry);

impl ProbeEntry {
    /// The probes that are linked into this program.
    pub fn all() -> impl Iterator<Item = &'static ProbeEntry> {
        inventory::iter::<ProbeEntry>.into_iter()
    }
}

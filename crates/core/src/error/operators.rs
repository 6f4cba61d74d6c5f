//! Operators of a model that are not supported.

use std::fmt;

/// An operator that a model has and that is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingOperator {
    /// Its name, as in `Conv`.
    pub operator: String,
    /// Its domain; `""` is that of ONNX itself.
    pub domain: String,
    /// The version of the domain that the model imports, or 0.
    pub version: i64,
    /// How many nodes have it.
    pub nodes: usize,
    /// The name of the first of them.
    pub first: String,
}

impl fmt::Display for MissingOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, domain, version, nodes, first } = self;
        if !domain.is_empty() {
            write!(f, "{domain}.")?;
        }
        write!(f, "{operator}")?;
        if *version > 0 {
            write!(f, " of version {version}")?;
        }
        let plural = if *nodes == 1 { "" } else { "s" };
        write!(f, " ({nodes} node{plural}, first {first:?})")
    }
}

pub(super) fn listed(missing: &[MissingOperator]) -> String {
    let texts: Vec<String> = missing.iter().map(MissingOperator::to_string).collect();
    format!("operators that are not supported: {}", texts.join(", "))
}

//! What a model file says of itself, whether or not it can be run.

use std::path::Path;

use crate::model::ValueType;
use crate::session::Importer;
use crate::{Error, Result};

/// What a model file holds. It can be had of files that cannot be run, to see why.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The kind of file, as in `"ONNX"`.
    pub format: &'static str,
    /// What the file says of its origin, as names and texts: producer, versions, metadata.
    pub facts: Vec<(String, String)>,
    /// Versions of operator sets, by domain. ONNX's own domain is `""`.
    pub opsets: Vec<(String, i64)>,
    /// What the model takes.
    pub inputs: Vec<PortInfo>,
    /// What the model gives.
    pub outputs: Vec<PortInfo>,
    /// All nodes, those of branches, loops and functions behind the one that they belong to.
    pub nodes: Vec<NodeInfo>,
    /// Constant tensors, summed up by element type.
    pub weights: Vec<WeightInfo>,
    /// Why the file cannot be run, one by one.
    pub problems: Vec<Error>,
}

/// An input or output of a [`ModelInfo`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PortInfo {
    /// Its name.
    pub name: String,
    /// What it is declared to be.
    pub declared: ValueType,
    /// Whether callers may leave it out.
    pub has_default: bool,
}

/// A node of a [`ModelInfo`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The name that the file gives it; may be empty.
    pub name: String,
    /// What it does, as in `"Conv"`.
    pub operator: String,
    /// The domain of the operator. ONNX's own is `""`.
    pub domain: String,
    /// The version of the operator set that it belongs to.
    pub version: i64,
    /// Where it stands: empty for the model itself, else the branch, loop or function, as in `"if_3/then_branch"`.
    pub place: String,
    /// The names of the values that it reads.
    pub inputs: Vec<String>,
    /// The names of the values that it makes.
    pub outputs: Vec<String>,
    /// Whether the operator is known here.
    pub is_supported: bool,
}

/// Constant tensors of one element type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightInfo {
    /// The element type.
    pub dtype: String,
    /// How many tensors there are.
    pub tensors: usize,
    /// Their elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of these bytes that lie in other files.
    pub external_bytes: u64,
}

/// Operators of one domain that an [`Importer`](crate::Importer) knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorSet {
    /// The domain. ONNX's own is `""`.
    pub domain: String,
    /// The oldest and the newest version that is read, where others are refused.
    pub versions: Option<(i64, i64)>,
    /// The names of the operators.
    pub operators: Vec<&'static str>,
}

impl OperatorSet {
    /// These operators of a domain.
    pub fn new(
        domain: impl Into<String>,
        versions: Option<(i64, i64)>,
        operators: Vec<&'static str>,
    ) -> Self {
        Self { domain: domain.into(), versions, operators }
    }
}

impl PortInfo {
    /// An input or output.
    pub fn new(name: impl Into<String>, declared: ValueType, has_default: bool) -> Self {
        Self { name: name.into(), declared, has_default }
    }
}

impl NodeInfo {
    /// A node of the model itself that reads and makes nothing.
    pub fn new(name: impl Into<String>, operator: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            operator: operator.into(),
            domain: String::new(),
            version: 0,
            place: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            is_supported: true,
        }
    }
}

impl ModelInfo {
    /// Nothing yet of a file of some kind.
    pub fn new(format: &'static str) -> Self {
        Self { format, ..Self::default() }
    }

    /// Reads what a model file says of itself. Which kind of file it is follows from its extension.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or whose bytes are no such file. All else that is wrong with it is in
    /// [`problems`](Self::problems).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        (Importer::of(path)?.describe)(path)
    }

    /// Adds a constant tensor.
    pub fn add_weights(&mut self, dtype: &str, elements: u64, bytes: u64, is_external: bool) {
        let known = self.weights.iter().position(|known| known.dtype == dtype);
        let at = known.unwrap_or_else(|| {
            self.weights.push(WeightInfo {
                dtype: dtype.to_owned(),
                tensors: 0,
                elements: 0,
                bytes: 0,
                external_bytes: 0,
            });
            self.weights.len() - 1
        });
        let sum = &mut self.weights[at];
        sum.tensors += 1;
        sum.elements = sum.elements.saturating_add(elements);
        sum.bytes = sum.bytes.saturating_add(bytes);
        if is_external {
            sum.external_bytes = sum.external_bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests;

//! The operators of a model, by how often they occur.

use std::collections::BTreeMap;

use millstream::graph::{ModelInfo, NodeInfo};

/// An operator, and the nodes of it.
pub(crate) struct OperatorUse<'a> {
    pub operator: &'a str,
    pub domain: &'a str,
    pub version: i64,
    pub is_supported: bool,
    pub nodes: Vec<&'a NodeInfo>,
}

impl OperatorUse<'_> {
    /// How many of the nodes stand in branches, loops and functions.
    pub fn inner(&self) -> usize {
        self.nodes.iter().filter(|node| !node.place.is_empty()).count()
    }
}

/// All operators of a model, those with most nodes first.
pub(crate) fn uses(info: &ModelInfo) -> Vec<OperatorUse<'_>> {
    let mut found: BTreeMap<(&str, &str, i64), OperatorUse<'_>> = BTreeMap::new();
    for node in &info.nodes {
        let key = (node.operator.as_str(), node.domain.as_str(), node.version);
        let entry = found.entry(key).or_insert_with(|| OperatorUse {
            operator: &node.operator,
            domain: &node.domain,
            version: node.version,
            is_supported: node.is_supported,
            nodes: Vec::new(),
        });
        entry.nodes.push(node);
    }
    let mut uses: Vec<_> = found.into_values().collect();
    uses.sort_by_key(|one| std::cmp::Reverse(one.nodes.len()));
    uses
}

/// The domain as people know it: ONNX's own has no name in files.
pub(crate) fn domain_name(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

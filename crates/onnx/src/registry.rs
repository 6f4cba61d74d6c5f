//! Which operators there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use crate::node::Make;
use crate::ops;

/// Operators of one domain: names, and what makes them.
pub(crate) type Table = &'static [(&'static str, Make)];

/// All operators: domain, name, and what makes them.
fn entries() -> impl Iterator<Item = (&'static str, &'static str, Make)> {
    let others = ops::DOMAINS.iter();
    let others = others.flat_map(|(domain, tables)| tables.iter().map(|&table| (*domain, table)));
    let tables = ops::TABLES.iter().copied().chain(others);
    tables.flat_map(|(domain, table)| table.iter().map(move |(kind, make)| (domain, *kind, *make)))
}

/// What makes an operator, or `None` if it is not known. The domain of ONNX itself is `""`.
pub(crate) fn find(domain: &str, kind: &str) -> Option<Make> {
    static KNOWN: OnceLock<HashMap<(&'static str, &'static str), Make>> = OnceLock::new();
    let known = KNOWN
        .get_or_init(|| entries().map(|(domain, kind, make)| ((domain, kind), make)).collect());
    known.get(&(domain, kind)).copied()
}

/// The names of all operators, by domain, sorted.
pub(crate) fn names() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut names = BTreeMap::<_, BTreeSet<_>>::new();
    for (domain, kind, _) in entries() {
        names.entry(domain).or_default().insert(kind);
    }
    names
}

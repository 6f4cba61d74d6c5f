//! Which operators there are.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::node::Make;
use crate::ops;

/// Operators of one domain: names, and what makes them.
pub(crate) type Table = &'static [(&'static str, Make)];

/// What makes an operator, or `None` if it is not known. The domain of ONNX itself is `""`.
pub(crate) fn find(domain: &str, kind: &str) -> Option<Make> {
    static KNOWN: OnceLock<HashMap<(&'static str, &'static str), Make>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let others = ops::DOMAINS.iter();
        let others =
            others.flat_map(|(domain, tables)| tables.iter().map(|&table| (*domain, table)));
        let tables = ops::TABLES.iter().copied().chain(others);
        let entries =
            tables.flat_map(|(domain, table)| table.iter().map(move |entry| (domain, entry)));
        entries.map(|(domain, (kind, make))| ((domain, *kind), *make)).collect()
    });
    known.get(&(domain, kind)).copied()
}

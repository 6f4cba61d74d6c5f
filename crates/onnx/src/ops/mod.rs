//! The operators, one file per family. A table names what makes each of them.

mod arrange;
mod common;
mod constants;
mod control;
mod elementwise;
mod index;
mod norm;
mod product;
mod reduce;
mod shapes;

use crate::registry::Table;

/// All tables, with their domain.
pub(crate) const TABLES: &[(&str, Table)] = &[
    ("", arrange::TABLE),
    ("", constants::TABLE),
    ("", control::TABLE),
    ("", elementwise::TABLE),
    ("", index::TABLE),
    ("", norm::TABLE),
    ("", product::TABLE),
    ("", reduce::TABLE),
    ("", shapes::TABLE),
];

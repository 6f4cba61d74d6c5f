//! Operators of `ai.onnx.ml`: what scikit-learn, XGBoost and LightGBM are exported to.
//!
//! Where the specification is vague, answers are those of ONNX Runtime.

mod encode;
mod forest;
mod forest_attributes;
mod labels;
mod linear;
mod maps;
mod post;
mod scale;
mod svm;
mod trees;

use crate::registry::Table;

/// All tables of the domain.
pub(crate) const TABLES: &[Table] =
    &[encode::TABLE, linear::TABLE, maps::TABLE, scale::TABLE, svm::TABLE, trees::TABLE];

#[cfg(test)]
mod tests;

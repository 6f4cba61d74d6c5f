//! The operators, one file per family. A table names what makes each of them.

mod arrange;
mod attention;
mod attention_scores;
mod batch_norm;
mod binary;
mod blocks;
mod cast;
mod common;
mod compact;
mod constants;
mod control;
mod conv;
mod einsum;
mod fourier;
mod host;
mod index;
mod linear_attention;
mod loss;
mod microsoft;
mod ml;
mod norm;
mod on_host;
mod pad;
mod pool;
mod product;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shapes;
mod softmax;
mod strings;
mod text;
mod then;
mod triangle;
mod unary;
mod vision;
mod window;
mod windows;

pub(crate) use strings::on_strings;

use crate::registry::Table;

/// All tables, with their domain.
pub(crate) const TABLES: &[(&str, Table)] = &[
    ("", arrange::TABLE),
    ("", attention::TABLE),
    ("", batch_norm::TABLE),
    ("", binary::TABLE),
    ("", blocks::TABLE),
    ("", cast::TABLE),
    ("", compact::TABLE),
    ("", constants::TABLE),
    ("", control::TABLE),
    ("", conv::TABLE),
    ("", einsum::TABLE),
    ("", fourier::TABLE),
    ("", index::TABLE),
    ("", linear_attention::TABLE),
    ("", loss::TABLE),
    ("", norm::TABLE),
    ("", on_host::TABLE),
    ("", pad::TABLE),
    ("", pool::TABLE),
    ("", product::TABLE),
    ("", quantize::TABLE),
    ("", random::TABLE),
    ("", recurrent::TABLE),
    ("", reduce::TABLE),
    ("", resize::TABLE),
    ("", sequence::TABLE),
    ("", shapes::TABLE),
    ("", softmax::TABLE),
    ("", triangle::TABLE),
    ("", unary::TABLE),
    ("", vision::TABLE),
    ("", windows::TABLE),
    ("", strings::TABLE),
    ("", microsoft::OLD),
    ("", microsoft::SIMPLIFIED),
    ("com.microsoft", conv::MICROSOFT),
    ("com.microsoft", linear_attention::TABLE),
    ("com.microsoft", on_host::MICROSOFT),
    ("com.microsoft", strings::MICROSOFT),
];

/// Tables of other domains.
pub(crate) const DOMAINS: &[(&str, &[Table])] =
    &[("ai.onnx.ml", ml::TABLES), ("com.microsoft", microsoft::TABLES)];

//! Shapes on the command line, as in `1x128`.

use std::fmt;

use millstream::Result;
use millstream::graph::{Dim, Port, ValueType};

use super::invalid;

/// The shapes of an input, one or one per set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shapes(Vec<Vec<usize>>);

impl Shapes {
    pub fn one(shape: Vec<usize>) -> Self {
        Self(vec![shape])
    }

    /// Shapes separated by commas.
    pub fn parse(option: &str, name: &str, text: &str) -> Result<Self> {
        text.split(',').map(|one| shape(option, name, one)).collect::<Result<_>>().map(Self)
    }

    pub fn extend(&mut self, other: Shapes) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The shape of a set. Where there is one shape, all sets have it.
    pub fn get(&self, set: usize) -> &[usize] {
        &self.0[set % self.0.len()]
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|shape| format!("{shape:?}")).collect();
        f.write_str(&texts.join(" and "))
    }
}

fn shape(option: &str, name: &str, text: &str) -> Result<Vec<usize>> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    if matches!(text, "" | "scalar") {
        return Ok(Vec::new());
    }
    let sizes = text.split(['x', 'X', '×', '*']).map(|size| size.trim().parse::<usize>());
    sizes.collect::<Result<_, _>>().map_err(|_| {
        invalid(format!(
            "{option} {name}={text}: a shape is sizes with x between them, as in 1x128"
        ))
    })
}

/// Sizes of dimensions that a model names.
#[derive(Debug, Default)]
pub(super) struct Dims(Vec<(String, usize)>);

impl Dims {
    /// Reads `NAME=SIZE`. The names are those of the shapes that inputs are declared with.
    ///
    /// # Errors
    ///
    /// A name that no input has, or a size that is no number.
    pub fn parse(texts: &[String], ports: &[Port]) -> Result<Self> {
        let mut named: Vec<&str> = ports.iter().flat_map(|port| names(&port.declared)).collect();
        named.sort_unstable();
        named.dedup();
        let dim = |text: &String| {
            // Names may have any characters, also the sign.
            let Some((name, size)) = text.rsplit_once('=') else {
                return Err(invalid(format!("--dim {text}: write NAME=SIZE, as in batch=4")));
            };
            if !named.contains(&name) {
                let known = if named.is_empty() { "none".into() } else { named.join(", ") };
                let reason = format!("--dim: no input has a dimension {name:?}; named are {known}");
                return Err(invalid(reason));
            }
            match size.trim().parse() {
                Ok(size) => Ok((name.to_owned(), size)),
                Err(_) => Err(invalid(format!("--dim {text}: {size:?} is no size"))),
            }
        };
        texts.iter().map(dim).collect::<Result<_>>().map(Self)
    }

    /// The shape that an input is declared with, if all its sizes are known.
    pub fn shape(&self, declared: &ValueType) -> Option<Vec<usize>> {
        let ValueType::Tensor(_, Some(dims)) = declared else { return None };
        let known = dims.iter().map(|dim| match dim {
            Dim::Known(size) => Some(*size),
            Dim::Named(name) => {
                self.0.iter().rev().find(|(known, _)| known == name).map(|(_, size)| *size)
            }
            Dim::Unknown => None,
        });
        known.collect()
    }
}

/// The names in the shape of an input.
fn names(declared: &ValueType) -> impl Iterator<Item = &str> {
    let dims = match declared {
        ValueType::Tensor(_, Some(dims)) => &dims[..],
        ValueType::Tensor(_, None)
        | ValueType::Strings(_)
        | ValueType::Sequence(_)
        | ValueType::Optional(_)
        | ValueType::Map(_)
        | ValueType::Unknown => &[],
    };
    dims.iter().filter_map(|dim| match dim {
        Dim::Named(name) => Some(name.as_str()),
        Dim::Known(_) | Dim::Unknown => None,
    })
}

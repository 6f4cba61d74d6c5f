//! Labels of classes.

use millstream_graph::{Array, HostValue, Strings};

use crate::Result;
use crate::attributes::Attributes;

/// The labels of a classifier.
#[derive(Clone, Debug)]
pub(super) enum Labels {
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    /// Those of a node, whose attributes have one of these names.
    pub fn of(attributes: &Attributes<'_>, ints: &str, texts: &str) -> Result<Self> {
        let texts = attributes.strings(texts)?.unwrap_or_default();
        let ints = attributes.ints(ints)?.unwrap_or_default();
        Ok(if texts.is_empty() { Self::Ints(ints.to_vec()) } else { Self::Texts(texts) })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Ints(labels) => labels.len(),
            Self::Texts(labels) => labels.len(),
        }
    }

    /// The labels of some classes, as an output. A class without a label is its own number.
    pub fn output(&self, classes: &[usize]) -> Result<HostValue> {
        match self {
            Self::Ints(labels) => {
                let of = |&class: &usize| labels.get(class).copied().unwrap_or(class as i64);
                let found: Vec<i64> = classes.iter().map(of).collect();
                Ok(Array::vector(&found)?.into())
            }
            Self::Texts(labels) => {
                let of = |&class: &usize| {
                    labels.get(class).cloned().unwrap_or_else(|| class.to_string())
                };
                let found: Vec<String> = classes.iter().map(of).collect();
                Ok(Strings::new(&[classes.len()], found)?.into())
            }
        }
    }
}

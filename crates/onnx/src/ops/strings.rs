//! Operators on strings. The host computes them.

mod encode;
mod normalize;
mod tf_idf;
mod tokenize;

use millstream_graph::{Array, HostValue, Operator, Strings};
use regex::RegexBuilder;

use super::common::refusal;
use super::host::host_operator;
use crate::Result;
use crate::node::NodeDef;
use crate::registry::Table;

pub(crate) use encode::on_strings;

pub(crate) const TABLE: Table = &[
    ("RegexFullMatch", regex_full_match),
    ("StringConcat", concat),
    ("StringNormalizer", normalize::normalizer),
    ("StringSplit", split),
    ("TfIdfVectorizer", tf_idf::vectorizer),
];

/// Those of `com.microsoft`.
pub(crate) const MICROSOFT: Table = &[("Tokenizer", tokenize::tokenizer)];

/// Bytes that the compiled form of a pattern may have.
const PATTERN_BYTES: usize = 1 << 22;

/// A pattern of a model.
fn pattern(text: &str) -> Result<regex::Regex> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    built.map_err(|error| refusal(format!("pattern {text:?}: {error}")))
}

fn regex_full_match(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let Some(text) = node.attributes.string("pattern")? else {
        return Err(refusal("pattern is not given"));
    };
    // The pattern by itself first: it must not close a group that stands around it.
    pattern(text)?;
    let whole = pattern(&format!("^(?:{text})$"))?;
    host_operator(node, move |inputs| {
        let strings = inputs.strings(0)?;
        let found: Vec<u8> =
            strings.values().iter().map(|text| u8::from(whole.is_match(text))).collect();
        Ok(vec![Array::new(millstream_core::DType::Bool, strings.shape(), found)?.into()])
    })
}

fn concat(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    host_operator(node, |inputs| {
        let (a, b) = (inputs.strings(0)?, inputs.strings(1)?);
        let shape = millstream_core::broadcast_shapes(a.shape(), b.shape())?;
        let (left, right) = (places(a.shape(), &shape)?, places(b.shape(), &shape)?);
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let mut joined: Vec<String> = inputs.room(count.unwrap_or(usize::MAX), 1)?;
        joined.extend(left.zip(right).map(|(left, right)| {
            let (left, right) = (&a.values()[left], &b.values()[right]);
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            text
        }));
        Ok(vec![Strings::new(&shape, joined)?.into()])
    })
}

/// For each element of a shape, in row-major order, where its value is found in what repeats to it.
fn places<'a>(from: &'a [usize], to: &'a [usize]) -> Result<impl Iterator<Item = usize> + 'a> {
    let count = to.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
    let Some(count) = count else { return Err(refusal(format!("shape {to:?} is too large"))) };
    Ok((0..count).map(move |flat| {
        let (mut rest, mut place, mut stride) = (flat, 0, 1);
        for axis in (0..to.len()).rev() {
            let index = rest % to[axis];
            rest /= to[axis];
            if let Some(own) = (axis + from.len()).checked_sub(to.len()) {
                if from[own] != 1 {
                    place += index * stride;
                }
                stride *= from[own];
            }
        }
        place
    }))
}

fn split(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let delimiter = node.attributes.string_or("delimiter", "")?.to_owned();
    let most = node.attributes.int("maxsplit")?;
    let most = match most {
        Some(most) if most >= 0 => usize::try_from(most).ok(),
        Some(_) | None => None,
    };
    host_operator(node, move |inputs| {
        let strings = inputs.strings(0)?;
        let pieces: Vec<Vec<&str>> = strings
            .values()
            .iter()
            .map(|text| match delimiter.is_empty() {
                true => words(text, most),
                false if text.is_empty() => Vec::new(),
                false => match most {
                    Some(most) => text.splitn(most.saturating_add(1), &delimiter).collect(),
                    None => text.split(&delimiter).collect(),
                },
            })
            .collect();
        let width = pieces.iter().map(Vec::len).max().unwrap_or(0);
        let mut shape = strings.shape().to_vec();
        let counts: Vec<i64> = pieces.iter().map(|pieces| pieces.len() as i64).collect();
        let counts = Array::from_slice(&counts, &shape)?;
        shape.push(width);
        let mut padded: Vec<String> = inputs.room(pieces.len(), width)?;
        padded.extend(pieces.iter().flat_map(|pieces| {
            let missing = width - pieces.len();
            pieces.iter().copied().chain(std::iter::repeat_n("", missing)).map(str::to_owned)
        }));
        let padded = Strings::new(&shape, padded)?;
        Ok(vec![HostValue::from(padded), counts.into()])
    })
}

/// What stands between white space, in at most so many places cut.
fn words(text: &str, most: Option<usize>) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if most.is_some_and(|most| found.len() >= most) {
            found.push(rest.trim_end());
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    found
}

#[cfg(test)]
mod tests;

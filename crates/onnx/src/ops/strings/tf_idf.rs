//! TfIdfVectorizer.

use std::collections::HashMap;
use std::hash::Hash;

use millstream_graph::{Array, HostValue, Operator};

use super::super::common::refusal;
use super::super::host::host_operator;
use crate::Result;
use crate::node::NodeDef;

#[derive(Clone, Copy)]
enum Mode {
    Tf,
    Idf,
    TfIdf,
}

/// N-grams of a model: sequences of tokens, each with its place in the result.
struct Grams<T> {
    /// By length, from 1 on.
    by_length: Vec<HashMap<Vec<T>, Vec<usize>>>,
}

impl<T: Eq + Hash + Clone> Grams<T> {
    fn new(
        pool: &[T],
        starts: &[usize],
        places: &[usize],
        lengths: (usize, usize),
    ) -> Result<Self> {
        let mut by_length = Vec::new();
        let mut next = 0;
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(pool.len());
            let length = index + 1;
            let Some(part) = pool.get(start..end).filter(|part| part.len() % length == 0) else {
                return Err(refusal(format!("n-grams from {start} to {end} of {}", pool.len())));
            };
            let mut grams: HashMap<Vec<T>, Vec<usize>> = HashMap::new();
            for gram in part.chunks_exact(length) {
                let Some(&place) = places.get(next) else {
                    return Err(refusal("there are more n-grams than ngram_indexes"));
                };
                next += 1;
                if (lengths.0..=lengths.1).contains(&length) {
                    grams.entry(gram.to_vec()).or_default().push(place);
                }
            }
            by_length.push(grams);
        }
        Ok(Self { by_length })
    }

    /// Counts the n-grams of a row. Between the tokens of one, up to `skips` others may lie, always as many.
    fn count(&self, row: &[T], skips: usize, counts: &mut [f32]) {
        for (index, grams) in self.by_length.iter().enumerate() {
            if grams.is_empty() {
                continue;
            }
            let length = index + 1;
            // A single token has nothing between.
            let distances = if length == 1 { 1 } else { skips.saturating_add(1).min(row.len()) };
            for distance in 1..=distances {
                let Some(span) = (length - 1).checked_mul(distance) else { break };
                for start in 0..row.len().saturating_sub(span) {
                    let gram: Vec<T> =
                        (0..length).map(|at| row[start + at * distance].clone()).collect();
                    for &place in grams.get(&gram).into_iter().flatten() {
                        counts[place] += 1.0;
                    }
                }
            }
        }
    }
}

enum Pool {
    Ints(Grams<i64>),
    Texts(Grams<String>),
}

pub(super) fn vectorizer(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let mode = match attributes.string_or("mode", "")? {
        "TF" => Mode::Tf,
        "IDF" => Mode::Idf,
        "TFIDF" => Mode::TfIdf,
        other => return Err(refusal(format!("mode {other:?}"))),
    };
    let size = |name: &str| -> Result<usize> {
        match attributes.int(name)?.map(usize::try_from) {
            Some(Ok(size)) => Ok(size),
            other => Err(refusal(format!("{name} is {other:?}"))),
        }
    };
    let sizes = |name: &str| -> Result<Vec<usize>> {
        let given = attributes.ints(name)?.unwrap_or(&[]).iter();
        let sizes = given.map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<_>>>();
        sizes.ok_or_else(|| refusal(format!("{name} has a negative number")))
    };
    let (shortest, longest) = (size("min_gram_length")?, size("max_gram_length")?);
    let skips = size("max_skip_count")?;
    if shortest == 0 || shortest > longest {
        return Err(refusal(format!("n-grams of {shortest} to {longest} tokens")));
    }
    let (starts, places) = (sizes("ngram_counts")?, sizes("ngram_indexes")?);
    let width = places.iter().max().map_or(0, |&last| last.saturating_add(1));
    // Places need not be all different, but a result is not much wider than what fills it.
    if width > places.len().saturating_mul(64).saturating_add(1 << 16) {
        return Err(refusal(format!("{} n-grams with places up to {width}", places.len())));
    }
    let weights = attributes.floats("weights")?.map(<[f32]>::to_vec);
    if weights.as_ref().is_some_and(|weights| weights.len() != places.len()) {
        return Err(refusal("weights and ngram_indexes differ in number"));
    }
    let lengths = (shortest, longest);
    let pool = match (attributes.ints("pool_int64s")?, attributes.strings("pool_strings")?) {
        (Some(pool), None) => Pool::Ints(Grams::new(pool, &starts, &places, lengths)?),
        (None, Some(pool)) => Pool::Texts(Grams::new(&pool, &starts, &places, lengths)?),
        _ => return Err(refusal("either pool_int64s or pool_strings must be given")),
    };
    // The weight of each place.
    let mut weight_of = vec![1.0f32; width];
    for (&place, &weight) in places.iter().zip(weights.iter().flatten()) {
        weight_of[place] = weight;
    }
    host_operator(node, move |inputs| {
        let value = inputs.required(0)?;
        let shape = match value {
            HostValue::Value(_) => value.strings()?.shape().to_vec(),
            other => other.array(inputs.call())?.shape().to_vec(),
        };
        let (rows, columns) = match shape[..] {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            [] => (1, 1),
            _ => return Err(refusal(format!("tokens of shape {shape:?}"))),
        };
        let mut counts = inputs.filled(rows, width, 0f32)?;
        let each = counts.chunks_exact_mut(width.max(1));
        match &pool {
            Pool::Ints(grams) => {
                let tokens = value.array(inputs.call())?.to_i64s()?;
                let tokens = tokens.chunks(columns.max(1));
                each.zip(tokens).for_each(|(counts, row)| grams.count(row, skips, counts));
            }
            Pool::Texts(grams) => {
                let tokens = value.strings()?.values().chunks(columns.max(1));
                each.zip(tokens).for_each(|(counts, row)| grams.count(row, skips, counts));
            }
        }
        for (count, weight) in counts.iter_mut().zip(weight_of.iter().cycle()) {
            *count = match mode {
                Mode::Tf => *count,
                Mode::Idf if *count > 0.0 => *weight,
                Mode::Idf => 0.0,
                Mode::TfIdf => *count * weight,
            };
        }
        let result = match shape.len() {
            2 => Array::from_slice(&counts, &[rows, width]),
            _ => Array::from_slice(&counts, &[width]),
        };
        Ok(vec![result?.into()])
    })
}

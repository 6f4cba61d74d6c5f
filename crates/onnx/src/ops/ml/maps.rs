//! Values by keys.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_core::{DType, Scalar};
use millstream_graph::{Array, HostValue, Map, MapKeys, MapValues, ModelValue, Operator, Strings};

use super::super::common::refusal;
use super::super::host::host_operator;
use super::labels::Labels;
use crate::Result;
use crate::node::NodeDef;
use crate::registry::Table;

pub(super) const TABLE: Table =
    &[("CastMap", cast_map), ("DictVectorizer", dict_vectorizer), ("ZipMap", zip_map)];

/// A map for each row, of labels to the numbers of the row. All share their keys, and their numbers lie in one piece.
fn zip_map(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let labels = Labels::of(&node.attributes, "classlabels_int64s", "classlabels_strings")?;
    let keys = match labels {
        Labels::Ints(labels) => MapKeys::Ints(labels.into()),
        Labels::Texts(labels) => MapKeys::Texts(labels.into()),
    };
    host_operator(node, move |inputs| {
        let array = inputs.array(0)?;
        let (rows, columns) = match array.shape() {
            [columns] => (1, *columns),
            [rows, columns] => (*rows, *columns),
            shape => return Err(refusal(format!("scores of shape {shape:?}"))),
        };
        if columns != keys.len() {
            return Err(refusal(format!("{columns} scores for {} labels", keys.len())));
        }
        let width = columns * array.dtype().size();
        let mut maps = Vec::with_capacity(rows);
        for row in 0..rows {
            let bytes = array.bytes().slice(row * width..(row + 1) * width);
            let values = MapValues::Numbers(Array::new(array.dtype(), &[columns], bytes)?);
            maps.push(ModelValue::Map(Map::new(keys.clone(), values)?));
        }
        Ok(vec![HostValue::Whole(Arc::new(maps))])
    })
}

/// A row with one column for each word of a vocabulary.
fn dict_vectorizer(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let labels = Labels::of(&node.attributes, "int64_vocabulary", "string_vocabulary")?;
    let count = labels.len();
    let texts: HashMap<String, usize> = match &labels {
        Labels::Texts(labels) => {
            labels.iter().cloned().enumerate().map(|(at, one)| (one, at)).collect()
        }
        Labels::Ints(_) => HashMap::new(),
    };
    let ints: HashMap<i64, usize> = match &labels {
        Labels::Ints(labels) => labels.iter().enumerate().map(|(at, one)| (*one, at)).collect(),
        Labels::Texts(_) => HashMap::new(),
    };
    host_operator(node, move |inputs| {
        let map = inputs.required(0)?.map()?;
        let places: Vec<Option<usize>> = match map.keys() {
            MapKeys::Ints(keys) => keys.iter().map(|key| ints.get(key).copied()).collect(),
            MapKeys::Texts(keys) => keys.iter().map(|key| texts.get(key).copied()).collect(),
        };
        let places = places.into_iter().enumerate().filter_map(|(from, to)| Some((from, to?)));
        Ok(vec![match map.values() {
            MapValues::Numbers(array) => {
                let values = array.to_scalars()?;
                let mut row = vec![Scalar::Int(0); count];
                places.for_each(|(from, to)| row[to] = values[from]);
                Array::of_scalars(array.dtype(), &[1, count], &row)?.into()
            }
            MapValues::Texts(values) => {
                let mut row = vec![String::new(); count];
                places.for_each(|(from, to)| row[to].clone_from(&values[from]));
                Strings::new(&[1, count], row)?.into()
            }
        }])
    })
}

/// The values of a map as a row: one behind the other, or each in the place that its key is.
fn cast_map(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let sparse = match node.attributes.string_or("map_form", "DENSE")? {
        "DENSE" => false,
        "SPARSE" => true,
        other => return Err(refusal(format!("map_form {other:?}"))),
    };
    let most = node.attributes.int_or("max_map", 1)?;
    let most = usize::try_from(most).ok().filter(|most| *most <= 1 << 24);
    let Some(most) = most else { return Err(refusal("max_map is too large")) };
    let to = match node.attributes.string_or("cast_to", "TO_FLOAT")? {
        "TO_FLOAT" => Some(DType::F32),
        "TO_INT64" => Some(DType::I64),
        "TO_STRING" => None,
        other => return Err(refusal(format!("cast_to {other:?}"))),
    };
    host_operator(node, move |inputs| {
        let map = inputs.required(0)?.map()?;
        let MapKeys::Ints(keys) = map.keys() else {
            return Err(refusal("a map of numbers is needed"));
        };
        // Keys in rising order, and where each value goes.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&at| keys[at]);
        let width = if sparse { most } else { keys.len() };
        let place = |rank: usize, key: i64| match sparse {
            false => Some(rank),
            true => usize::try_from(key).ok().filter(|place| *place < most),
        };
        let mut texts = vec![if to.is_some() { "0".to_owned() } else { String::new() }; width];
        let mut numbers = vec![Scalar::Int(0); width];
        for (rank, at) in order.into_iter().enumerate() {
            let Some(place) = place(rank, keys[at]) else { continue };
            match map.values() {
                MapValues::Texts(values) => texts[place].clone_from(&values[at]),
                MapValues::Numbers(values) => numbers[place] = values.to_scalars()?[at],
            }
        }
        let is_text = matches!(map.values(), MapValues::Texts(_));
        Ok(vec![match to {
            Some(dtype) => {
                if is_text {
                    let parsed = texts.iter().map(|text| match text.trim().parse::<f64>() {
                        Ok(number) => Ok(Scalar::Float(number)),
                        Err(_) => Err(refusal(format!("{text:?} is no number"))),
                    });
                    numbers = parsed.collect::<Result<_>>()?;
                }
                Array::of_scalars(dtype, &[1, width], &numbers)?.into()
            }
            None => {
                if !is_text {
                    texts = numbers.iter().map(ToString::to_string).collect();
                }
                Strings::new(&[1, width], texts)?.into()
            }
        }])
    })
}

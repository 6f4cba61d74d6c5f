//! Words for numbers, and numbers for words.

use std::collections::HashMap;
use std::hash::Hash;

use millstream_core::{BinaryOp, DType, Scalar};
use millstream_graph::{Array, HostValue, ModelValue, Operator, Stop, Strings, Value};

use super::super::common::{Made, cast, one, pair, refusal, refuse, unsqueeze};
use super::super::host::{HostInputs, host_function, host_operator};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;
use crate::tensor::Literal;

pub(super) const TABLE: Table = &[
    ("CategoryMapper", category_mapper),
    ("LabelEncoder", label_encoder),
    ("OneHotEncoder", one_hot),
];

/// What is looked up. Numbers are compared as they are; all that is not a number is alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Int(i64),
    Float(u64),
    Text(String),
}

impl Key {
    fn of(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Float(value) if value.is_nan() => Self::Float(f64::NAN.to_bits()),
            // Both zeros are one.
            Scalar::Float(value) => Self::Float((value + 0.0).to_bits()),
            other => Self::Int(other.as_i64()),
        }
    }
}

/// Strings, or numbers of a type.
#[derive(Clone, Debug)]
enum Words {
    Texts(Vec<String>),
    Numbers(DType, Vec<Scalar>),
}

impl Words {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(_, numbers) => numbers.len(),
        }
    }

    fn keys(&self) -> Vec<Key> {
        match self {
            Self::Texts(texts) => texts.iter().cloned().map(Key::Text).collect(),
            Self::Numbers(_, numbers) => numbers.iter().copied().map(Key::of).collect(),
        }
    }

    fn of_literal(literal: Literal) -> Result<Self> {
        Ok(match literal {
            Literal::Strings(strings) => Self::Texts(strings.values().to_vec()),
            Literal::Array(array) => Self::Numbers(array.dtype(), array.to_scalars()?),
        })
    }

    /// The first of these attributes that is given: lists of three types, or a tensor.
    fn of(node: &NodeDef<'_, '_>, prefix: &str) -> Result<Option<Self>> {
        let attributes = &node.attributes;
        let texts = attributes.strings(&format!("{prefix}_strings"))?;
        let ints = attributes.ints(&format!("{prefix}_int64s"))?;
        let floats = attributes.floats(&format!("{prefix}_floats"))?;
        if let Some(literal) = node.literal(&format!("{prefix}_tensor"))? {
            return Self::of_literal(literal).map(Some);
        }
        Ok(match (texts, ints, floats) {
            (Some(texts), _, _) => Some(Self::Texts(texts)),
            (_, Some(ints), _) => {
                Some(Self::Numbers(DType::I64, ints.iter().map(|&value| value.into()).collect()))
            }
            (_, _, Some(floats)) => {
                Some(Self::Numbers(DType::F32, floats.iter().map(|&value| value.into()).collect()))
            }
            (None, None, None) => None,
        })
    }
}

/// The keys of an input.
fn keys_of(inputs: &HostInputs<'_>) -> Result<(Vec<usize>, Vec<Key>)> {
    match inputs.required(0)? {
        HostValue::Value(ModelValue::Strings(strings)) => {
            let keys = strings.values().iter().cloned().map(Key::Text).collect();
            Ok((strings.shape().to_vec(), keys))
        }
        _ => {
            let array = inputs.array(0)?;
            let keys = array.to_scalars()?.into_iter().map(Key::of).collect();
            Ok((array.shape().to_vec(), keys))
        }
    }
}

/// What is found for each key, as an output.
fn looked_up(
    (shape, keys): (Vec<usize>, Vec<Key>),
    places: &HashMap<Key, usize>,
    values: &Words,
    default: &Words,
) -> Result<HostValue> {
    let found = keys.iter().map(|key| places.get(key).copied());
    match (values, default) {
        (Words::Texts(values), Words::Texts(default)) => {
            let default = default.first().cloned().unwrap_or_default();
            let texts =
                found.map(|place| place.map_or_else(|| default.clone(), |at| values[at].clone()));
            Ok(Strings::new(&shape, texts.collect::<Vec<_>>())?.into())
        }
        (Words::Numbers(dtype, values), Words::Numbers(_, default)) => {
            let default = default.first().copied().unwrap_or(Scalar::Int(0));
            let numbers: Vec<Scalar> =
                found.map(|place| place.map_or(default, |at| values[at])).collect();
            Ok(Array::of_scalars(*dtype, &shape, &numbers)?.into())
        }
        _ => Err(refusal("values and their default are of different kinds")),
    }
}

/// Keys with their places; the last of equal ones counts.
fn placed(keys: Vec<Key>) -> HashMap<Key, usize> {
    keys.into_iter().enumerate().map(|(place, key)| (key, place)).collect()
}

fn label_encoder(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let defaults = (
        attributes.string_or("default_string", "_Unused")?.to_owned(),
        attributes.int_or("default_int64", -1)?,
        attributes.float_or("default_float", -0.0)?,
    );
    // The first version has a list, and is asked both ways.
    if let Some(classes) = attributes.strings("classes_strings")? {
        return both_ways(node, classes, None, defaults.0, defaults.1);
    }
    let (Some(keys), Some(values)) = (Words::of(node, "keys")?, Words::of(node, "values")?) else {
        return Err(refusal("keys and values are not given"));
    };
    if keys.len() != values.len() {
        return Err(refusal(format!("{} keys and {} values", keys.len(), values.len())));
    }
    let default = match (node.literal("default_tensor")?, &values) {
        (Some(literal), _) => Words::of_literal(literal)?,
        (None, Words::Texts(_)) => Words::Texts(vec![defaults.0]),
        (None, Words::Numbers(dtype, _)) if dtype.is_float() => {
            Words::Numbers(*dtype, vec![defaults.2.into()])
        }
        (None, Words::Numbers(dtype, _)) => Words::Numbers(*dtype, vec![defaults.1.into()]),
    };
    // The first of equal keys counts.
    let mut places = HashMap::new();
    for (place, key) in keys.keys().into_iter().enumerate() {
        places.entry(key).or_insert(place);
    }
    host_operator(node, move |inputs| {
        Ok(vec![looked_up(keys_of(&inputs)?, &places, &values, &default)?])
    })
}

/// Strings become numbers, and numbers strings.
fn both_ways(
    node: &mut NodeDef<'_, '_>,
    texts: Vec<String>,
    ints: Option<Vec<i64>>,
    default_text: String,
    default_int: i64,
) -> Result<Box<dyn Operator>> {
    let ints = ints.unwrap_or_else(|| (0..texts.len() as i64).collect());
    if ints.len() != texts.len() {
        return Err(refusal(format!("{} strings and {} numbers", texts.len(), ints.len())));
    }
    let numbers = Words::Numbers(DType::I64, ints.into_iter().map(Scalar::Int).collect());
    let texts = Words::Texts(texts);
    let (of_text, of_number) = (placed(texts.keys()), placed(numbers.keys()));
    let default_text = Words::Texts(vec![default_text]);
    let default_int = Words::Numbers(DType::I64, vec![Scalar::Int(default_int)]);
    host_operator(node, move |inputs| {
        let keys = keys_of(&inputs)?;
        let is_text = matches!(inputs.required(0)?, HostValue::Value(ModelValue::Strings(_)));
        Ok(vec![match is_text {
            true => looked_up(keys, &of_text, &numbers, &default_int)?,
            false => looked_up(keys, &of_number, &texts, &default_text)?,
        }])
    })
}

fn category_mapper(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let texts = attributes.strings("cats_strings")?.unwrap_or_default();
    let ints = attributes.ints("cats_int64s")?.unwrap_or_default().to_vec();
    let text = attributes.string_or("default_string", "_Unused")?.to_owned();
    let int = attributes.int_or("default_int64", -1)?;
    both_ways(node, texts, Some(ints), text, int)
}

/// One column for each category.
fn one_hot(node: &mut NodeDef<'_, '_>) -> Made {
    let ints = node.attributes.ints("cats_int64s")?.unwrap_or_default().to_vec();
    let texts = node.attributes.strings("cats_strings")?.unwrap_or_default();
    let zeros = node.attributes.flag("zeros", true)?;
    if ints.is_empty() == texts.is_empty() {
        return Err(refusal("either cats_int64s or cats_strings must be given"));
    }
    let (count, places) = (texts.len(), first_places(&texts));
    let host = host_function(node.kind(), move |inputs| {
        let strings = inputs.strings(0)?;
        let mut hot = inputs.filled(strings.values().len(), count, 0f32)?;
        for (row, text) in strings.values().iter().enumerate() {
            match places.get(text) {
                Some(place) => hot[row * count + place] = 1.0,
                None if zeros => {}
                None => return Err(refusal(format!("{text:?} is no category"))),
            }
        }
        let mut shape = strings.shape().to_vec();
        shape.push(count);
        Ok(vec![Array::from_slice(&hot, &shape)?.into()])
    });
    operator(node, move |at, inputs| {
        let value = inputs.required(0)?;
        let Value::Tensor(input) = value else {
            return Err(Stop::Host(std::sync::Arc::clone(&host)));
        };
        if ints.is_empty() {
            return refuse("categories are strings, and what is given are numbers");
        }
        let input = cast(at, *input, DType::I64)?;
        let rank = at.rank(input);
        let input = unsqueeze(at, input, rank)?;
        let categories = at.constant(Array::vector(&ints)?);
        let same = pair(at, BinaryOp::Equal, input, categories)?;
        one(cast(at, same, DType::F32)?)
    })
}

fn first_places<T: Eq + Hash + Clone>(values: &[T]) -> HashMap<T, usize> {
    let mut places = HashMap::new();
    for (place, value) in values.iter().enumerate() {
        places.entry(value.clone()).or_insert(place);
    }
    places
}

//! Operators of numbers that strings can take part in: all that move elements.
//!
//! The strings of a call are numbered in their order, equal ones alike. The operator computes with the numbers, and what it gives
//! becomes strings again.

use std::sync::Arc;

use millstream_graph::{
    Array, Body, Expanded, Expander, HostValue, ModelValue, OpaqueKind, Operator, Stop, Strings,
    Value, ValueType,
};

use super::super::common::{fill, refusal};
use super::super::host::host_function;
use crate::Result;

/// Which outputs of an operator on strings are strings.
#[derive(Clone, Copy, Debug)]
enum Outputs {
    All,
    First,
    /// None, and it reads nothing but the shape.
    Shape,
}

fn outputs(kind: &str) -> Option<Outputs> {
    Some(match kind {
        "ArrayFeatureExtractor"
        | "Compress"
        | "Concat"
        | "DepthToSpace"
        | "Expand"
        | "Flatten"
        | "Gather"
        | "GatherElements"
        | "GatherND"
        | "OneHot"
        | "Reshape"
        | "ReverseSequence"
        | "Scatter"
        | "ScatterElements"
        | "ScatterND"
        | "Slice"
        | "SpaceToDepth"
        | "Split"
        | "Squeeze"
        | "Tile"
        | "Transpose"
        | "Unsqueeze"
        | "Where" => Outputs::All,
        "Unique" => Outputs::First,
        "Shape" | "Size" => Outputs::Shape,
        _ => return None,
    })
}

/// The shape of strings, if it is some.
fn strings_shape(value: &Value) -> Option<&[usize]> {
    match value {
        Value::Known(known) => match &**known {
            ModelValue::Strings(strings) => Some(strings.shape()),
            _ => None,
        },
        Value::Opaque(opaque) => match opaque.kind() {
            OpaqueKind::Strings(shape) => Some(shape),
            _ => None,
        },
        Value::Tensor(_) | Value::Sequence(_) | Value::Optional(_) => None,
    }
}

/// The operator, for strings too if it can take them.
pub(crate) fn on_strings(operator: Box<dyn Operator>) -> Box<dyn Operator> {
    match outputs(operator.kind()) {
        Some(outputs) => Box::new(OnStrings { numbers: Arc::from(operator), outputs }),
        None => operator,
    }
}

#[derive(Debug)]
struct OnStrings {
    numbers: Arc<dyn Operator>,
    outputs: Outputs,
}

impl Operator for OnStrings {
    fn kind(&self) -> &str {
        self.numbers.kind()
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let is_strings = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| strings_shape(value).is_some())
        };
        if !inputs.iter().any(is_strings) {
            return self.numbers.expand(at, inputs);
        }
        if let Outputs::Shape = self.outputs {
            let mut numbers = inputs.to_vec();
            for value in numbers.iter_mut().flatten() {
                if let Some(shape) = strings_shape(value).map(<[usize]>::to_vec) {
                    *value = Value::Tensor(fill(at, 0i64, millstream_core::DType::I64, &shape)?);
                }
            }
            return self.numbers.expand(at, &numbers);
        }
        let given: Vec<bool> = inputs.iter().map(Option::is_some).collect();
        let strings: Vec<bool> = inputs.iter().map(is_strings).collect();
        let body = self.body(&given, &strings, at.outputs());
        Err(Stop::Inline(Arc::new(body), inputs.iter().flatten().cloned().collect()))
    }
}

impl OnStrings {
    /// Numbers instead of strings, the operator, and strings again.
    fn body(&self, given: &[bool], strings: &[bool], outputs: usize) -> Body {
        let mut body = Body::new();
        let kind = self.kind().to_owned();
        let mut values = Vec::with_capacity(given.len());
        for &given in given {
            values.push(given.then(|| {
                let value = body.add_value("given");
                body.add_input(value, ValueType::Unknown, None);
                value
            }));
        }
        let texts: Vec<_> =
            (0..values.len()).filter(|&index| strings[index]).map(|index| values[index]).collect();
        let dictionary = body.add_value("dictionary");
        let mut encoded = vec![Some(dictionary)];
        for (index, value) in values.iter_mut().enumerate() {
            if strings[index] {
                *value = Some(body.add_value("numbers"));
                encoded.push(*value);
            }
        }
        let encode = Host(kind.clone(), host_function(&kind, |inputs| encode(&inputs)));
        body.add_node(&kind, Box::new(encode), texts, encoded);
        let made: Vec<_> = (0..outputs).map(|_| body.add_value("made")).collect();
        let some = made.iter().map(|&value| Some(value)).collect();
        body.add_node(&kind, Box::new(Shared(Arc::clone(&self.numbers))), values, some);
        for (index, &value) in made.iter().enumerate() {
            let is_text = match self.outputs {
                Outputs::All => true,
                Outputs::First => index == 0,
                Outputs::Shape => false,
            };
            let result = match is_text {
                false => value,
                true => {
                    let result = body.add_value("strings");
                    let decode = Host(kind.clone(), host_function(&kind, |inputs| decode(&inputs)));
                    let read = vec![Some(dictionary), Some(value)];
                    body.add_node(&kind, Box::new(decode), read, vec![Some(result)]);
                    result
                }
            };
            body.add_output("result", result, ValueType::Unknown);
        }
        body
    }
}

/// All strings, each once and in order, and the number of each.
fn encode(inputs: &super::super::host::HostInputs<'_>) -> Result<Vec<HostValue>> {
    let mut all: Vec<String> = Vec::new();
    for index in 0..inputs.len() {
        all.extend_from_slice(inputs.strings(index)?.values());
    }
    all.sort_unstable();
    all.dedup();
    let mut results = Vec::with_capacity(inputs.len() + 1);
    for index in 0..inputs.len() {
        let strings = inputs.strings(index)?;
        let numbers = strings.values().iter().map(|text| match all.binary_search(text) {
            Ok(number) | Err(number) => number as i64,
        });
        let numbers: Vec<i64> = numbers.collect();
        results.push(Array::from_slice(&numbers, strings.shape())?.into());
    }
    results.insert(0, Strings::new(&[all.len()], all)?.into());
    Ok(results)
}

fn decode(inputs: &super::super::host::HostInputs<'_>) -> Result<Vec<HostValue>> {
    let (dictionary, numbers) = (inputs.strings(0)?, inputs.array(1)?);
    let texts = numbers.to_i64s()?.into_iter().map(|number| {
        let text = usize::try_from(number).ok().and_then(|number| dictionary.values().get(number));
        text.cloned().ok_or_else(|| refusal("strings are needed where numbers were made"))
    });
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    Ok(vec![Strings::new(numbers.shape(), texts)?.into()])
}

/// An operator that belongs to several nodes.
#[derive(Debug)]
struct Shared(Arc<dyn Operator>);

impl Operator for Shared {
    fn kind(&self) -> &str {
        self.0.kind()
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        self.0.expand(at, inputs)
    }
}

#[derive(Debug)]
struct Host(String, Arc<dyn millstream_graph::HostOperator>);

impl Operator for Host {
    fn kind(&self) -> &str {
        &self.0
    }

    fn expand(&self, _: &mut Expander<'_>, _: &[Option<Value>]) -> Expanded<Vec<Value>> {
        Err(Stop::Host(Arc::clone(&self.1)))
    }
}

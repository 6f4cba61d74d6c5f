use millstream::graph::{Body, Inputs, ModelValue, Outputs, Session, Strings, ValueType};
use millstream::{Device, Tensor};

use super::ModelAnswer;

/// What a model gives that hands on its input.
fn outputs(value: impl Into<ModelValue>) -> Outputs {
    let mut body = Body::new();
    let only = body.add_value("x");
    body.add_input(only, ValueType::Unknown, None);
    body.add_output("x", only, ValueType::Unknown);
    let session = Session::builder(&Device::cpu().unwrap()).build(body).unwrap();
    session.run(Inputs::from(vec![value.into()])).unwrap()
}

fn tensor(values: &[f32], shape: &[usize]) -> ModelValue {
    Tensor::from_slice(values, shape, &Device::cpu().unwrap()).unwrap().into()
}

/// Whether two answers are seen to differ.
fn differ(one: ModelValue, other: ModelValue) -> bool {
    let (one, other) = (outputs(one), outputs(other));
    let (one, other) = (ModelAnswer::of(one).unwrap(), ModelAnswer::of(other).unwrap());
    assert!(one.is(&one.bytes().unwrap()).unwrap());
    let same = one.is(&other.bytes().unwrap()).unwrap();
    assert_eq!(same, one.bytes().unwrap() == other.bytes().unwrap());
    !same
}

#[test]
fn answers_of_other_bits_shapes_or_kinds_differ() {
    let one = || tensor(&[1.0, 2.0], &[2]);
    assert!(!differ(one(), one()));
    assert!(differ(one(), tensor(&[1.0, 2.5], &[2])));
    assert!(differ(one(), tensor(&[1.0, 2.0], &[1, 2])));
    assert!(differ(tensor(&[0.0], &[1]), tensor(&[-0.0], &[1])));
    assert!(differ(one(), tensor(&[1.0], &[1])));
    let texts = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        ModelValue::from(Strings::new(&[texts.len()], texts).unwrap())
    };
    assert!(!differ(texts(&["ab", "c"]), texts(&["ab", "c"])));
    assert!(differ(texts(&["ab", "c"]), texts(&["a", "bc"])));
    let sequence = |values: Vec<ModelValue>| ModelValue::Sequence(values);
    assert!(differ(sequence(vec![one()]), sequence(vec![one(), one()])));
    assert!(!differ(sequence(vec![one()]), sequence(vec![one()])));
}

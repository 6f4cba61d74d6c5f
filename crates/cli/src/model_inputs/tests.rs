use millstream::graph::{Array, Body, Constant, Dim, Port, ValueType};
use millstream::{DType, Device, Tensor};

use super::convert::of_array;
use super::{Arguments, Fill, HostInput, Missing, ModelInputs};
use crate::npy::{Elements, NumpyArray};

fn named(name: &str) -> Dim {
    Dim::Named(name.into())
}

/// The inputs of a model: `ids` of named sizes, `scale` of a fixed one, `a=b` of any shape, `option` with a default.
fn ports() -> Vec<Port> {
    let mut body = Body::new();
    let tensor = |dtype, dims| ValueType::Tensor(dtype, dims);
    let declared = [
        ("ids", tensor(DType::I64, Some(vec![named("batch"), named("length")]))),
        ("scale", tensor(DType::F32, Some(vec![Dim::Known(2)]))),
        ("a=b", tensor(DType::F32, None)),
    ];
    for (name, declared) in declared {
        let value = body.add_value(name);
        body.add_input(value, declared, None);
    }
    let option = body.add_value("option");
    let default = Constant::new(Array::scalar(1f32));
    body.add_input(option, tensor(DType::F32, Some(Vec::new())), Some(default));
    body.inputs().to_vec()
}

fn port(declared: ValueType) -> Port {
    let mut body = Body::new();
    let value = body.add_value("x");
    body.add_input(value, declared, None);
    body.inputs()[0].clone()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn made(ports: &[Port], arguments: &Arguments) -> Result<ModelInputs, String> {
    let made = ModelInputs::new(ports, &[], arguments, (Missing::Refused, Fill::Zeros));
    made.map_err(|error| error.to_string())
}

fn shapes(of: &[&str]) -> Arguments {
    Arguments { shape: texts(of), ..Arguments::default() }
}

#[test]
fn names_may_have_any_characters_and_the_longest_that_fits_is_meant() {
    let given = shapes(&["ids=1x4", "scale=2", "a=b=3"]);
    let notes = made(&ports(), &given).unwrap().notes();
    assert_eq!(
        notes,
        [
            "input ids: i64[1, 4] filled with zeros",
            "input scale: f32[2] filled with zeros",
            "input a=b: f32[3] filled with zeros"
        ]
    );
}

#[test]
fn inputs_that_are_missing_or_unknown_are_named_with_what_the_model_takes() {
    let missing = made(&ports(), &shapes(&["scale=2"])).unwrap_err();
    assert!(missing.contains("\"ids\", \"a=b\" are not given"), "{missing}");
    assert!(missing.contains("ids: i64[batch, length]") && missing.contains("may be left out"));
    let unknown = made(&ports(), &shapes(&["idz=1"])).unwrap_err();
    assert!(unknown.contains("no input \"idz\"") && unknown.contains("scale: f32[2]"), "{unknown}");
    let nameless = made(&ports(), &shapes(&["1x2"])).unwrap_err();
    assert!(nameless.contains("has no name"), "{nameless}");
    let shape = made(&ports(), &shapes(&["ids=1xtwo"])).unwrap_err();
    assert!(shape.contains("as in 1x128"), "{shape}");
}

#[test]
fn sizes_of_named_dimensions_fill_what_is_not_given() {
    let given = Arguments {
        dim: texts(&["batch=2", "length=5"]),
        random: texts(&["a=b=1x2"]),
        ..Arguments::default()
    };
    let notes = made(&ports(), &given).unwrap().notes();
    assert_eq!(
        notes,
        [
            "input ids: i64[2, 5] filled with zeros",
            "input scale: f32[2] filled with zeros",
            "input a=b: f32[1, 2] filled with random numbers in -1..1"
        ]
    );
    let dims = |dim: &str| Arguments { dim: texts(&[dim]), ..shapes(&["a=b=1"]) };
    let unknown = made(&ports(), &dims("rows=2")).unwrap_err();
    assert!(unknown.contains("named are batch, length"), "{unknown}");
    assert!(made(&ports(), &dims("batch=x")).unwrap_err().contains("no size"));
    assert!(made(&ports(), &dims("batch")).unwrap_err().contains("NAME=SIZE"));
    let one = made(&ports(), &dims("batch=2")).unwrap_err();
    assert!(one.contains("\"ids\" is not given"), "{one}");
}

#[test]
fn shapes_of_several_sets_go_together() {
    let given = shapes(&["ids=1x4,1x8", "scale=2", "a=b=1", "a=b=3"]);
    assert_eq!(made(&ports(), &given).unwrap().sets(), 2);
    let given = shapes(&["ids=1x4,1x8", "scale=2", "a=b=1,2,3"]);
    let differ = made(&ports(), &given).unwrap_err();
    assert!(differ.contains("2 shapes") && differ.contains("has 3"), "{differ}");
}

#[test]
fn what_is_given_twice_is_refused() {
    let mut given = shapes(&["ids=1x4", "scale=2", "a=b=1"]);
    given.value = texts(&["scale=[1,2]"]);
    assert!(made(&ports(), &given).unwrap_err().contains("a shape and contents"));
    given.value.clear();
    given.random = texts(&["scale=2"]);
    assert!(made(&ports(), &given).unwrap_err().contains("--shape and --random"));
    let twice = Arguments { value: texts(&["x=1", "x=2"]), ..Arguments::default() };
    let ports = [port(ValueType::Tensor(DType::F32, None))];
    assert!(made(&ports, &twice).unwrap_err().contains("given twice"));
}

#[test]
fn random_numbers_follow_from_seed_and_call_and_stay_in_their_range() {
    let ports = [port(ValueType::Tensor(DType::I64, None))];
    let numbers = |seed: u64, call: usize| {
        let given = Arguments {
            random: texts(&["100"]),
            range: texts(&["x=5..9"]),
            seed,
            ..Arguments::default()
        };
        let inputs = made(&ports, &given).unwrap();
        let array = match &inputs.inputs[0].1 {
            super::Origin::Filled(filled) => {
                let shape = filled.shapes.get(0);
                filled.fill.array(shape, filled.dtype, filled.range, (seed, call, 0)).unwrap()
            }
            other => panic!("{other:?}"),
        };
        array.to_i64s().unwrap()
    };
    let first = numbers(1, 0);
    assert_eq!(first, numbers(1, 0));
    assert_ne!(first, numbers(2, 0));
    assert_ne!(first, numbers(1, 1));
    assert!((5..9).all(|number| first.contains(&number)), "{first:?}");
    assert!(first.iter().all(|number| (5..9).contains(number)), "{first:?}");
    let wrong = Arguments { range: texts(&["x=9..5"]), ..shapes(&["x=1"]) };
    assert!(made(&ports, &wrong).unwrap_err().contains("the first one less"));
}

#[test]
fn a_shape_beyond_memory_is_refused() {
    let ports = [port(ValueType::Tensor(DType::F32, None))];
    let given = shapes(&["x=4294967296x4294967296x4"]);
    let inputs = made(&ports, &given).unwrap();
    let error = inputs.make(&Device::cpu().unwrap(), 0, 0).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    let given = shapes(&["x=1000000000000000"]);
    let inputs = made(&ports, &given).unwrap();
    let error = inputs.make(&Device::cpu().unwrap(), 0, 0).unwrap_err();
    assert!(error.to_string().contains("takes 8000000000000000 bytes"), "{error}");
    let given = shapes(&["x=1x1x1x1x1x1x1x1x1x1x1x1"]);
    let inputs = made(&ports, &given).unwrap();
    assert!(inputs.make(&Device::cpu().unwrap(), 0, 0).is_err());
}

/// What an input of a type makes of an array.
fn converted(wanted: DType, given: DType, bytes: &[u8], cast: bool) -> Result<Array, String> {
    let elements = Elements::Numbers(given);
    let shape = vec![bytes.len() / given.size()];
    let array = NumpyArray { elements, shape, bytes: bytes.to_vec() };
    match of_array(&port(ValueType::Tensor(wanted, None)), &array, cast) {
        Ok(HostInput::Numbers(array)) => Ok(array),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn arrays_of_another_type_are_refused_unless_they_are_to_be_cast() {
    let refused = converted(DType::I64, DType::I32, &[1, 0, 0, 0], false).unwrap_err();
    assert!(refused.contains("i32[1]") && refused.contains("--cast"), "{refused}");
    assert!(refused.contains("input \"x\", which is i64"), "{refused}");
    let cast = converted(DType::I64, DType::I32, &7i32.to_ne_bytes(), true).unwrap();
    assert_eq!(cast.to_i64s().unwrap(), [7]);
}

#[test]
fn types_that_numpy_lacks_come_as_bits_or_as_floats() {
    let one = f32::to_ne_bytes(1.5);
    assert_eq!(converted(DType::BF16, DType::F32, &one, false).unwrap().to_f64s().unwrap(), [1.5]);
    let bits = 0x3fc0u16.to_ne_bytes();
    assert_eq!(converted(DType::BF16, DType::U16, &bits, false).unwrap().to_f64s().unwrap(), [1.5]);
    let float8 = converted(DType::F8E5M2, DType::U8, &[0x3e], false).unwrap();
    assert_eq!(float8.bytes()[..], [0x3e]);
    let nibbles = converted(DType::I4, DType::I8, &[1, 0xff, 7], false).unwrap();
    assert_eq!((nibbles.shape(), &nibbles.bytes()[..]), (&[3][..], &[0xf1, 0x07][..]));
    let raw = NumpyArray { elements: Elements::Raw(2), shape: vec![1], bytes: bits.to_vec() };
    let bf16 = port(ValueType::Tensor(DType::BF16, None));
    assert!(of_array(&bf16, &raw, false).is_ok());
    assert!(of_array(&port(ValueType::Tensor(DType::I16, None)), &raw, false).is_err());
}

fn of_json(declared: ValueType, text: &str) -> Result<HostInput, String> {
    super::json::of_text(&port(declared), text).map_err(|error| error.to_string())
}

#[test]
fn values_are_json() {
    let tensor = |dtype| ValueType::Tensor(dtype, None);
    let numbers = |dtype, text: &str| match of_json(tensor(dtype), text) {
        Ok(HostInput::Numbers(array)) => (array.shape().to_vec(), array.to_f64s().unwrap()),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers(DType::I64, "16000"), (vec![], vec![16000.0]));
    assert_eq!(
        numbers(DType::F32, "[[1, 2.5], [3, true]]"),
        (vec![2, 2], vec![1.0, 2.5, 3.0, 1.0])
    );
    assert_eq!(numbers(DType::F32, "[[], []]"), (vec![2, 0], vec![]));
    assert_eq!(numbers(DType::F32, "\"-inf\""), (vec![], vec![f64::NEG_INFINITY]));
    assert_eq!(numbers(DType::Bool, "[true, false]"), (vec![2], vec![1.0, 0.0]));
    for (dtype, text, says) in [
        (DType::F32, "[[1], [2, 3]]", "one length"),
        (DType::F32, "[1, [2]]", "numbers are needed"),
        (DType::I64, "[1.5]", "integers"),
        (DType::F32, "{}", "numbers are needed"),
        (DType::F32, "[1,", "not valid JSON"),
        (DType::F32, "[\"one\"]", "no number"),
    ] {
        let error = of_json(tensor(dtype), text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn sequences_optionals_maps_and_strings_have_values_too() {
    let sequence = ValueType::Sequence(Box::new(ValueType::Tensor(DType::F32, None)));
    let two = of_json(sequence.clone(), "[[1], [2, 3]]").unwrap();
    assert!(matches!(two, HostInput::Sequence(values) if values.len() == 2));
    assert!(of_json(sequence, "1").unwrap_err().contains("a list"));
    let optional = ValueType::Optional(Box::new(ValueType::Tensor(DType::F32, None)));
    assert!(matches!(of_json(optional, "null").unwrap(), HostInput::Optional(None)));
    let map = ValueType::Map(Box::new(ValueType::Tensor(DType::F32, None)));
    assert!(matches!(of_json(map.clone(), "{\"1\": 2.5}").unwrap(), HostInput::Map(_)));
    assert!(of_json(map, "[1]").unwrap_err().contains("object"));
    let strings = of_json(ValueType::Strings(None), "[\"a\", \"b\"]").unwrap();
    assert!(matches!(strings, HostInput::Strings(strings) if strings.values() == ["a", "b"]));
    assert!(of_json(ValueType::Strings(None), "[1]").unwrap_err().contains("strings are needed"));
}

#[test]
fn inputs_reach_the_device() {
    let device = Device::cpu().unwrap();
    let ports = [port(ValueType::Tensor(DType::F32, None))];
    let given = Arguments { value: texts(&["x=[1, 2]"]), ..Arguments::default() };
    let inputs = made(&ports, &given).unwrap();
    assert!(inputs.notes().is_empty());
    inputs.make(&device, 0, 0).unwrap();
    let Some((_, super::Origin::Given(value))) = inputs.inputs.first() else { panic!() };
    let millstream::graph::ModelValue::Tensor(tensor) = value.value(&device).unwrap() else {
        panic!()
    };
    assert_eq!(Tensor::to_vec::<f32>(&tensor).unwrap(), [1.0, 2.0]);
}

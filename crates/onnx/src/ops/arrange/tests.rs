use std::time::Duration;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::{Array, Batching, Joinable, Session};
use prost::Message;

use crate::proto::tensor_shape_proto::{Dimension, dimension};
use crate::proto::{
    AttributeProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use crate::testing;

fn tensor_type(dims: &[i64]) -> TypeProto {
    let dim = |&size: &i64| Dimension {
        value: Some(dimension::Value::DimValue(size)),
        ..Default::default()
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(1), shape };
    TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() }
}

fn port(name: &str, dims: &[i64]) -> ValueInfoProto {
    ValueInfoProto { r#type: Some(tensor_type(dims)), ..testing::port(name) }
}

/// A node, with a list of integers as its attribute.
fn node(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attribute: Option<(&str, &[i64])>,
) -> NodeProto {
    let attribute = attribute.map(|(name, ints)| AttributeProto {
        name: Some(name.into()),
        r#type: Some(7),
        ints: ints.to_vec(),
        ..Default::default()
    });
    NodeProto {
        attribute: attribute.into_iter().collect(),
        ..testing::node(operator, inputs, output)
    }
}

/// A model that takes one row of 12 numbers, and reshapes it to these shapes, of which the file has constants. Between them it
/// exchanges axes as attention does, and takes a softmax.
fn model(shapes: [&[i64]; 3], batching: Batching) -> Session {
    let shape = |(at, sizes): (usize, &&[i64])| TensorProto {
        name: Some(format!("shape{at}")),
        dims: vec![sizes.len() as i64],
        data_type: Some(7),
        int64_data: sizes.to_vec(),
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![
            node("Reshape", &["x", "shape0"], "heads", None),
            node("Transpose", &["heads"], "moved", Some(("perm", &[0, 2, 1, 3]))),
            node("Reshape", &["moved", "shape1"], "rows", None),
            node("Softmax", &["rows"], "soft", None),
            node("Reshape", &["soft", "shape2"], "y", None),
        ],
        initializer: shapes.iter().enumerate().map(shape).collect(),
        input: vec![port("x", &[1, 12])],
        output: vec![port("y", &[1, 12])],
        ..Default::default()
    };
    let body = crate::from_bytes(testing::model(graph).encode_to_vec()).unwrap();
    Session::builder(&Device::cpu().unwrap()).batching(batching).build(body).unwrap()
}

/// Tensors of these shapes, filled with 1, 2 and so on.
fn filled(shapes: &[&[usize]]) -> Vec<Array> {
    let one = |shape: &&[usize]| {
        let values: Vec<f32> = (1..=shape.iter().product()).map(|value| value as f32).collect();
        Array::from_slice(&values, shape).unwrap()
    };
    shapes.iter().map(one).collect()
}

#[test]
fn empty_tensors_that_do_not_fit_are_left_out_where_tensors_are_joined() {
    let joined = |axis: i64, shapes: &[&[usize]]| {
        let node = testing::node_with("Concat", &["x0", "x1"], "y", &[("axis", axis)]);
        testing::answer(vec![node], &filled(shapes))
    };
    let numbers = |count: usize| (1..=count).map(|value| value as f32).collect::<Vec<f32>>();
    let whole = Ok((vec![2, 3], numbers(6)));
    for axis in [0, 1, -1] {
        for shapes in [[&[0][..], &[2, 3]], [&[2, 3], &[0]], [&[0, 0, 7], &[2, 3]]] {
            assert_eq!(joined(axis, &shapes), whole, "{axis} {shapes:?}");
        }
    }
    assert_eq!(joined(0, &[&[0, 5], &[2, 3]]), whole);
    // A cache of no keys fits, and one that is all there is has its shape.
    assert_eq!(joined(2, &[&[1, 2, 0, 3], &[1, 2, 1, 3]]), Ok((vec![1, 2, 1, 3], numbers(6))));
    assert_eq!(joined(0, &[&[0, 3], &[0, 3]]), Ok((vec![0, 3], vec![])));
    // Tensors that have elements fit, or are refused.
    assert!(joined(0, &[&[2, 3], &[1, 4]]).is_err());
    assert!(joined(2, &[&[0], &[2, 3]]).unwrap_err().contains("axis 2"));
    // The same in a sequence.
    let nodes = || {
        let sequence = testing::node("SequenceConstruct", &["x0", "x1"], "s");
        vec![sequence, testing::node_with("ConcatFromSequence", &["s"], "y", &[("axis", 1)])]
    };
    assert_eq!(testing::answer(nodes(), &filled(&[&[0], &[2, 3]])), whole);
    assert!(testing::answer(nodes(), &filled(&[&[1], &[2, 3]])).is_err());
}

#[test]
fn a_sequence_on_the_host_is_joined_without_empty_tensors_that_do_not_fit() {
    // So many pieces are cut by the host.
    let nodes = vec![
        testing::node_with("SplitToSequence", &["x0"], "pieces", &[("axis", 0), ("keepdims", 1)]),
        testing::node("SequenceInsert", &["pieces", "x1"], "s"),
        testing::node_with("ConcatFromSequence", &["s"], "y", &[("axis", 0)]),
    ];
    let numbers: Vec<f32> = (1..=80).map(|value| value as f32).collect();
    assert_eq!(testing::answer(nodes, &filled(&[&[40, 2], &[0]])), Ok((vec![40, 2], numbers)));
}

#[test]
fn a_size_that_is_left_open_beside_a_zero_is_what_the_others_leave() {
    let reshaped = |allow: i64, from: &[usize], to: &[i64]| {
        let node = testing::node_with("Reshape", &["x0", "x1"], "y", &[("allowzero", allow)]);
        let [x] = &filled(&[from])[..] else { unreachable!() };
        let to = Array::vector(to).unwrap();
        testing::answer(vec![node], &[x.clone(), to]).map(|(shape, _)| shape)
    };
    assert_eq!(reshaped(1, &[0, 4], &[0, -1]), Ok(vec![0, 4]));
    assert_eq!(reshaped(1, &[0, 4], &[-1, 0]), Ok(vec![4, 0]));
    assert_eq!(reshaped(1, &[0, 4], &[0, -1, 2]), Ok(vec![0, 2, 2]));
    assert_eq!(reshaped(0, &[0, 4], &[2, -1]), Ok(vec![2, 0]));
    for (allow, from, to) in
        [(1, &[2, 2][..], &[0, -1][..]), (1, &[0, 4], &[0, -1, 3]), (0, &[0, 4], &[0, -1])]
    {
        let error = reshaped(allow, from, to).unwrap_err();
        assert!(error.contains("has no view of shape"), "{error}");
    }
}

/// It cannot be a place: nothing would lie between any start and it.
#[test]
fn the_largest_numbers_are_an_open_end_backwards_too() {
    let sliced = |start: i64, end: i64, step: i64| {
        let node = testing::node("Slice", &["x0", "x1", "x2", "x3", "x4"], "y");
        let mut inputs = filled(&[&[5]]);
        inputs.extend([start, end, 0, step].map(|number| Array::vector(&[number]).unwrap()));
        testing::answer(vec![node], &inputs).unwrap().1
    };
    for end in [i64::MAX, i64::from(i32::MAX), i64::MIN, -6] {
        assert_eq!(sliced(3, end, -1), [4.0, 3.0, 2.0, 1.0]);
        assert_eq!(sliced(-1, end, -2), [5.0, 3.0, 1.0]);
    }
    // Other numbers beyond the end are the last place.
    assert_eq!(sliced(3, i64::MAX - 1, -1), [0.0; 0]);
    assert_eq!(sliced(3, i64::MAX, 1), [4.0, 5.0]);
}

fn row(seed: usize) -> Array {
    let values: Vec<f32> = (0..12).map(|at| ((at * 7 + seed * 5) % 13) as f32 * 0.3).collect();
    Array::from_slice(&values, &[1, 12]).unwrap()
}

#[test]
fn shapes_that_are_fixed_for_one_row_grow_with_the_batch() {
    let fixed: [[&[i64]; 3]; 5] = [
        [&[1, 2, 2, 3], &[1, 2, 6], &[1, 12]],
        [&[1, 2, 2, 3], &[1, 2, -1], &[1, -1]],
        // Heads are on the axis of the batch for a while.
        [&[1, 2, 2, 3], &[2, 2, 3], &[1, 12]],
        [&[1, -1, 2, 3], &[-1, 3], &[1, 12]],
        [&[3, 2, 2, 1], &[1, 12], &[1, 12]],
    ];
    for shapes in fixed {
        // The first call waits for the others.
        let batching = Batching::new().always().in_flight(1).most(4);
        let session = model(shapes, batching.max_delay(Duration::from_secs(60)));
        let alone = model(shapes, Batching::off());
        session.warm_up(&[("x", &[1, 12])]).unwrap();
        let found = session.joinable(&[("x", &[1, 12])]).unwrap();
        assert_eq!(found, Joinable::Yes { axes: vec![("x".into(), Some(0))] }, "{shapes:?}");
        let answer = |session: &Session, seed: usize| -> Vec<u32> {
            let outputs = session.run([("x", row(seed))]).unwrap();
            outputs.read::<f32>("y").unwrap().iter().map(|value| value.to_bits()).collect()
        };
        std::thread::scope(|scope| {
            let call = |seed: usize| {
                let session = &session;
                scope.spawn(move || answer(session, seed))
            };
            let calls: Vec<_> = (0..4).map(call).collect();
            for (seed, call) in calls.into_iter().enumerate() {
                assert_eq!(call.join().unwrap(), answer(&alone, seed), "{shapes:?}");
            }
        });
        let stats = session.batching_stats();
        assert_eq!((stats.sizes[3], stats.repeated), (1, 0), "{stats}");
    }
}

/// However shapes grow, a softmax over all numbers that there are is one over all calls.
#[test]
fn a_shape_that_joins_the_numbers_of_all_calls_is_refused() {
    let session = model([&[1, 2, 2, 3], &[-1], &[1, 12]], Batching::new());
    let found = session.joinable(&[("x", &[1, 12])]).unwrap();
    assert!(matches!(&found, Joinable::No { node: Some(_), .. }), "{found}");
}

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

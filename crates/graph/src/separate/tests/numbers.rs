//! Scales that each call has of its own.

use millstream_core::{Activation, DynamicRange, Rescale};

use super::*;

const CALLS: usize = 5;

/// The proof of the graph of a batch in which each call has its own scales. None if there is no such graph.
fn segmented_proof(build: Build) -> Option<Result<Vec<Share>, Obstacle>> {
    let (folder, shares) = (folder(), [Share::Parts(0)]);
    let batch = segmented(&of(build, CALLS), CALLS, &shares, &folder)?;
    Some(prove(&of(build, 1), &batch, CALLS, &shares, &folder))
}

fn quantized(graph: &mut Graph, x: Edge, range: DynamicRange) -> [Edge; 3] {
    let op = NodeOp::Op(Op::DynamicQuantize { range, dtype: DType::U8 });
    let made = graph.add_node(op, &[x]).unwrap();
    [made[0], made[1], made[2]]
}

/// The product of quantized numbers with weights of this many rows.
fn product(graph: &mut Graph, [values, scale, zero]: [Edge; 3], rows: usize) -> Edge {
    let weights: Vec<i8> = (0..rows as i8 * 2).collect();
    let weights = Array::from_slice(&weights, &[rows, 2]).unwrap();
    let weights = graph.add_constant(Constant::new(weights));
    let weight_scale = constant(graph, &[0.5], &[]);
    let rescale = Some(Rescale {
        dtype: DType::F32,
        bias: false,
        residual: false,
        activation: Activation::None,
        zero: false,
    });
    let op = Op::MatMulInteger { a_zero: true, b_zero: false, rescale };
    add(graph, op, &[values, weights, zero, scale, weight_scale])
}

#[test]
fn one_scale_for_all_calls_is_refused() {
    let text = refusal(|graph, x, _| {
        let made = quantized(graph, x, DynamicRange::Tensor);
        product(graph, made, 4)
    });
    assert!(text.contains("one scale for all calls"), "{text}");
}

#[test]
fn a_product_with_the_scale_of_its_own_call_can_be_joined() {
    let builds: [Build; 3] = [
        |graph, x, _| {
            let made = quantized(graph, x, DynamicRange::Tensor);
            product(graph, made, 4)
        },
        // The rows of a call are on an axis behind that of the calls.
        |graph, x, calls| {
            let x = view(graph, View::Reshape(Sizes::from_slice(&[calls, 3, 4])), x);
            let made = quantized(graph, x, DynamicRange::Tensor);
            product(graph, made, 4)
        },
        // They are put on the axis of the calls behind the quantization.
        |graph, x, calls| {
            let x = view(graph, View::Reshape(Sizes::from_slice(&[calls, 3, 4])), x);
            let [values, scale, zero] = quantized(graph, x, DynamicRange::Tensor);
            let rows = View::Reshape(Sizes::from_slice(&[calls * 3, 4]));
            let values = view(graph, rows, values);
            product(graph, [values, scale, zero], 4)
        },
    ];
    for build in builds {
        assert_eq!(segmented_proof(build), Some(Ok(vec![Share::Parts(0)])));
    }
}

/// As in graphs that no pass has been through, and as the input of a recurrent layer is rounded.
#[test]
fn scales_are_followed_through_what_is_computed_of_them() {
    let computed = segmented_proof(|graph, x, _| {
        let [values, scale, _] = quantized(graph, x, DynamicRange::Tensor);
        let half = constant(graph, &[0.5], &[]);
        let scale = add(graph, binary(BinaryOp::Mul), &[scale, half]);
        let cast = Op::Copy { dtype: DType::F32, saturate: true };
        let values = add(graph, cast, &[values]);
        add(graph, binary(BinaryOp::Mul), &[values, scale])
    });
    assert_eq!(computed, Some(Ok(vec![Share::Parts(0)])));
    let rounded = segmented_proof(|graph, x, calls| {
        let x = view(graph, View::Reshape(Sizes::from_slice(&[calls, 3, 4])), x);
        let x = view(graph, View::Permute(Sizes::from_slice(&[1, 0, 2])), x);
        let made = quantized(graph, x, DynamicRange::Tensor);
        let op = Op::Dequantize { axis: None, dtype: DType::F32, zero: true, block: None };
        add(graph, op, &made)
    });
    assert_eq!(rounded, Some(Ok(vec![Share::Parts(1)])));
}

/// What is read in another way stays as it is, and is refused by the proof.
#[test]
fn scales_that_are_read_in_another_way_are_left_alone() {
    let builds: [Build; 3] = [
        |graph, x, _| quantized(graph, x, DynamicRange::Tensor)[1],
        |graph, x, _| {
            let [values, scale, _] = quantized(graph, x, DynamicRange::Tensor);
            let scale = view(graph, View::Reshape(Sizes::from_slice(&[1, 1])), scale);
            let cast = Op::Copy { dtype: DType::F32, saturate: true };
            let values = add(graph, cast, &[values]);
            add(graph, binary(BinaryOp::Mul), &[values, scale])
        },
        |graph, x, _| {
            let [_, scale, _] = quantized(graph, x, DynamicRange::Tensor);
            let several = constant(graph, &[1.0, 2.0], &[2]);
            add(graph, binary(BinaryOp::Mul), &[scale, several])
        },
    ];
    for build in builds {
        assert_eq!(segmented_proof(build), None);
        assert!(proof(build).is_err());
    }
}

/// The proof does not trust who wrote the graph of the batch.
#[test]
fn scales_of_other_parts_than_the_calls_are_refused() {
    let single = of(
        |graph, x, _| {
            let made = quantized(graph, x, DynamicRange::Tensor);
            product(graph, made, 4)
        },
        1,
    );
    // Parts of an axis, and whether call `i` reads the scale of call `i + 1`.
    let batch = |axis: u8, parts: u32, exchanged: bool| {
        let mut graph = Graph::new();
        let x = graph.add_input(spec(&[3 * CALLS, 4]));
        let range = DynamicRange::Parts { axis, parts };
        let [values, mut scale, zero] = quantized(&mut graph, x, range);
        let count = parts as usize;
        if exchanged {
            let slice = |start, count| View::Slice { axis: 0, start, count, step: 1 };
            let others = view(&mut graph, slice(1, count - 1), scale);
            let first = view(&mut graph, slice(0, 1), scale);
            scale = graph.add_node(NodeOp::Concat { axis: 0 }, &[others, first]).unwrap()[0];
        }
        let rows = 3 * CALLS / count;
        let repeated = [scale, zero].map(|edge| {
            let apart = View::Reshape(Sizes::from_slice(&[count, 1]));
            let apart = view(&mut graph, apart, edge);
            let wide = View::Broadcast(Sizes::from_slice(&[count, rows]));
            let wide = view(&mut graph, wide, apart);
            view(&mut graph, View::Reshape(Sizes::from_slice(&[count * rows, 1])), wide)
        });
        let made = match axis {
            0 => product(&mut graph, [values, repeated[0], repeated[1]], 4),
            _ => view(&mut graph, View::Reshape(Sizes::from_slice(&[CALLS, 12])), values),
        };
        graph.add_output(made);
        graph
    };
    let proof = |batch: &Graph| prove(&single, batch, CALLS, &[Share::Parts(0)], &folder());
    assert_eq!(proof(&batch(0, CALLS as u32, false)), Ok(vec![Share::Parts(0)]));
    for wrong in [
        batch(0, CALLS as u32, true),
        batch(0, 3 * CALLS as u32, false),
        batch(0, 3, false),
        batch(1, 1, false),
    ] {
        assert!(proof(&wrong).is_err(), "{wrong:?}");
    }
}

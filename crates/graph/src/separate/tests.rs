mod numbers;

use millstream_core::{BinaryOp, DType, Device, Op, ReduceOp, UnaryOp};

use super::*;
use crate::Array;
use crate::constant::Constant;
use crate::graph::NodeOp;
use crate::view::{Sizes, View};

fn spec(shape: &[usize]) -> millstream_core::TensorSpec {
    millstream_core::TensorSpec::new(DType::F32, shape).unwrap()
}

fn folder() -> Folder {
    Folder::new(&Device::cpu().unwrap(), 1 << 30).unwrap()
}

/// Builds the graph of so many calls of 3 rows of 4.
type Build = fn(&mut Graph, Edge, usize) -> Edge;

fn add(graph: &mut Graph, op: Op, inputs: &[Edge]) -> Edge {
    graph.add_node(NodeOp::Op(op), inputs).unwrap()[0]
}

fn view(graph: &mut Graph, view: View, input: Edge) -> Edge {
    graph.add_node(NodeOp::View(view), &[input]).unwrap()[0]
}

fn of(build: Build, calls: usize) -> Graph {
    let mut graph = Graph::new();
    let input = graph.add_input(spec(&[3 * calls, 4]));
    let output = build(&mut graph, input, calls);
    graph.add_output(output);
    graph
}

fn proof(build: Build) -> Result<Vec<Share>, Obstacle> {
    let shares = [Share::Parts(0)];
    prove(&of(build, 1), &of(build, 5), 5, &shares, &folder())
}

fn refusal(build: Build) -> String {
    proof(build).unwrap_err().to_string()
}

fn constant(graph: &mut Graph, values: &[f32], shape: &[usize]) -> Edge {
    graph.add_constant(Constant::new(Array::from_slice(values, shape).unwrap()))
}

fn binary(op: BinaryOp) -> Op {
    Op::Binary { op }
}

#[test]
fn what_is_computed_row_by_row_can_be_joined() {
    let rows = proof(|graph, x, _| {
        let bias = constant(graph, &[1.0, 2.0, 3.0, 4.0], &[4]);
        let sum = add(graph, binary(BinaryOp::Add), &[x, bias]);
        let weights = constant(graph, &[0.5; 8], &[4, 2]);
        let product = Op::MatMul { epilogue: millstream_core::Epilogue::default() };
        let product = add(graph, product, &[sum, weights]);
        add(graph, Op::Softmax { axis: 1, log: false }, &[product])
    });
    assert_eq!(rows, Ok(vec![Share::Parts(0)]));
}

#[test]
fn the_axis_of_the_calls_is_followed_through_views() {
    let moved = proof(|graph, x, calls| {
        let cut = View::Reshape(Sizes::from_slice(&[calls, 3, 2, 2]));
        let cut = view(graph, cut, x);
        let moved = view(graph, View::Permute(Sizes::from_slice(&[2, 1, 0, 3])), cut);
        add(graph, Op::Unary { op: UnaryOp::Exp }, &[moved])
    });
    assert_eq!(moved, Ok(vec![Share::Parts(2)]));
}

#[test]
fn a_sum_over_the_calls_is_refused() {
    let text = refusal(|graph, x, _| {
        let axes = millstream_core::Axes::new(&[0]).unwrap();
        add(graph, Op::Reduce { op: ReduceOp::Sum, axes }, &[x])
    });
    assert!(text.contains("combines axis 0 of f32[15, 4]"), "{text}");
}

/// A number that is made of the size of the batch is another one in the graph of a call.
#[test]
fn the_size_of_the_batch_must_not_get_into_values() {
    let text = refusal(|graph, x, calls| {
        let scale = constant(graph, &[calls as f32], &[]);
        add(graph, binary(BinaryOp::Mul), &[x, scale])
    });
    assert!(text.contains("has another value in a batch"), "{text}");
}

#[test]
fn a_constant_that_differs_from_call_to_call_is_refused() {
    let text = refusal(|graph, x, calls| {
        let values: Vec<f32> = (0..3 * calls).map(|row| row as f32).collect();
        let places = constant(graph, &values, &[3 * calls, 1]);
        add(graph, binary(BinaryOp::Add), &[x, places])
    });
    assert!(text.contains("differs along it"), "{text}");
}

#[test]
fn a_constant_that_repeats_for_each_call_is_none_that_differs() {
    let repeats = proof(|graph, x, calls| {
        let values: Vec<f32> = (0..3 * calls).map(|row| (row % 3) as f32).collect();
        let places = constant(graph, &values, &[3 * calls, 1]);
        add(graph, binary(BinaryOp::Add), &[x, places])
    });
    assert_eq!(repeats, Ok(vec![Share::Parts(0)]));
}

/// As the class token of a vision transformer, which is put before the patches of every picture.
#[test]
fn what_is_repeated_for_every_call_is_each_calls_own() {
    let joined = proof(|graph, x, calls| {
        let x = view(graph, View::Reshape(Sizes::from_slice(&[calls, 3, 4])), x);
        let token = constant(graph, &[7.0; 4], &[1, 1, 4]);
        let shape = Sizes::from_slice(&[calls, 1, 4]);
        let tokens = match calls {
            1 => token,
            _ => view(graph, View::Broadcast(shape), token),
        };
        graph.add_node(NodeOp::Concat { axis: 1 }, &[tokens, x]).unwrap()[0]
    });
    assert_eq!(joined, Ok(vec![Share::Parts(0)]));
}

#[test]
fn a_reshape_that_joins_calls_with_their_columns_is_refused() {
    let text = refusal(|graph, x, calls| {
        let transposed = view(graph, View::Permute(Sizes::from_slice(&[1, 0])), x);
        view(graph, View::Reshape(Sizes::from_slice(&[2, 6 * calls])), transposed)
    });
    assert!(text.contains("joins parts of several calls"), "{text}");
}

/// The graphs do the same to each row, but not the same as each other.
#[test]
fn a_batch_that_computes_something_else_is_refused() {
    let text = refusal(|graph, x, calls| {
        let op = if calls == 1 { UnaryOp::Exp } else { UnaryOp::Tanh };
        add(graph, Op::Unary { op }, &[x])
    });
    assert!(text.contains("computes unary"), "{text}");
}

#[test]
fn an_output_without_calls_is_the_same_for_all() {
    let mut graphs = [1usize, 4].map(|calls| {
        let mut graph = of(|graph, x, _| add(graph, Op::Unary { op: UnaryOp::Abs }, &[x]), calls);
        let seven = constant(&mut graph, &[7.0], &[]);
        graph.add_output(seven);
        graph
    });
    let [single, batch] = &mut graphs;
    let shares = prove(single, batch, 4, &[Share::Parts(0)], &folder());
    assert_eq!(shares, Ok(vec![Share::Parts(0), Share::Whole]));
}

/// Index pairs of rows and columns, the rows counted from `first` by `step`.
fn pairs(graph: &mut Graph, rows: usize, [first, step]: [i64; 2]) -> Edge {
    let pair = |at: usize| [first + step * (at / 2) as i64, (at % 2) as i64];
    let numbers: Vec<i64> = (0..2 * rows).flat_map(pair).collect();
    graph.add_constant(Constant::new(Array::from_slice(&numbers, &[rows, 2, 2]).unwrap()))
}

/// As the mask of an attention that is gathered by the number of the row.
#[test]
fn a_gather_by_the_number_of_the_row_reads_the_own_call() {
    let own = proof(|graph, x, calls| {
        let pairs = pairs(graph, 3 * calls, [0, 1]);
        add(graph, Op::GatherNd { batch_axes: 0 }, &[x, pairs])
    });
    assert_eq!(own, Ok(vec![Share::Parts(0)]));
}

/// The rows are counted in a tensor of their own, which is repeated and joined with that of the columns.
#[test]
fn rows_that_are_counted_apart_from_the_columns_are_found_too() {
    let own = proof(|graph, x, calls| {
        // So many that they are not computed ahead.
        let wide = Sizes::from_slice(&[3 * calls, 4096, 1]);
        let numbers: Vec<i64> = (0..3 * calls as i64).collect();
        let rows = Array::from_slice(&numbers, &[3 * calls, 1, 1]).unwrap();
        let rows = graph.add_constant(Constant::new(rows));
        let rows = view(graph, View::Broadcast(wide.clone()), rows);
        let columns = Array::from_slice(&[3i64], &[1, 1, 1]).unwrap();
        let columns = graph.add_constant(Constant::new(columns));
        let columns = view(graph, View::Broadcast(wide), columns);
        let pairs = graph.add_node(NodeOp::Concat { axis: 2 }, &[rows, columns]).unwrap()[0];
        add(graph, Op::GatherNd { batch_axes: 0 }, &[x, pairs])
    });
    assert_eq!(own, Ok(vec![Share::Parts(0)]));
}

#[test]
fn a_gather_from_the_row_of_another_call_is_refused() {
    for wrong in [[0, 0], [0, 2], [1, 1], [-1, 1]] {
        let build = |calls: usize| {
            let mut graph = Graph::new();
            let x = graph.add_input(spec(&[3 * calls, 4]));
            let pairs = pairs(&mut graph, 3 * calls, wrong);
            let made = add(&mut graph, Op::GatherNd { batch_axes: 0 }, &[x, pairs]);
            graph.add_output(made);
            graph
        };
        let proof = prove(&build(1), &build(5), 5, &[Share::Parts(0)], &folder());
        assert!(proof.is_err(), "{wrong:?}");
    }
}

/// Operations that combine an axis, on the axis of the calls.
#[test]
fn the_axis_of_the_calls_must_not_be_combined() {
    let combining: [Build; 4] = [
        |graph, x, _| add(graph, Op::Softmax { axis: 0, log: false }, &[x]),
        |graph, x, _| {
            let sum = Op::CumSum { axis: 0, exclusive: false, reverse: false, product: false };
            add(graph, sum, &[x])
        },
        |graph, x, _| {
            let norm = Op::LayerNorm {
                axes: 2,
                epsilon: 1e-5,
                weight: false,
                bias: false,
                moments: false,
            };
            add(graph, norm, &[x])
        },
        |graph, x, _| {
            let ones = constant(graph, &[1.0; 12], &[4, 3]);
            let product = Op::MatMul { epilogue: millstream_core::Epilogue::default() };
            let square = add(graph, product.clone(), &[x, ones]);
            let transposed = view(graph, View::Permute(Sizes::from_slice(&[1, 0])), square);
            add(graph, product, &[transposed, square])
        },
    ];
    for build in combining {
        let text = refusal(build);
        assert!(text.contains("which is that of the calls"), "{text}");
    }
}

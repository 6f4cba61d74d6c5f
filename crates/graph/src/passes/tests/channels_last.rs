//! Which edges lie with the channels last, and that the answers stay.

use millstream_core::{ConvParams, MAX_RANK, PoolKind, PoolOrder, PoolParams, ResizeMode};
use millstream_core::{CoordinateMode, NearestRounding, ResizeParams};

use super::*;
use crate::Pass;
use crate::constant::Recipe;

fn conv(w: &mut Writer, x: Edge, outputs: usize, groups: usize) -> Edge {
    let channels = w.graph.shape(x)[1] / groups;
    let weight = w.weights(&[outputs, channels, 3, 3], outputs as u32);
    let params = Box::new(ConvParams {
        pad_before: [1, 1, 0],
        pad_after: [1, 1, 0],
        groups: groups as u32,
        ..ConvParams::new(2)
    });
    w.op(Op::Conv { params, epilogue: Epilogue::default() }, &[x, weight])
}

fn transposed(w: &mut Writer, x: Edge, outputs: usize) -> Edge {
    let weight = w.weights(&[w.graph.shape(x)[1], outputs, 2, 2], 5);
    let params = Box::new(ConvParams { stride: [2, 2, 1], ..ConvParams::new(2) });
    w.op(Op::ConvTranspose { params, epilogue: Epilogue::default() }, &[x, weight])
}

fn pool(w: &mut Writer, x: Edge) -> Edge {
    let params = PoolParams {
        kind: PoolKind::Max,
        spatial: 2,
        kernel: [2, 2, 1],
        stride: [2, 2, 1],
        pad_before: [0; 3],
        pad_after: [0; 3],
        dilation: [1; 3],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    };
    w.op(Op::Pool { params: Box::new(params) }, &[x])
}

fn twice(w: &mut Writer, x: Edge) -> Edge {
    let shape = w.graph.shape(x).to_vec();
    let mut scales = [1.0; MAX_RANK];
    scales[2..4].fill(2.0);
    let mut sizes = [1; MAX_RANK];
    sizes[..4].copy_from_slice(&[shape[0], shape[1], shape[2] * 2, shape[3] * 2]);
    let params = ResizeParams {
        mode: ResizeMode::Nearest(NearestRounding::Floor),
        coordinates: CoordinateMode::Asymmetric,
        scales,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
        sizes: sizes.map(|size| size as _),
    };
    w.op(Op::Resize { params: Box::new(params) }, &[x])
}

/// The edges of a graph that lie with the channels last, after the pass.
fn marked(w: &Writer, outputs: &[Edge]) -> Vec<String> {
    let mut graph = w.graph.clone();
    outputs.iter().for_each(|&output| graph.add_output(output));
    Passes::only(Pass::ChannelsLast).run(&mut graph, &w.folder).unwrap();
    let last = |node: &&crate::graph::Node| graph.is_channels_last(node.outputs[0]);
    graph.nodes().iter().filter(last).map(|node| label(&node.op)).collect()
}

#[test]
fn what_stands_between_convolutions_lies_as_they_do() {
    let mut w = Writer::new();
    let x = w.input(&[2, 3, 8, 8]);
    let first = conv(&mut w, x, 16, 1);
    let active = w.unary(UnaryOp::Silu, first);
    let part = View::Slice { axis: 1, start: 0, count: 8, step: 1 };
    let part = w.add(NodeOp::View(part), &[active]);
    let joined = w.add(NodeOp::Concat { axis: 1 }, &[part, active]);
    let small = pool(&mut w, joined);
    let deep = conv(&mut w, small, 24, 24);
    let large = twice(&mut w, deep);
    let mean = w.mean(large, &[2, 3]);
    let gate = w.binary(BinaryOp::Mul, large, mean);
    let up = transposed(&mut w, gate, 17);
    let few = conv(&mut w, up, 2, 1);
    let flat = w.reshape(gate, &[2, 24 * 64]);
    let outputs = [few, flat, first, joined];
    assert_eq!(
        marked(&w, &outputs),
        [
            "conv",
            "Silu",
            "slice",
            "concat",
            "pool",
            "conv",
            "resize",
            "Mul",
            "conv_transpose",
            "conv"
        ]
    );
    let (_, expected) = w.run(&outputs, &Passes::none());
    for passes in [Passes::only(Pass::ChannelsLast), Passes::all()] {
        let (names, found) = w.run(&outputs, &passes);
        assert_close(&found, &expected, &names);
    }
}

#[test]
fn few_channels_groups_and_weights_of_a_call_stay_as_they_are() {
    let mut w = Writer::new();
    let x = w.input(&[1, 32, 6, 6]);
    let few = conv(&mut w, x, 15, 1);
    let grouped = conv(&mut w, x, 32, 4);
    let weight = w.input(&[16, 32, 1, 1]);
    let params = Box::new(ConvParams::new(2));
    let called = w.op(Op::Conv { params, epilogue: Epilogue::default() }, &[x, weight]);
    assert!(marked(&w, &[few, grouped, called]).is_empty());
}

/// Kernels read the numbers of all output channels at once. Other orders give the same answers, later.
#[test]
fn the_output_channels_of_weights_lie_last() {
    for (is_transposed, wanted) in [(false, [2, 3, 1, 0]), (true, [2, 3, 0, 1])] {
        let mut w = Writer::new();
        let x = w.input(&[1, 16, 4, 4]);
        let first = conv(&mut w, x, 24, 1);
        let made = if is_transposed { transposed(&mut w, first, 32) } else { first };
        let mut graph = w.graph.clone();
        graph.add_output(made);
        Passes::only(Pass::ChannelsLast).run(&mut graph, &w.folder).unwrap();
        let lowered = lower(&graph, &w.folder).unwrap();
        let Recipe::Computed { op: NodeOp::View(View::Permute(order)), .. } =
            lowered.constants[usize::from(is_transposed)].recipe()
        else {
            panic!("the weights are as the model has them");
        };
        assert_eq!(order[..], wanted);
    }
}

/// Plans of both orders read one copy of the weights each, and no plan reads two.
#[test]
fn weights_are_there_once() {
    let mut w = Writer::new();
    let x = w.input(&[1, 16, 4, 4]);
    let first = conv(&mut w, x, 16, 1);
    let mut graph = w.graph.clone();
    graph.add_output(first);
    Passes::only(Pass::ChannelsLast).run(&mut graph, &w.folder).unwrap();
    let lowered = lower(&graph, &w.folder).unwrap();
    let again = lower(&graph, &w.folder).unwrap();
    assert_eq!(lowered.constants.len(), 1);
    assert_eq!(lowered.constants, again.constants);
}

//! Passes find what they look for, and keep the answers.

mod channels_last;
mod found;
mod kept;
mod quantized;
mod random;

use millstream_core::{
    BinaryOp, DType, Device, Epilogue, Op, ReduceOp, Scalar, Stream, TensorSpec, UnaryOp,
};
use millstream_nn::Tensor;

use super::Passes;
use crate::Array;
use crate::build::Builder;
use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, NodeOp};
use crate::lower::lower;
use crate::view::{Sizes, View};

/// A graph that is being written by hand.
pub(super) struct Writer {
    pub graph: Graph,
    pub folder: Folder,
}

impl Writer {
    pub fn new() -> Self {
        let device = Device::cpu().unwrap();
        Self { graph: Graph::new(), folder: Folder::new(&device, 1 << 30).unwrap() }
    }

    pub fn input(&mut self, shape: &[usize]) -> Edge {
        self.graph.add_input(TensorSpec::new(DType::F32, shape).unwrap())
    }

    pub fn add(&mut self, op: NodeOp, inputs: &[Edge]) -> Edge {
        Builder { graph: &mut self.graph, folder: &self.folder }.add_one(op, inputs).unwrap()
    }

    pub fn op(&mut self, op: Op, inputs: &[Edge]) -> Edge {
        self.add(NodeOp::Op(op), inputs)
    }

    pub fn unary(&mut self, op: UnaryOp, input: Edge) -> Edge {
        self.op(Op::Unary { op }, &[input])
    }

    pub fn binary(&mut self, op: BinaryOp, a: Edge, b: Edge) -> Edge {
        self.op(Op::Binary { op }, &[a, b])
    }

    pub fn number(&mut self, value: f32) -> Edge {
        self.graph.add_constant(Constant::new(Array::scalar(value)))
    }

    /// A constant of numbers that differ.
    pub fn weights(&mut self, shape: &[usize], seed: u32) -> Edge {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count as u32)
            .map(|at| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.4)
            .collect();
        self.graph.add_constant(Constant::new(Array::from_slice(&values, shape).unwrap()))
    }

    pub fn matmul(&mut self, a: Edge, b: Edge) -> Edge {
        self.op(Op::MatMul { epilogue: Epilogue::default() }, &[a, b])
    }

    pub fn mean(&mut self, input: Edge, axes: &[usize]) -> Edge {
        let axes = millstream_core::Axes::new(axes).unwrap();
        self.op(Op::Reduce { op: ReduceOp::Mean, axes }, &[input])
    }

    pub fn reshape(&mut self, input: Edge, shape: &[usize]) -> Edge {
        self.add(NodeOp::View(View::Reshape(Sizes::from_slice(shape))), &[input])
    }

    pub fn permute(&mut self, input: Edge, order: &[usize]) -> Edge {
        self.add(NodeOp::View(View::Permute(Sizes::from_slice(order))), &[input])
    }

    /// The names of the nodes after these passes, and the answers.
    pub fn run(&self, outputs: &[Edge], passes: &Passes) -> (Vec<String>, Vec<Vec<f32>>) {
        let mut graph = self.graph.clone();
        outputs.iter().for_each(|&output| graph.add_output(output));
        passes.run(&mut graph, &self.folder).unwrap();
        let names = graph.nodes().iter().map(|node| label(&node.op)).collect();
        let lowered = lower(&graph, &self.folder).unwrap();
        let device = *self.folder.device();
        let stream = Stream::current_unleased(&device).unwrap();
        let inputs: Vec<Tensor> = lowered
            .inputs
            .iter()
            .map(|&input| {
                let shape = graph.shape(graph.inputs()[input]);
                Tensor::randn(shape, input as u64 + 1, DType::F32, &device).unwrap()
            })
            .collect();
        let results: Vec<Tensor> = lowered
            .outputs
            .iter()
            .map(|layout| {
                let buffer = stream.allocate(layout.dense_bytes()).unwrap();
                Tensor::from_buffer(buffer, *layout).unwrap()
            })
            .collect();
        if let Some(plan) = &lowered.plan {
            let read: Vec<_> = inputs.iter().map(Tensor::buffer).collect();
            let written: Vec<_> = results.iter().map(Tensor::buffer).collect();
            stream.run(plan, &read, &written).unwrap();
        }
        let values = results.iter().map(|result| match result.dtype() {
            DType::F32 => result.to_vec::<f32>().unwrap(),
            _ => result.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        });
        (names, values.collect())
    }

    /// The same answers with all passes as with none; the names of the nodes with all.
    pub fn check(&self, outputs: &[Edge]) -> Vec<String> {
        let (_, expected) = self.run(outputs, &Passes::none());
        let (names, found) = self.run(outputs, &Passes::all());
        assert_close(&found, &expected, &names);
        names
    }
}

pub(super) fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>], what: &[String]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let close = (found - expected).abs() <= 1e-5 + 1e-4 * expected.abs();
            let equal = found == expected || (found.is_nan() && expected.is_nan());
            assert!(close || equal, "element {at}: {found} for {expected} in {what:?}");
        }
    }
}

pub(super) fn limits(min: f32, max: f32) -> Op {
    Op::Clip { min: Some(Scalar::from(min)), max: Some(Scalar::from(max)) }
}

/// What a node does, with the function for an elementwise one.
fn label(op: &NodeOp) -> String {
    match op {
        NodeOp::Op(Op::Unary { op }) => format!("{op:?}"),
        NodeOp::Op(Op::Binary { op }) => format!("{op:?}"),
        other => other.name().to_owned(),
    }
}

/// Whether one of the nodes does this.
pub(super) fn has(names: &[String], wanted: &str) -> bool {
    names.iter().any(|name| name == wanted)
}

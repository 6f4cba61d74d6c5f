//! Small models for tests.

use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};

/// A value of a graph, of which nothing but the name is said.
pub(crate) fn port(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.into()), ..Default::default() }
}

/// A node without attributes.
pub(crate) fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: Some(format!("make_{output}")),
        op_type: Some(operator.into()),
        input: inputs.iter().map(|&input| input.into()).collect(),
        output: vec![output.into()],
        ..Default::default()
    }
}

/// The model of a graph.
pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(graph),
        ..Default::default()
    }
}

/// A model of one node, whose output is `y`.
pub(crate) fn model_of_node(operator: &str, inputs: &[&str]) -> ModelProto {
    model(GraphProto {
        node: vec![node(operator, inputs, "y")],
        input: inputs.iter().map(|&input| port(input)).collect(),
        output: vec![port("y")],
        ..Default::default()
    })
}

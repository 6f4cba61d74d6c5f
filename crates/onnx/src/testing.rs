//! Small models for tests.

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::{Array, Session};
use prost::Message;

use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
};

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

/// A node whose attributes are integers.
pub(crate) fn node_with(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[(&str, i64)],
) -> NodeProto {
    let attribute = |&(name, value): &(&str, i64)| AttributeProto {
        name: Some(name.into()),
        r#type: Some(2),
        i: Some(value),
        ..Default::default()
    };
    NodeProto {
        attribute: attributes.iter().map(attribute).collect(),
        ..node(operator, inputs, output)
    }
}

/// The same of `com.microsoft`.
pub(crate) fn microsoft(node: NodeProto) -> NodeProto {
    NodeProto { domain: Some("com.microsoft".into()), ..node }
}

/// What nodes, of which one makes `y`, make of inputs `x0`, `x1` and so on: shape and numbers, or the error in words.
pub(crate) fn answer(
    nodes: Vec<NodeProto>,
    inputs: &[Array],
) -> Result<(Vec<usize>, Vec<f32>), String> {
    answer_of_version(17, nodes, inputs)
}

/// The same by an operator set.
pub(crate) fn answer_of_version(
    version: i64,
    nodes: Vec<NodeProto>,
    inputs: &[Array],
) -> Result<(Vec<usize>, Vec<f32>), String> {
    let names: Vec<String> = (0..inputs.len()).map(|at| format!("x{at}")).collect();
    let graph = GraphProto {
        node: nodes,
        input: names.iter().map(|name| port(name)).collect(),
        output: vec![port("y")],
        ..Default::default()
    };
    let words = |error: crate::Error| error.to_string();
    let mut model = model(graph);
    model.opset_import[0].version = Some(version);
    let body = crate::from_bytes(model.encode_to_vec()).map_err(words)?;
    let device = Device::builder("cpu").threads(1).open().map_err(words)?;
    let session = Session::builder(&device).build(body).map_err(words)?;
    let given = names.iter().zip(inputs).map(|(name, input)| (name.as_str(), input.clone()));
    let outputs = session.run(given.collect::<Vec<_>>()).map_err(words)?;
    let shape = outputs.tensor("y").map_err(words)?.shape().to_vec();
    Ok((shape, outputs.read("y").map_err(words)?.into_owned()))
}

/// The model of a graph.
pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![
            OperatorSetIdProto { domain: None, version: Some(17) },
            OperatorSetIdProto { domain: Some("com.microsoft".into()), version: Some(1) },
        ],
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

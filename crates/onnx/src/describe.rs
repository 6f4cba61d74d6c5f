//! What a file says of itself, also if it cannot be run.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use millstream_graph::{ModelInfo, NodeInfo, OperatorSet, PortInfo};

use crate::dtypes::{dtype, is_string};
use crate::external::ExternalFiles;
use crate::model::{Model, NEWEST_OPSET, Opsets, domain};
use crate::proto::tensor_proto::{DataLocation, DataType};
use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use crate::value_types::value_type;
use crate::{Result, import, registry};

/// Reads what a file says of itself: inputs, outputs, operators, weights, and why it cannot be run if that is so.
///
/// # Errors
///
/// A file that cannot be read or is no ONNX model. All else that is wrong is in
/// [`problems`](millstream_graph::ModelInfo::problems).
pub fn describe(path: impl AsRef<Path>) -> Result<ModelInfo> {
    let path = path.as_ref();
    let proto = import::decode_file(path)?;
    let mut info = ModelInfo::new("ONNX");
    info.facts = facts(&proto);
    info.opsets = proto.opset_import.iter().map(opset).collect();
    let functions = proto.functions.iter().map(|function| {
        let (name, overload) = (function.name.as_deref(), function.overload.as_deref());
        function_key(function.domain.as_deref(), name, overload)
    });
    let functions: HashSet<FunctionKey<'_>> = functions.collect();
    if let Some(graph) = &proto.graph {
        let defaults: HashSet<Option<&str>> =
            graph.initializer.iter().map(|tensor| tensor.name.as_deref()).collect();
        // Up to version 3 all initializers are inputs, and nobody may give them.
        let overridable = proto.ir_version.unwrap_or(0) > 3;
        for input in &graph.input {
            let has_default = defaults.contains(&input.name.as_deref());
            if overridable || !has_default {
                info.inputs.push(port(input, has_default));
            }
        }
        info.outputs = graph.output.iter().map(|output| port(output, false)).collect();
        let opsets: Opsets = info.opsets.iter().cloned().collect();
        Describing { info: &mut info, functions: &functions }.graph(graph, "", &opsets);
    }
    for function in &proto.functions {
        let opsets: Opsets = function.opset_import.iter().map(opset).collect();
        let place = format!("function {}", function.name.as_deref().unwrap_or(""));
        Describing { info: &mut info, functions: &functions }.nodes(
            &function.node,
            &place,
            &opsets,
        );
    }
    info.problems = problems(&proto, path);
    Ok(info)
}

/// The operators that are known here, by domain. Of ONNX's own domain the versions are given; other domains are read
/// whatever version a file says.
pub fn operators() -> Vec<OperatorSet> {
    let set = |(name, kinds): (&str, BTreeSet<&'static str>)| {
        let versions = name.is_empty().then_some((1, NEWEST_OPSET));
        OperatorSet::new(name, versions, kinds.into_iter().collect())
    };
    registry::names().into_iter().map(set).collect()
}

fn facts(proto: &ModelProto) -> Vec<(String, String)> {
    let graph = proto.graph.as_ref();
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            facts.push((name.to_owned(), text));
        }
    };
    add("producer", proto.producer_name.clone());
    add("producer version", proto.producer_version.clone());
    add("IR version", proto.ir_version.map(|version| version.to_string()));
    add("domain", proto.domain.clone());
    add("model version", proto.model_version.map(|version| version.to_string()));
    add("graph", graph.and_then(|graph| graph.name.clone()));
    add("description", proto.doc_string.clone());
    for entry in &proto.metadata_props {
        add(entry.key.as_deref().unwrap_or(""), entry.value.clone());
    }
    facts
}

fn opset(import: &OperatorSetIdProto) -> (String, i64) {
    (domain(import.domain.as_deref()).to_owned(), import.version.unwrap_or(0))
}

fn port(value: &crate::proto::ValueInfoProto, has_default: bool) -> PortInfo {
    PortInfo::new(
        value.name.clone().unwrap_or_default(),
        value_type(value.r#type.as_ref()),
        has_default,
    )
}

/// Domain, name and overload of a function.
type FunctionKey<'a> = (&'a str, &'a str, &'a str);

fn function_key<'a>(
    own_domain: Option<&'a str>,
    name: Option<&'a str>,
    overload: Option<&'a str>,
) -> FunctionKey<'a> {
    (domain(own_domain), name.unwrap_or(""), overload.unwrap_or(""))
}

struct Describing<'a> {
    info: &'a mut ModelInfo,
    functions: &'a HashSet<FunctionKey<'a>>,
}

impl Describing<'_> {
    fn graph(&mut self, graph: &GraphProto, place: &str, opsets: &Opsets) {
        for tensor in &graph.initializer {
            self.weights(tensor);
        }
        for sparse in &graph.sparse_initializer {
            sparse.values.iter().chain(&sparse.indices).for_each(|tensor| self.weights(tensor));
        }
        self.nodes(&graph.node, place, opsets);
    }

    fn nodes(&mut self, nodes: &[NodeProto], place: &str, opsets: &Opsets) {
        for node in nodes {
            let name = domain(node.domain.as_deref());
            let kind = node.op_type.as_deref().unwrap_or("");
            let mut made = NodeInfo::new(node.name.clone().unwrap_or_default(), kind);
            made.domain = name.to_owned();
            made.version = opsets.get(name).copied().unwrap_or(0);
            made.place = place.to_owned();
            made.inputs = node.input.clone();
            made.outputs = node.output.clone();
            made.is_supported = registry::find(name, kind).is_some() || self.is_function(node);
            let label = label(node).to_owned();
            self.info.nodes.push(made);
            for attribute in &node.attribute {
                attribute
                    .t
                    .iter()
                    .chain(&attribute.tensors)
                    .for_each(|tensor| self.weights(tensor));
                let inner = attribute.name.as_deref().unwrap_or("");
                for graph in attribute.g.iter().chain(&attribute.graphs) {
                    let before = if place.is_empty() { String::new() } else { format!("{place}/") };
                    self.graph(graph, &format!("{before}{label}/{inner}"), opsets);
                }
            }
        }
    }

    fn is_function(&self, node: &NodeProto) -> bool {
        let (name, overload) = (node.op_type.as_deref(), node.overload.as_deref());
        self.functions.contains(&function_key(node.domain.as_deref(), name, overload))
    }

    fn weights(&mut self, tensor: &TensorProto) {
        let number = tensor.data_type.unwrap_or(0);
        let sizes = tensor.dims.iter().map(|&size| u64::try_from(size).unwrap_or(0));
        let elements = sizes.fold(1, u64::saturating_mul);
        let external = tensor.data_location == Some(DataLocation::External as i32);
        let (name, bytes) = match dtype(number) {
            Ok(dtype) => {
                let bytes = elements.div_ceil(dtype.per_byte() as u64);
                (dtype.name().to_owned(), bytes.saturating_mul(dtype.size() as u64))
            }
            Err(_) if is_string(number) => {
                ("string".into(), tensor.string_data.iter().map(|text| text.len() as u64).sum())
            }
            Err(_) => {
                let raw = tensor.raw_data.as_ref().map_or(0, |raw| raw.len() as u64);
                let kind = DataType::try_from(number).map(|kind| kind.as_str_name().to_lowercase());
                (kind.unwrap_or_else(|_| format!("type {number}")), raw)
            }
        };
        self.info.add_weights(&name, elements, bytes, external);
    }
}

/// The name of a node, or what stands for it in messages.
fn label(node: &NodeProto) -> &str {
    let name = node.name.as_deref().filter(|name| !name.is_empty());
    name.or(node.output.first().map(String::as_str)).or(node.op_type.as_deref()).unwrap_or("")
}

/// Why a file cannot be run, one by one.
fn problems(proto: &ModelProto, path: &Path) -> Vec<crate::Error> {
    let problems = match Model::new(proto, ExternalFiles::of(path)) {
        Ok(model) => model.problems(),
        Err(error) => vec![error],
    };
    problems.into_iter().map(|error| import::in_file(path, error)).collect()
}

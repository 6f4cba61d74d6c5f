//! What a model file holds, and what its nodes cost.

use std::path::Path;
use std::process::ExitCode;

use millstream::graph::{
    Dim, Joinable, ModelInfo, NodeTime, PortInfo, Session, SessionStats, ValueType, WeightInfo,
};
use millstream::{Error, Result};
use serde_json::{Value, json};

use super::{Arguments, drawing, size};
use crate::model_inputs::{Fill, Missing, ModelInputs};
use crate::operator_uses::{OperatorUse, domain_name, uses};
use crate::{progress, table};

/// Nodes whose cost is shown as a table; JSON has all of them.
const SHOWN: usize = 20;

/// What a call of the model needed.
struct Cost {
    nodes: Vec<NodeTime>,
    stats: SessionStats,
    joinable: Joinable,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let info = ModelInfo::open(&arguments.path)?;
    for (path, draw) in
        [(&arguments.dot, drawing::dot as fn(&ModelInfo) -> String), (&arguments.svg, drawing::svg)]
    {
        if let Some(path) = path {
            std::fs::write(path, draw(&info)).map_err(|error| Error::write(path, error))?;
            eprintln!("graph written to {}", path.display());
        }
    }
    let cost = match arguments.inputs.is_given() || !arguments.input.is_empty() {
        true => Some(measure(&arguments.path, arguments)?),
        false => None,
    };
    if arguments.json {
        println!("{}", as_json(&info, cost.as_ref()));
    } else {
        print(&info, cost.as_ref());
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls the model once to compile it, and once more to see what its nodes cost.
fn measure(path: &Path, arguments: &Arguments) -> Result<Cost> {
    let device = arguments.device.open()?;
    let progress = progress::spinner("opening the model");
    let session = Session::open(path, &device)?;
    let filled = (Missing::Filled, Fill::Zeros);
    let inputs = ModelInputs::new(session.inputs(), &arguments.input, &arguments.inputs, filled)?;
    progress.suspend(|| inputs.notes().iter().for_each(|note| eprintln!("{note}")));
    let given = inputs.make(&device, 0, 0)?;
    progress.set_message("compiling, and the first call");
    session.run(given.clone())?.wait()?;
    progress.set_message("measuring a call");
    let nodes = session.profile(given.clone())?;
    let stats = session.stats();
    progress.set_message("whether calls can be joined");
    let joinable = session.joinable_with(given)?;
    progress.finish_and_clear();
    Ok(Cost { nodes, stats, joinable })
}

fn print(info: &ModelInfo, cost: Option<&Cost>) {
    println!("format: {}", info.format);
    for (name, text) in &info.facts {
        println!("{name}: {}", one_line(text));
    }
    for (domain, version) in &info.opsets {
        println!("operator set: {} {version}", domain_name(domain));
    }
    println!();
    let ports = |kind: &str, ports: &[PortInfo]| {
        let rows: Vec<_> = ports
            .iter()
            .map(|port| {
                let default = if port.has_default { "may be left out" } else { "" };
                vec![port.name.clone(), port.declared.to_string(), default.to_owned()]
            })
            .collect();
        table::print(&[kind, "type", ""], &rows);
        println!();
    };
    ports("input", &info.inputs);
    ports("output", &info.outputs);
    print_operators(&uses(info));
    for weights in &info.weights {
        println!("{}", weights_words(weights));
    }
    if let Some(cost) = cost {
        print_cost(info, cost);
    }
    for problem in &info.problems {
        println!("problem: {problem}");
    }
}

fn print_operators(operators: &[OperatorUse<'_>]) {
    let rows: Vec<_> = operators
        .iter()
        .map(|one| {
            let supported = if one.is_supported { "" } else { "not supported" };
            vec![
                one.operator.to_owned(),
                domain_name(one.domain).to_owned(),
                one.version.to_string(),
                one.nodes.len().to_string(),
                one.inner().to_string(),
                supported.to_owned(),
            ]
        })
        .collect();
    table::print(&["operator", "domain", "version", "nodes", "of these in bodies", ""], &rows);
    let nodes: usize = operators.iter().map(|one| one.nodes.len()).sum();
    println!("\n{nodes} nodes of {} operators", operators.len());
}

fn print_cost(info: &ModelInfo, cost: &Cost) {
    let Cost { nodes, stats, joinable } = cost;
    println!(
        "\n{} nodes became {} Commands in {} plans; a call takes {} for temporary values, weights {}",
        info.nodes.len(),
        stats.commands,
        stats.stages,
        size(stats.largest_arena),
        size(stats.weight_bytes)
    );
    println!("{joinable}");
    let total: f64 = nodes.iter().map(|node| node.time.as_secs_f64()).sum();
    let rows: Vec<_> = nodes
        .iter()
        .take(SHOWN)
        .map(|node| {
            let share = node.time.as_secs_f64() / total.max(1e-12);
            vec![
                node.node.clone(),
                node.commands.to_string(),
                format!("{:.1}", node.time.as_secs_f64() * 1e6),
                format!("{:.1} %", share * 100.0),
            ]
        })
        .collect();
    table::print(&["node", "Commands", "µs", "share"], &rows);
    if nodes.len() > SHOWN {
        println!("and {} more; --json has all", nodes.len() - SHOWN);
    }
}

/// A text of a file, which may be long.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 120;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn weights_words(weights: &WeightInfo) -> String {
    let WeightInfo { dtype, tensors, elements, bytes, external_bytes, .. } = weights;
    let bytes_of = |bytes: u64| size(usize::try_from(bytes).unwrap_or(usize::MAX));
    let outside = match external_bytes {
        0 => String::new(),
        outside => format!(", {} of it in other files", bytes_of(*outside)),
    };
    format!("{dtype}: {tensors} tensors, {elements} elements, {}{outside}", bytes_of(*bytes))
}

fn as_json(info: &ModelInfo, cost: Option<&Cost>) -> Value {
    let port = |port: &PortInfo| {
        let (dtype, shape) = tensor_json(&port.declared);
        json!({
            "name": port.name,
            "type": port.declared.to_string(),
            "dtype": dtype,
            "shape": shape,
            "has_default": port.has_default,
        })
    };
    let facts = info.facts.iter().map(|(name, text)| (name.clone(), json!(text)));
    let opset = |(domain, version): &(String, i64)| json!({ "domain": domain_name(domain), "version": version });
    let operator = |one: &OperatorUse<'_>| {
        json!({
            "operator": one.operator,
            "domain": domain_name(one.domain),
            "version": one.version,
            "nodes": one.nodes.len(),
            "nodes_in_bodies": one.inner(),
            "supported": one.is_supported,
        })
    };
    let weights = |one: &WeightInfo| {
        json!({
            "dtype": one.dtype,
            "tensors": one.tensors,
            "elements": one.elements,
            "bytes": one.bytes,
            "external_bytes": one.external_bytes,
        })
    };
    json!({
        "format": info.format,
        "facts": facts.collect::<serde_json::Map<_, _>>(),
        "opsets": info.opsets.iter().map(opset).collect::<Vec<_>>(),
        "inputs": info.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": info.outputs.iter().map(port).collect::<Vec<_>>(),
        "nodes": info.nodes.len(),
        "operators": uses(info).iter().map(operator).collect::<Vec<_>>(),
        "weights": info.weights.iter().map(weights).collect::<Vec<_>>(),
        "problems": info.problems.iter().map(Error::to_string).collect::<Vec<_>>(),
        "cost": cost.map(cost_json),
    })
}

/// Element type and shape of a tensor, with names of dimensions where those are all that is known. What is not known, or no
/// tensor, is null.
fn tensor_json(declared: &ValueType) -> (Value, Value) {
    let (dtype, dims) = match declared {
        ValueType::Tensor(dtype, dims) => (json!(dtype.name()), dims),
        ValueType::Strings(dims) => (json!("string"), dims),
        ValueType::Sequence(_)
        | ValueType::Optional(_)
        | ValueType::Map(_)
        | ValueType::Unknown => return (Value::Null, Value::Null),
    };
    let dim = |dim: &Dim| match dim {
        Dim::Known(size) => json!(size),
        Dim::Named(name) => json!(name),
        Dim::Unknown => Value::Null,
    };
    (dtype, dims.as_ref().map(|dims| dims.iter().map(dim).collect()).unwrap_or(Value::Null))
}

fn cost_json(cost: &Cost) -> Value {
    let node = |node: &NodeTime| {
        json!({
            "node": node.node,
            "commands": node.commands,
            "us": node.time.as_secs_f64() * 1e6,
        })
    };
    json!({
        "joinable": matches!(cost.joinable, Joinable::Yes { .. }),
        "joinable_why": cost.joinable.to_string(),
        "plans": cost.stats.stages,
        "commands": cost.stats.commands,
        "arena_bytes": cost.stats.largest_arena,
        "weight_bytes": cost.stats.weight_bytes,
        "nodes": cost.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

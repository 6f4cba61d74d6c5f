//! `millstream check`: whether models can be run, and if not, why.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use millstream::graph::{ModelInfo, NodeInfo, Session};
use millstream::{Error, Result};
use serde_json::{Value, json};

use crate::choice::DeviceChoice;
use crate::model_inputs::{self, Fill, Missing, ModelInputs};
use crate::operator_uses::{OperatorUse, domain_name, uses};
use crate::{progress, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The models, `.onnx` files.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// The contents of an input, as for `run`. With inputs or shapes the models are also called once.
    #[arg(long, value_name = "NAME=FILE.npy")]
    input: Vec<String>,
    #[command(flatten)]
    inputs: model_inputs::Arguments,
    #[command(flatten)]
    device: DeviceChoice,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// Nodes that are named for each operator; the others are counted.
const NAMED: usize = 5;

/// What was found out about a model.
struct Finding<'a> {
    path: &'a Path,
    info: ModelInfo,
    /// What is wrong with it, other than operators that are not supported.
    problems: Vec<String>,
    called: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let bar = progress::bar(arguments.models.len());
    let mut findings = Vec::new();
    for path in &arguments.models {
        bar.set_message(path.display().to_string());
        findings.push(bar.suspend(|| look_at(path, arguments)));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if arguments.json {
        let models: Vec<Value> = findings.iter().map(Finding::json).collect();
        println!("{}", json!({ "models": models }));
    } else {
        let several = findings.len() > 1;
        findings.iter().for_each(|finding| finding.print(several));
    }
    let clean = findings.iter().all(Finding::is_clean);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a model, and calls it if inputs are given.
fn look_at<'a>(path: &'a Path, arguments: &Arguments) -> Finding<'a> {
    let info = match ModelInfo::open(path) {
        Ok(info) => info,
        Err(error) => {
            let (info, problems) = (ModelInfo::default(), vec![error.to_string()]);
            return Finding { path, info, problems, called: false };
        }
    };
    // Operators that are not known are listed with their nodes.
    let is_listed = |error: &&Error| !matches!(error, Error::Operators { .. });
    let mut problems: Vec<String> =
        info.problems.iter().filter(is_listed).map(Error::to_string).collect();
    let called =
        (!arguments.input.is_empty() || arguments.inputs.is_given()) && info.problems.is_empty();
    if called {
        problems.extend(call(path, arguments).err().map(|error| error.to_string()));
    }
    Finding { path, info, problems, called }
}

/// Calls a model once with each set of inputs: what is wrong with shapes and contents shows then.
fn call(path: &Path, arguments: &Arguments) -> Result<()> {
    let device = arguments.device.open()?;
    let session = Session::open(path, &device)?;
    let filled = (Missing::Filled, Fill::Zeros);
    let inputs = ModelInputs::new(session.inputs(), &arguments.input, &arguments.inputs, filled)?;
    inputs.notes().iter().for_each(|note| eprintln!("{note}"));
    for set in 0..inputs.sets() {
        session.run(inputs.make(&device, set, 0)?)?.wait()?;
    }
    Ok(())
}

impl Finding<'_> {
    fn is_clean(&self) -> bool {
        self.info.problems.is_empty() && self.problems.is_empty()
    }

    /// The operators that keep the model from being run. Those that no output needs do not.
    fn missing(&self) -> Vec<OperatorUse<'_>> {
        let keeps = |error: &Error| matches!(error, Error::Operators { .. });
        if !self.info.problems.iter().any(keeps) {
            return Vec::new();
        }
        uses(&self.info).into_iter().filter(|one| !one.is_supported).collect()
    }

    fn print(&self, with_path: bool) {
        if with_path {
            println!("{}", self.path.display());
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let rows: Vec<_> = missing.iter().map(row).collect();
            table::print(&["not supported", "domain", "version", "nodes", "where"], &rows);
            println!();
        }
        for problem in &self.problems {
            println!("problem: {problem}");
        }
        let (nodes, operators) = (self.info.nodes.len(), uses(&self.info).len());
        let outcome = match (self.is_clean(), self.called) {
            (true, false) => "the model can be run".to_owned(),
            (true, true) => "the model can be run, and was called".to_owned(),
            (false, _) => {
                let (missing, problems) = (missing.len(), self.problems.len());
                format!("{missing} operators are not supported, {problems} problems")
            }
        };
        println!("{nodes} nodes of {operators} operators: {outcome}");
        if with_path {
            println!();
        }
    }

    fn json(&self) -> Value {
        let operator = |one: &OperatorUse<'_>| {
            let nodes: Vec<String> = one.nodes.iter().map(|node| named(node)).collect();
            json!({
                "operator": one.operator,
                "domain": domain_name(one.domain),
                "version": one.version,
                "nodes": nodes,
            })
        };
        json!({
            "path": self.path.display().to_string(),
            "supported": self.is_clean(),
            "called": self.called,
            "nodes": self.info.nodes.len(),
            "unsupported": self.missing().iter().map(operator).collect::<Vec<_>>(),
            "problems": self.problems,
        })
    }
}

fn row(one: &OperatorUse<'_>) -> Vec<String> {
    vec![
        one.operator.to_owned(),
        domain_name(one.domain).to_owned(),
        one.version.to_string(),
        one.nodes.len().to_string(),
        places(&one.nodes),
    ]
}

/// The first nodes of some, in words.
fn places(nodes: &[&NodeInfo]) -> String {
    let mut names: Vec<String> = nodes.iter().take(NAMED).map(|node| named(node)).collect();
    if nodes.len() > NAMED {
        names.push(format!("and {} more", nodes.len() - NAMED));
    }
    names.join(", ")
}

/// A node by its name, or by what it makes if it has none, with the branch or function that it stands in.
fn named(node: &NodeInfo) -> String {
    let made = || node.outputs.first().map_or("", String::as_str);
    let name = if node.name.is_empty() { made() } else { &node.name };
    if node.place.is_empty() { name.to_owned() } else { format!("{} in {}", name, node.place) }
}

#[cfg(test)]
mod tests;

//! Graphs of a file, and the bodies that are made of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::MissingOperator;
use millstream_graph::{Body, Constant, ModelValue, Operator, Stop, ValueId, ValueType};

use crate::attributes::Attributes;
use crate::external::ExternalFiles;
use crate::node::{NodeDef, SubBody, operator};
use crate::order::sorted;
use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::tensor::{Literal, literal};
use crate::value_types::value_type;
use crate::{Error, Result, registry};

/// Calls of functions within functions.
const MAX_LEVELS: usize = 32;

/// Nodes of a model with all its branches and functions.
const MAX_NODES: usize = 1 << 20;

/// How long importing may take. Files within the limits take seconds; one that is made to take long ends with an error.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Versions of operator sets, by domain.
pub(crate) type Opsets = HashMap<String, i64>;

/// ONNX's own domain has two names.
pub(crate) fn domain(name: Option<&str>) -> &str {
    match name {
        None | Some("ai.onnx") => "",
        Some(name) => name,
    }
}

/// A file that is being imported.
pub(crate) struct Model<'m> {
    proto: &'m ModelProto,
    files: ExternalFiles,
    functions: HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>,
    /// What is not supported: all of it is reported at once.
    missing: RefCell<BTreeMap<(String, String), MissingOperator>>,
    /// Nodes that are not as they should be, where all of them are asked for. Else the first one ends the import.
    wrong: Option<RefCell<Vec<Error>>>,
    nodes: Cell<usize>,
    /// When importing must have ended.
    deadline: Instant,
}

/// Problems that are listed; further ones are left out.
const MAX_PROBLEMS: usize = 1000;

impl<'m> Model<'m> {
    pub fn new(proto: &'m ModelProto, files: ExternalFiles) -> Result<Self> {
        let mut functions = HashMap::new();
        for function in &proto.functions {
            let name = function.name.as_deref().unwrap_or("");
            let overload = function.overload.as_deref().unwrap_or("");
            let key = (domain(function.domain.as_deref()), name, overload);
            if functions.insert(key, function).is_some() {
                return Err(invalid(format!("two functions are named {name:?}")));
            }
        }
        let (missing, nodes) = (RefCell::default(), Cell::new(0));
        let deadline = Instant::now() + MAX_TIME;
        Ok(Self { proto, files, functions, missing, wrong: None, nodes, deadline })
    }

    /// Why the model cannot be run, as far as that can be seen without shapes.
    pub fn problems(mut self) -> Vec<Error> {
        self.wrong = Some(RefCell::default());
        let end = self.import().err();
        let mut problems = self.wrong.map(RefCell::into_inner).unwrap_or_default();
        problems.extend(end);
        problems
    }

    /// Goes on behind a node that is wrong, if all of them are asked for.
    fn note(&self, error: Error) -> Result<()> {
        match &self.wrong {
            Some(wrong) if wrong.borrow().len() < MAX_PROBLEMS => {
                wrong.borrow_mut().push(error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    pub fn files(&self) -> &ExternalFiles {
        &self.files
    }

    /// The body of the model.
    pub fn import(&self) -> Result<Body> {
        let Some(graph) = &self.proto.graph else {
            return Err(invalid("the model has no graph".into()));
        };
        let opsets = opsets(&self.proto.opset_import)?;
        let scope = Scope { model: self, opsets: &opsets, bound: None, level: 0 };
        // Up to version 3 all initializers are inputs, and nobody may give them.
        let overridable = self.proto.ir_version.unwrap_or(0) > 3;
        let names = Names::new(None);
        let (body, captured) = scope.import(graph, &names, overridable)?;
        let missing: Vec<MissingOperator> = self.missing.take().into_values().collect();
        if !missing.is_empty() {
            return Err(Error::Operators { missing });
        }
        match captured.first() {
            Some(name) => Err(invalid(format!("{name:?} is read and nobody makes it"))),
            None => Ok(body),
        }
    }

    fn count_node(&self) -> Result<()> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > MAX_NODES {
            return Err(invalid(format!("more than {MAX_NODES} nodes")));
        }
        if Instant::now() > self.deadline {
            return Err(invalid(format!("importing takes longer than {MAX_TIME:?}")));
        }
        Ok(())
    }
}

pub(crate) fn invalid(reason: String) -> Error {
    Error::Format { path: "model".into(), reason }
}

/// The newest operator set whose operators are known here.
pub(crate) const NEWEST_OPSET: i64 = 28;

fn opsets(imports: &[crate::proto::OperatorSetIdProto]) -> Result<Opsets> {
    let mut opsets = Opsets::new();
    for import in imports {
        let name = domain(import.domain.as_deref());
        let version = import.version.unwrap_or(0);
        if name.is_empty() && !(1..=NEWEST_OPSET).contains(&version) {
            let reason = format!("operator set {version} is not one of 1 to {NEWEST_OPSET}");
            return Err(invalid(reason));
        }
        // Twice is once: the newer counts.
        let known = opsets.entry(name.to_owned()).or_insert(version);
        *known = version.max(*known);
    }
    if opsets.is_empty() {
        return Err(invalid("no operator set is imported".into()));
    }
    Ok(opsets)
}

/// What the names of a body stand for while it is made.
pub(crate) struct Names<'a> {
    values: RefCell<HashMap<String, ValueId>>,
    constants: RefCell<HashMap<String, Known>>,
    /// Inputs of a function that a call does not give.
    absent: RefCell<Vec<String>>,
    outer: Option<&'a Names<'a>>,
}

#[derive(Clone)]
enum Known {
    Constant(Constant),
    Value(Arc<ModelValue>),
}

impl<'a> Names<'a> {
    pub fn new(outer: Option<&'a Names<'a>>) -> Self {
        let (values, constants) = (RefCell::default(), RefCell::default());
        Self { values, constants, absent: RefCell::default(), outer }
    }

    fn constant(&self, name: &str) -> Option<Known> {
        if let Some(known) = self.constants.borrow().get(name) {
            return Some(known.clone());
        }
        if self.values.borrow().contains_key(name) {
            return None;
        }
        self.outer.and_then(|outer| outer.constant(name))
    }

    /// Whether it is an input of the function around that a call does not give. Bodies of branches may read it too.
    fn is_absent(&self, name: &str) -> bool {
        if self.absent.borrow().iter().any(|absent| absent == name) {
            return true;
        }
        let is_own =
            self.values.borrow().contains_key(name) || self.constants.borrow().contains_key(name);
        !is_own && self.outer.is_some_and(|outer| outer.is_absent(name))
    }
}

/// Where a graph stands: its operator sets, and the function whose attributes it may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a, 'm> {
    model: &'a Model<'m>,
    opsets: &'a Opsets,
    bound: Option<&'a HashMap<String, AttributeProto>>,
    level: usize,
}

/// An operator, and the names of the surrounding body that its bodies read.
type Made = (Box<dyn Operator>, Vec<String>);

/// A body that is being made.
struct Making<'a> {
    body: Body,
    names: &'a Names<'a>,
    captured: Vec<String>,
}

impl Making<'_> {
    /// The value of a name. What is not made here is read from the surrounding body.
    fn resolve(&mut self, name: &str) -> Result<Option<ValueId>> {
        if name.is_empty() || self.names.is_absent(name) {
            return Ok(None);
        }
        if let Some(&known) = self.names.values.borrow().get(name) {
            return Ok(Some(known));
        }
        let value = self.body.add_value(name);
        match self.names.constant(name) {
            Some(Known::Constant(constant)) => self.body.set_constant(value, constant),
            Some(Known::Value(known)) => self.body.set_known(value, (*known).clone()),
            None => self.captured.push(name.to_owned()),
        }
        self.names.values.borrow_mut().insert(name.to_owned(), value);
        Ok(Some(value))
    }

    fn define(&mut self, name: &str) -> Result<Option<ValueId>> {
        if name.is_empty() {
            return Ok(None);
        }
        let value = self.body.add_value(name);
        if self.names.values.borrow_mut().insert(name.to_owned(), value).is_some() {
            return Err(invalid(format!("{name:?} is made twice, or read before it is made")));
        }
        Ok(Some(value))
    }
}

impl<'a, 'm> Scope<'a, 'm> {
    pub fn model(&self) -> &'a Model<'m> {
        self.model
    }

    /// The body of a graph that belongs to a node: the body, and the names that it reads of the surrounding body, which
    /// are its last inputs.
    pub fn import_inner(
        &self,
        graph: &GraphProto,
        outer: &Names<'_>,
    ) -> Result<(Body, Vec<String>)> {
        let names = Names::new(Some(outer));
        self.import(graph, &names, false)
    }

    fn import(
        &self,
        graph: &GraphProto,
        names: &Names<'_>,
        overridable: bool,
    ) -> Result<(Body, Vec<String>)> {
        let mut making = Making { body: Body::new(), names, captured: Vec::new() };
        for tensor in &graph.initializer {
            let name = tensor.name.clone().unwrap_or_default();
            let known = known(literal(tensor, self.model.files())?);
            names.constants.borrow_mut().insert(name, known);
        }
        for sparse in &graph.sparse_initializer {
            let name = sparse.values.as_ref().and_then(|values| values.name.clone());
            let dense = crate::tensor::dense(sparse, self.model.files())?;
            let known = Known::Constant(Constant::new(dense));
            names.constants.borrow_mut().insert(name.unwrap_or_default(), known);
        }
        for input in &graph.input {
            let name = input.name.as_deref().unwrap_or("");
            let default = match names.constants.borrow().get(name) {
                Some(_) if !overridable => continue,
                Some(Known::Constant(constant)) => Some(constant.clone()),
                Some(Known::Value(_)) => continue,
                None => None,
            };
            names.constants.borrow_mut().remove(name);
            let Some(value) = making.define(name)? else {
                return Err(invalid("an input has no name".into()));
            };
            making.body.add_input(value, value_type(input.r#type.as_ref()), default);
        }
        let outputs: Vec<&str> =
            graph.output.iter().map(|output| output.name.as_deref().unwrap_or("")).collect();
        self.import_nodes(&graph.node, &outputs, &mut making)?;
        for output in &graph.output {
            let name = output.name.as_deref().unwrap_or("");
            let declared = value_type(output.r#type.as_ref());
            self.add_output(&mut making, name, declared)?;
        }
        Ok(finish(making))
    }

    fn add_output(&self, making: &mut Making<'_>, name: &str, declared: ValueType) -> Result<()> {
        match making.resolve(name)? {
            Some(value) => {
                making.body.add_output(name, value, declared);
                Ok(())
            }
            None => Err(invalid("an output has no name".into())),
        }
    }

    fn import_nodes(
        &self,
        nodes: &[NodeProto],
        outputs: &[&str],
        making: &mut Making<'_>,
    ) -> Result<()> {
        for index in sorted(nodes, outputs)? {
            let node = &nodes[index];
            self.model.count_node()?;
            let imported = self.import_node(node, making).map_err(|error| match error {
                Error::Node { .. } | Error::Operators { .. } | Error::Read { .. } => error,
                error => Error::Node {
                    node: node.name.clone().unwrap_or_default(),
                    operator: node.op_type.clone().unwrap_or_default(),
                    reason: error.to_string(),
                },
            });
            if let Err(error) = imported {
                self.model.note(error)?;
                self.define_outputs(node, making)?;
            }
        }
        Ok(())
    }

    fn import_node(&self, node: &NodeProto, making: &mut Making<'_>) -> Result<()> {
        let kind = node.op_type.as_deref().unwrap_or("");
        let name = domain(node.domain.as_deref());
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            inputs.push(making.resolve(input)?);
        }
        let made = self.operator(node, name, kind, making)?;
        if let Some((operator, captures)) = made {
            for capture in &captures {
                inputs.push(making.resolve(capture)?);
            }
            let mut outputs = Vec::with_capacity(node.output.len());
            for output in &node.output {
                outputs.push(making.define(output)?);
            }
            while outputs.last() == Some(&None) {
                outputs.pop();
            }
            let label = node.name.as_deref().filter(|name| !name.is_empty());
            let label = label.or(node.output.first().map(String::as_str)).unwrap_or(kind);
            making.body.add_node(label, operator, inputs, outputs);
            return Ok(());
        }
        self.define_outputs(node, making)
    }

    /// Gives values to the outputs of a node that has no operator, so that what reads them is looked at too.
    fn define_outputs(&self, node: &NodeProto, making: &mut Making<'_>) -> Result<()> {
        for output in &node.output {
            let is_known = making.names.values.borrow().contains_key(output);
            if !is_known {
                making.define(output)?;
            }
        }
        Ok(())
    }

    /// The operator of a node and the names that its bodies read, or `None` if it is not supported, which is noted.
    fn operator(
        &self,
        node: &NodeProto,
        name: &str,
        kind: &str,
        making: &Making<'_>,
    ) -> Result<Option<Made>> {
        let version = self.opsets.get(name).copied();
        if let Some(make) = registry::find(name, kind) {
            // Other domains than ONNX's own are often used without being imported.
            let version = version.unwrap_or(if name.is_empty() { NEWEST_OPSET } else { 1 });
            let attributes = Attributes::new(&node.attribute, self.bound)?;
            let names = making.names;
            let captures = Vec::new();
            let mut def = NodeDef { node, attributes, version, scope: self, names, captures };
            let operator = crate::ops::on_strings(make(&mut def)?);
            def.attributes.check_all_asked()?;
            return Ok(Some((operator, def.captures)));
        }
        let overload = node.overload.as_deref().unwrap_or("");
        if let Some(function) = self.model.functions.get(&(name, kind, overload)) {
            return self.call(node, function, making).map(Some);
        }
        let mut missing = self.model.missing.borrow_mut();
        let entry = missing.entry((name.to_owned(), kind.to_owned()));
        let entry = entry.or_insert_with(|| MissingOperator {
            operator: kind.to_owned(),
            domain: name.to_owned(),
            version: version.unwrap_or(0),
            nodes: 0,
            first: node.name.clone().unwrap_or_default(),
        });
        entry.nodes += 1;
        Ok(None)
    }

    /// An operator that stands for the nodes of a function.
    fn call(
        &self,
        node: &NodeProto,
        function: &FunctionProto,
        making: &Making<'_>,
    ) -> Result<Made> {
        if self.level >= MAX_LEVELS {
            let reason = format!("functions call each other more than {MAX_LEVELS} deep");
            return Err(invalid(reason));
        }
        let attributes = Attributes::new(&node.attribute, self.bound)?;
        let mut bound: HashMap<String, AttributeProto> = HashMap::new();
        for default in &function.attribute_proto {
            bound.insert(default.name.clone().unwrap_or_default(), default.clone());
        }
        let given: Vec<&str> = attributes.names().collect();
        for given in given {
            if let Some(attribute) = attributes.raw(given) {
                bound.insert(given.to_owned(), attribute.clone());
            }
        }
        let opsets = opsets(&function.opset_import)?;
        let scope = Scope {
            model: self.model,
            opsets: &opsets,
            bound: Some(&bound),
            level: self.level + 1,
        };
        let names = Names::new(None);
        let mut inner = Making { body: Body::new(), names: &names, captured: Vec::new() };
        let mut passed = Vec::new();
        for (index, input) in function.input.iter().enumerate() {
            let given = node
                .input
                .get(index)
                .is_some_and(|name| !name.is_empty() && !making.names.is_absent(name));
            if !given {
                names.absent.borrow_mut().push(input.clone());
                continue;
            }
            let Some(value) = inner.define(input)? else { continue };
            inner.body.add_input(value, ValueType::Unknown, None);
            passed.push(index);
        }
        if node.input.len() > function.input.len() {
            return Err(invalid(format!("{} inputs for a function", node.input.len())));
        }
        let outputs: Vec<&str> = function.output.iter().map(String::as_str).collect();
        let wanted = &outputs[..outputs.len().min(node.output.len())];
        scope.import_nodes(&function.node, wanted, &mut inner)?;
        for output in wanted {
            scope.add_output(&mut inner, output, ValueType::Unknown)?;
        }
        if let Some(name) = inner.captured.first() {
            return Err(invalid(format!("{name:?} is read in a function and nobody makes it")));
        }
        let body = Arc::new(inner.body);
        let names = Attributes::new(&[], None)?;
        let def = NodeDef {
            node,
            attributes: names,
            version: 0,
            scope: self,
            names: making.names,
            captures: Vec::new(),
        };
        let operator = operator(&def, move |_, inputs| {
            let values = passed.iter().map(|&index| inputs.required(index).cloned());
            Err(Stop::Inline(Arc::clone(&body), values.collect::<Result<_, Stop>>()?))
        })?;
        Ok((operator, Vec::new()))
    }
}

fn known(literal: Literal) -> Known {
    match literal {
        Literal::Array(array) => Known::Constant(Constant::new(array)),
        Literal::Strings(strings) => Known::Value(Arc::new(ModelValue::Strings(strings))),
    }
}

/// What is read from outside becomes an input.
fn finish(making: Making<'_>) -> (Body, Vec<String>) {
    let Making { mut body, names, captured } = making;
    for name in &captured {
        let value = names.values.borrow()[name];
        body.add_input(value, ValueType::Unknown, None);
    }
    (body, captured)
}

impl SubBody {
    /// An operator result that is this body in the place of the node.
    pub fn inline(
        &self,
        formal: Vec<millstream_graph::Value>,
        inputs: crate::inputs::Inputs<'_>,
    ) -> Stop {
        match self.values(formal, inputs) {
            Ok(values) => Stop::Inline(Arc::clone(&self.body), values),
            Err(stop) => stop,
        }
    }
}

#[cfg(test)]
mod tests;

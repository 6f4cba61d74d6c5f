//! What is left to be expanded, and expanding as much of it as can be.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_core::TensorSpec;

use super::stage::{Arrival, Form, Produced};
use super::{HostOperator, Settings, node_error};
use crate::constant::Constant;
use crate::expand::{Expander, Opaque, Stop, Value};
use crate::graph::{Edge, Graph, Source};
use crate::model::{Body, Known, OperatorNode, ValueId};
use crate::{Error, Result};

/// The values of a body that is being expanded.
#[derive(Clone, Debug)]
struct Scope {
    body: Arc<Body>,
    values: Vec<Option<Value>>,
}

/// A piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// A node is expanded. What it made before it asked for contents is kept.
    Node { scope: usize, node: usize, kept: Vec<Edge> },
    /// The outputs of a body become those of the node that it stands for.
    Return { from: usize, to: usize, node: usize },
    /// The outputs of a node that the host computes arrive.
    Arrive { scope: usize, node: usize },
}

/// A node that the host computes.
#[derive(Debug)]
pub(super) struct HostNode {
    pub operator: Arc<dyn HostOperator>,
    pub inputs: Vec<Option<Value>>,
    pub outputs: usize,
    pub node: String,
    pub kind: String,
}

/// A body that is being expanded.
pub(super) struct Work {
    pub graph: Graph,
    /// The register that each input of the graph is in.
    pub input_registers: Vec<usize>,
    /// How many registers there are so far.
    pub registers: usize,
    scopes: Vec<Scope>,
    /// The next task is the last.
    stack: Vec<Task>,
    later: Vec<Task>,
    /// Tensors whose contents are needed.
    pub contents: Vec<Edge>,
    pub calls: Vec<HostNode>,
    expanded: usize,
    /// How many stages come before this one.
    stages: usize,
    /// How many calls a batch of 1 stands for that the model fixes.
    pub fixed_calls: usize,
}

/// What is kept of a work for the stages that follow.
#[derive(Debug)]
pub(crate) struct Saved {
    scopes: Vec<SavedScope>,
    tasks: Vec<Task>,
    carried: HashMap<Edge, Carried>,
    contents: Vec<Edge>,
    registers: usize,
    expanded: usize,
    stages: usize,
}

/// The values of a body that are still read. A body may have many more.
#[derive(Debug)]
struct SavedScope {
    body: Arc<Body>,
    values: Vec<(usize, Value)>,
}

#[derive(Clone, Debug)]
enum Carried {
    Register(usize, TensorSpec),
    Constant(Constant),
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "model", reason })
}

impl Scope {
    fn new(body: &Arc<Body>) -> Self {
        Self { body: Arc::clone(body), values: vec![None; body.names.len()] }
    }

    fn node(&self, node: usize) -> &OperatorNode {
        &self.body.nodes[node]
    }
}

/// Tasks for all nodes of a body, the first one last.
fn tasks_of(body: &Body, scope: usize) -> impl Iterator<Item = Task> + use<> {
    (0..body.nodes.len()).rev().map(move |node| Task::Node { scope, node, kept: Vec::new() })
}

impl Work {
    fn empty() -> Self {
        Self {
            graph: Graph::new(),
            input_registers: Vec::new(),
            registers: 0,
            scopes: Vec::new(),
            stack: Vec::new(),
            later: Vec::new(),
            contents: Vec::new(),
            calls: Vec::new(),
            expanded: 0,
            stages: 0,
            fixed_calls: 1,
        }
    }

    /// A body whose inputs have these forms.
    pub fn new(body: &Arc<Body>, forms: &[Form]) -> Result<Self> {
        if forms.len() != body.inputs.len() {
            let (found, wanted) = (forms.len(), body.inputs.len());
            return invalid(format!("{found} inputs for a body that takes {wanted}"));
        }
        let mut work = Self::empty();
        let mut scope = Scope::new(body);
        for (port, form) in body.inputs.iter().zip(forms) {
            scope.values[port.value.index()] = Some(work.arrived(form));
        }
        work.scopes.push(scope);
        work.stack.extend(tasks_of(body, 0));
        Ok(work)
    }

    /// A value that a call brings, in the next registers.
    fn arrived(&mut self, form: &Form) -> Value {
        match form {
            Form::Tensor(spec) => {
                let edge = self.graph.add_input(*spec);
                self.input_registers.push(self.registers);
                self.registers += 1;
                Value::Tensor(edge)
            }
            Form::Constant(constant) => Value::Tensor(self.graph.add_constant(constant.clone())),
            Form::Opaque(kind) => {
                self.registers += 1;
                let (register, kind) = (self.registers - 1, kind.clone());
                Value::Opaque(Opaque { register, kind })
            }
            Form::Sequence(forms) => {
                Value::Sequence(forms.iter().map(|form| self.arrived(form)).collect())
            }
            Form::Optional(form) => {
                Value::Optional(form.as_ref().map(|form| Box::new(self.arrived(form))))
            }
        }
    }

    /// What follows when this has arrived.
    pub fn resume(saved: &Saved, arrived: &Arrival, settings: &Settings) -> Result<Self> {
        let limits = &settings.limits;
        if saved.stages >= limits.stages {
            let most = limits.stages;
            return invalid(format!(
                "its shapes follow from contents more than {most} times in a row; `Limits::stages` allows more"
            ));
        }
        let mut work = Self { registers: saved.registers, ..Self::empty() };
        work.stages = saved.stages + 1;
        work.expanded = saved.expanded;
        let mut edges: HashMap<Edge, Edge> = HashMap::new();
        for (edge, array) in saved.contents.iter().zip(&arrived.contents) {
            let constant = work.graph.add_constant(settings.folder.constant(array.clone()));
            edges.insert(*edge, constant);
        }
        work.scopes = Vec::with_capacity(saved.scopes.len());
        for scope in &saved.scopes {
            let mut resumed = Scope::new(&scope.body);
            for (at, value) in &scope.values {
                resumed.values[*at] = Some(work.carry(value, saved, &mut edges)?);
            }
            work.scopes.push(resumed);
        }
        let mut forms = arrived.forms.iter();
        for task in &saved.tasks {
            let task = match task {
                Task::Arrive { scope, node } => {
                    let count = work.scopes[*scope].node(*node).outputs.len();
                    let values = forms.by_ref().take(count).map(|form| work.arrived(form));
                    let values: Vec<Value> = values.collect();
                    work.bind(*scope, *node, values)?;
                    continue;
                }
                Task::Node { scope, node, kept } => {
                    let kept = kept.iter().map(|edge| work.carry_edge(*edge, saved, &mut edges));
                    let kept = kept.collect::<Result<_>>()?;
                    Task::Node { scope: *scope, node: *node, kept }
                }
                task @ Task::Return { .. } => task.clone(),
            };
            work.stack.push(task);
        }
        work.stack.reverse();
        Ok(work)
    }

    fn carry(
        &mut self,
        value: &Value,
        saved: &Saved,
        edges: &mut HashMap<Edge, Edge>,
    ) -> Result<Value> {
        Ok(match value {
            Value::Tensor(edge) => Value::Tensor(self.carry_edge(*edge, saved, edges)?),
            Value::Sequence(values) => {
                let values = values.iter().map(|value| self.carry(value, saved, edges));
                Value::Sequence(values.collect::<Result<_>>()?)
            }
            Value::Optional(value) => {
                let value = value.as_ref().map(|value| self.carry(value, saved, edges));
                Value::Optional(value.transpose()?.map(Box::new))
            }
            Value::Known(_) | Value::Opaque(_) => value.clone(),
        })
    }

    fn carry_edge(
        &mut self,
        edge: Edge,
        saved: &Saved,
        edges: &mut HashMap<Edge, Edge>,
    ) -> Result<Edge> {
        if let Some(&known) = edges.get(&edge) {
            return Ok(known);
        }
        let made = match saved.carried.get(&edge) {
            Some(Carried::Register(register, spec)) => {
                self.input_registers.push(*register);
                self.graph.add_input(*spec)
            }
            Some(Carried::Constant(constant)) => self.graph.add_constant(constant.clone()),
            None => return invalid("a value was not carried to the next stage".into()),
        };
        edges.insert(edge, made);
        Ok(made)
    }

    /// Expands all that can be without contents that only a call has.
    pub fn expand(&mut self, settings: &Settings) -> Result<()> {
        while let Some(task) = self.stack.pop() {
            match task {
                Task::Node { scope, node, kept } => {
                    self.expand_node(settings, (scope, node), kept)?
                }
                Task::Return { from, to, node } => {
                    let body = Arc::clone(&self.scopes[from].body);
                    let ids = body.outputs.iter().map(|port| port.value);
                    match ids.map(|id| self.read(from, id)).collect::<Option<Vec<Value>>>() {
                        Some(values) => self.bind(to, node, values)?,
                        None => self.later.push(Task::Return { from, to, node }),
                    }
                }
                Task::Arrive { .. } => return invalid("a value arrived twice".into()),
            }
        }
        if !self.later.is_empty() && self.contents.is_empty() && self.calls.is_empty() {
            return self.stuck();
        }
        Ok(())
    }

    /// Nodes wait for values that nobody makes.
    fn stuck(&self) -> Result<()> {
        let Some(Task::Node { scope, node, .. }) = self.later.first() else {
            return invalid("the outputs of a branch are never made".into());
        };
        let node = self.scopes[*scope].node(*node);
        let reason = "its inputs are never made".to_owned();
        Err(Error::Node {
            node: node.name.clone(),
            operator: node.operator.kind().to_owned(),
            reason,
        })
    }

    /// The first node that waits for contents or for the host.
    pub fn waiting_node(&self) -> Option<String> {
        self.later.iter().find_map(|task| match task {
            Task::Node { scope, node, .. } | Task::Arrive { scope, node } => {
                Some(self.scopes[*scope].node(*node).name.clone())
            }
            Task::Return { .. } => None,
        })
    }

    /// The value of an id, if it is there.
    fn read(&mut self, scope: usize, id: ValueId) -> Option<Value> {
        let at = &mut self.scopes[scope];
        if let Some(value) = &at.values[id.index()] {
            return Some(value.clone());
        }
        let value = match at.body.known(id)? {
            Known::Constant(constant) => Value::Tensor(self.graph.add_constant(constant.clone())),
            Known::Value(known) => Value::Known(Arc::clone(known)),
        };
        at.values[id.index()] = Some(value.clone());
        Some(value)
    }

    fn expand_node(
        &mut self,
        settings: &Settings,
        (scope, node): (usize, usize),
        mut kept: Vec<Edge>,
    ) -> Result<()> {
        let body = Arc::clone(&self.scopes[scope].body);
        let OperatorNode { name, operator, inputs, outputs, layer } = &body.nodes[node];
        let mut values: Vec<Option<Value>> = Vec::with_capacity(inputs.len());
        for input in inputs {
            let value = match input {
                Some(id) => match self.read(scope, *id) {
                    Some(value) => Some(value),
                    None => {
                        self.later.push(Task::Node { scope, node, kept });
                        return Ok(());
                    }
                },
                None => None,
            };
            values.push(value);
        }
        self.expanded += 1;
        if self.expanded > settings.limits.operators {
            let reason = format!("it makes more than {} operators", settings.limits.operators);
            return Err(node_error(name, operator.kind(), Error::Invalid { op: "model", reason }));
        }
        let wanted: smallvec::SmallVec<[bool; 4]> = outputs.iter().map(Option::is_some).collect();
        let mark = self.graph.mark();
        let mut keep = false;
        let _layer = layer.enter();
        let expanded = operator.expand(
            &mut Expander {
                graph: &mut self.graph,
                folder: &settings.folder,
                kept: &mut kept,
                keep: &mut keep,
                wanted: &wanted,
                fixed_calls: self.fixed_calls,
            },
            &values,
        );
        match expanded {
            Ok(values) => self.bind(scope, node, values),
            Err(Stop::Content(edge)) => {
                if !keep {
                    self.graph.truncate(mark);
                }
                if edge.index() >= self.graph.edges().len() {
                    return invalid(format!("{} asks for what it did not keep", operator.kind()));
                }
                if !self.contents.contains(&edge) {
                    self.contents.push(edge);
                }
                self.later.push(Task::Node { scope, node, kept });
                Ok(())
            }
            Err(Stop::Inline(body, values)) => self.inline(&body, values, (scope, node)),
            Err(Stop::Host(host)) => {
                let (node_name, kind) = (name.clone(), operator.kind().to_owned());
                let outputs = outputs.len();
                self.calls.push(HostNode {
                    operator: host,
                    inputs: values,
                    outputs,
                    node: node_name,
                    kind,
                });
                self.later.push(Task::Arrive { scope, node });
                Ok(())
            }
            Err(Stop::Error(error)) => Err(error),
        }
        .map_err(|error| node_error(name, operator.kind(), error))
    }

    /// Puts a body in the place of a node.
    fn inline(
        &mut self,
        body: &Arc<Body>,
        values: Vec<Value>,
        (to, node): (usize, usize),
    ) -> Result<()> {
        if values.len() != body.inputs.len() {
            let (found, wanted) = (values.len(), body.inputs.len());
            return invalid(format!("{found} values for a branch that takes {wanted}"));
        }
        let mut scope = Scope::new(body);
        for (port, value) in body.inputs.iter().zip(values) {
            scope.values[port.value.index()] = Some(value);
        }
        self.scopes.push(scope);
        let from = self.scopes.len() - 1;
        self.stack.push(Task::Return { from, to, node });
        self.stack.extend(tasks_of(body, from));
        Ok(())
    }

    /// Gives the outputs of a node their values.
    fn bind(&mut self, scope: usize, node: usize, values: Vec<Value>) -> Result<()> {
        let scope = &mut self.scopes[scope];
        let body = Arc::clone(&scope.body);
        let node = &body.nodes[node];
        for (at, id) in node.outputs.iter().enumerate() {
            let Some(id) = id else { continue };
            let Some(value) = values.get(at) else {
                let reason = format!("it has no output number {at}");
                return Err(Error::Node {
                    node: node.name.clone(),
                    operator: node.operator.kind().to_owned(),
                    reason,
                });
            };
            scope.values[id.index()] = Some(value.clone());
        }
        Ok(())
    }

    /// The outputs of the body, if nothing is left to do.
    pub fn outputs(&mut self) -> Result<Option<Vec<Value>>> {
        if !self.later.is_empty() {
            return Ok(None);
        }
        let body = Arc::clone(&self.scopes[0].body);
        let mut values = Vec::with_capacity(body.outputs.len());
        for port in &body.outputs {
            match self.read(0, port.value) {
                Some(value) => values.push(value),
                None => return invalid(format!("output {:?} is never made", port.name)),
            }
        }
        Ok(Some(values))
    }

    /// Values that the tasks which are left read, if they are there. Others are dropped.
    fn keep_needed(&mut self) {
        let mut needed: Vec<Vec<bool>> =
            self.scopes.iter().map(|scope| vec![false; scope.values.len()]).collect();
        for task in &self.later {
            match task {
                Task::Node { scope, node, .. } => {
                    for id in self.scopes[*scope].node(*node).inputs.iter().flatten() {
                        needed[*scope][id.index()] = true;
                    }
                }
                Task::Return { from, .. } => {
                    for port in &self.scopes[*from].body.outputs {
                        needed[*from][port.value.index()] = true;
                    }
                }
                Task::Arrive { .. } => {}
            }
        }
        for port in &self.scopes[0].body.outputs {
            needed[0][port.value.index()] = true;
        }
        for (scope, needed) in self.scopes.iter_mut().zip(needed) {
            for (value, needed) in scope.values.iter_mut().zip(needed) {
                if !needed {
                    *value = None;
                }
            }
        }
    }

    /// Every tensor that is read after this stage.
    fn edges_left(&mut self) -> Vec<Edge> {
        self.keep_needed();
        let mut edges = self.contents.clone();
        for value in self.scopes.iter().flat_map(|scope| scope.values.iter().flatten()) {
            collect(value, &mut edges);
        }
        for value in self.calls.iter().flat_map(|call| call.inputs.iter().flatten()) {
            collect(value, &mut edges);
        }
        for task in &self.later {
            if let Task::Node { kept, .. } = task {
                edges.extend(kept);
            }
        }
        edges
    }

    /// Gives registers to the tensors that are read after this stage; those that nodes make become outputs of the graph.
    pub fn place(&mut self, outputs: Option<&[Value]>) -> Registers {
        let edges = match outputs {
            Some(outputs) => {
                let mut edges = Vec::new();
                outputs.iter().for_each(|value| collect(value, &mut edges));
                edges
            }
            None => self.edges_left(),
        };
        let first = self.registers;
        let mut registers = HashMap::new();
        for edge in edges {
            if registers.contains_key(&edge) {
                continue;
            }
            match self.graph.source(edge) {
                Source::Constant(_) => {}
                Source::Input(input) => {
                    registers.insert(edge, self.input_registers[*input]);
                }
                Source::Node(..) => {
                    registers.insert(edge, self.registers);
                    self.registers += 1;
                    self.graph.add_output(edge);
                }
            }
        }
        Registers { first, of: registers }
    }

    /// What the stages that follow need.
    pub fn save(self, registers: &Registers) -> Saved {
        let mut carried = HashMap::new();
        let mut add = |edge: Edge| {
            let known = match self.graph.source(edge) {
                Source::Constant(constant) => Carried::Constant(constant.clone()),
                Source::Input(_) | Source::Node(..) => {
                    Carried::Register(registers.of[&edge], self.graph.spec(edge))
                }
            };
            carried.insert(edge, known);
        };
        let mut edges = Vec::new();
        for value in self.scopes.iter().flat_map(|scope| scope.values.iter().flatten()) {
            collect(value, &mut edges);
        }
        for task in &self.later {
            if let Task::Node { kept, .. } = task {
                edges.extend(kept);
            }
        }
        edges.into_iter().for_each(&mut add);
        let scopes = self.scopes.into_iter().map(|Scope { body, values }| {
            let values = values.into_iter().enumerate();
            let values = values.filter_map(|(at, value)| value.map(|value| (at, value)));
            SavedScope { body, values: values.collect() }
        });
        Saved {
            scopes: scopes.collect(),
            tasks: self.later,
            carried,
            contents: self.contents,
            registers: self.registers,
            expanded: self.expanded,
            stages: self.stages,
        }
    }
}

/// Where the tensors of a stage are found after it.
pub(super) struct Registers {
    /// The first one that the stage's plan writes.
    pub first: usize,
    of: HashMap<Edge, usize>,
}

impl Registers {
    /// Where a value is found.
    pub fn find(&self, graph: &Graph, value: &Value) -> Produced {
        match value {
            Value::Tensor(edge) => match graph.source(*edge) {
                Source::Constant(constant) => Produced::Constant(constant.clone()),
                Source::Input(_) | Source::Node(..) => Produced::Register(self.of[edge]),
            },
            Value::Sequence(values) => {
                Produced::Sequence(values.iter().map(|value| self.find(graph, value)).collect())
            }
            Value::Optional(value) => {
                let value = value.as_ref().map(|value| Box::new(self.find(graph, value)));
                Produced::Optional(value)
            }
            Value::Known(known) => Produced::Known(Arc::clone(known)),
            Value::Opaque(opaque) => Produced::Register(opaque.register),
        }
    }

    /// The register of a tensor that a call computes.
    pub fn of(&self, edge: Edge) -> Option<usize> {
        self.of.get(&edge).copied()
    }
}

/// Adds the tensors that a value is made of.
fn collect(value: &Value, edges: &mut Vec<Edge>) {
    match value {
        Value::Tensor(edge) => edges.push(*edge),
        Value::Sequence(values) => values.iter().for_each(|value| collect(value, edges)),
        Value::Optional(value) => value.iter().for_each(|value| collect(value, edges)),
        Value::Known(_) | Value::Opaque(_) => {}
    }
}

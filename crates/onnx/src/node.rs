//! Making an operator of a node.

use std::fmt;
use std::sync::Arc;

use millstream_graph::{Array, Body, Expanded, Expander, Operator, Stop, Value};

use crate::attributes::Attributes;
use crate::inputs::Inputs;
use crate::model::{Names, Scope};
use crate::proto::{GraphProto, NodeProto};
use crate::tensor::{Literal, dense, literal};
use crate::{Error, Result};

/// A node of a file, as the maker of its operator sees it.
pub(crate) struct NodeDef<'a, 'm> {
    pub node: &'a NodeProto,
    pub attributes: Attributes<'a>,
    /// The version of the operator set that the node belongs to.
    pub version: i64,
    pub(crate) scope: &'a Scope<'a, 'm>,
    pub(crate) names: &'a Names<'a>,
    /// Values of the surrounding body that bodies of this node read. They are inputs of the node, behind its own.
    pub(crate) captures: Vec<String>,
}

/// A body that belongs to a node: a branch, or a loop.
#[derive(Clone, Debug)]
pub(crate) struct SubBody {
    pub body: Arc<Body>,
    /// Where the others are found among the inputs of the node.
    pub captured: Vec<usize>,
}

impl SubBody {
    /// The inputs of the body: these, and what it reads of the surrounding body.
    pub fn values(&self, mut formal: Vec<Value>, inputs: Inputs<'_>) -> Expanded<Vec<Value>> {
        for &index in &self.captured {
            formal.push(inputs.required(index)?.clone());
        }
        Ok(formal)
    }
}

impl<'a, 'm> NodeDef<'a, 'm> {
    /// The operator's name.
    pub fn kind(&self) -> &'a str {
        self.node.op_type.as_deref().unwrap_or("")
    }

    /// How many inputs the node itself has.
    pub fn inputs(&self) -> usize {
        self.node.input.len()
    }

    /// How many outputs the node has.
    pub fn outputs(&self) -> usize {
        self.node.output.len()
    }

    /// The contents of a tensor attribute.
    pub fn literal(&self, name: &str) -> Result<Option<Literal>> {
        match self.attributes.tensor(name)? {
            Some(tensor) => literal(tensor, self.scope.model().files()).map(Some),
            None => Ok(None),
        }
    }

    /// The contents of a sparse tensor attribute, with its zeros.
    pub fn dense(&self, name: &str) -> Result<Option<Array>> {
        match self.attributes.sparse(name)? {
            Some(tensor) => dense(tensor, self.scope.model().files()).map(Some),
            None => Ok(None),
        }
    }

    /// The body of a graph attribute.
    pub fn body(&mut self, name: &str) -> Result<SubBody> {
        let Some(graph) = self.attributes.graph(name)? else {
            return Err(Error::Invalid { op: "attribute", reason: format!("{name} is missing") });
        };
        self.body_of(graph)
    }

    fn body_of(&mut self, graph: &'a GraphProto) -> Result<SubBody> {
        let (body, captured) = self.scope.import_inner(graph, self.names)?;
        let own = self.inputs();
        let mut places = Vec::with_capacity(captured.len());
        for name in captured {
            let place = match self.captures.iter().position(|known| *known == name) {
                Some(place) => place,
                None => {
                    self.captures.push(name);
                    self.captures.len() - 1
                }
            };
            places.push(own + place);
        }
        Ok(SubBody { body: Arc::new(body), captured: places })
    }
}

/// What makes an operator of a node.
pub(crate) type Make = fn(&mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>>;

struct Function<F> {
    kind: String,
    expand: F,
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)
    }
}

impl<F> Operator for Function<F>
where
    F: Fn(&mut Expander<'_>, Inputs<'_>) -> Expanded<Vec<Value>> + Send + Sync,
{
    fn kind(&self) -> &str {
        &self.kind
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Result<Vec<Value>, Stop> {
        (self.expand)(at, Inputs(inputs))
    }
}

/// An operator that expands as a function says.
pub(crate) fn operator<F>(node: &NodeDef<'_, '_>, expand: F) -> Result<Box<dyn Operator>>
where
    F: Fn(&mut Expander<'_>, Inputs<'_>) -> Expanded<Vec<Value>> + Send + Sync + 'static,
{
    Ok(Box::new(Function { kind: node.kind().to_owned(), expand }))
}

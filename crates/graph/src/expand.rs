//! From operators to operations, once the shapes are known.

use std::sync::Arc;

use millstream_core::{DType, Op, Scalar, TensorSpec};
use smallvec::SmallVec;

use crate::build::Builder;
use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, NodeOp};
use crate::model::Body;
use crate::model_value::ModelValue;
use crate::program::HostOperator;
use crate::view::{Sizes, View};
use crate::{Array, Error, Result};

/// A value of a model while it is expanded.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor of numbers.
    Tensor(Edge),
    /// Values of one kind.
    Sequence(Vec<Value>),
    /// A value, or none.
    Optional(Option<Box<Value>>),
    /// A value that the model has: strings, for example.
    Known(Arc<ModelValue>),
    /// A value that only a call has, and that no device computes with: strings, maps, sequences of any length. It is
    /// read by [operators of the host](HostOperator).
    Opaque(Opaque),
}

/// A value of a call that is not a tensor of numbers.
#[derive(Clone, Debug)]
pub struct Opaque {
    /// Where a call keeps it.
    pub(crate) register: usize,
    pub(crate) kind: OpaqueKind,
}

/// What a value is that only a call has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OpaqueKind {
    /// Strings of this shape.
    Strings(Sizes),
    /// Values by keys.
    Map,
    /// A sequence.
    Sequence,
}

impl Opaque {
    /// What it is.
    pub fn kind(&self) -> &OpaqueKind {
        &self.kind
    }
}

impl Value {
    /// A word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Optional(_) => "an optional",
            Value::Known(known) => known.kind(),
            Value::Opaque(opaque) => match opaque.kind {
                OpaqueKind::Strings(_) => "strings",
                OpaqueKind::Map => "a map",
                OpaqueKind::Sequence => "a sequence",
            },
        }
    }

    /// The tensor that it is.
    ///
    /// # Errors
    ///
    /// A value of another kind.
    pub fn tensor(&self) -> Result<Edge> {
        match self {
            Value::Tensor(edge) => Ok(*edge),
            other => {
                let reason = format!("a tensor of numbers is needed, found {}", other.kind());
                Err(Error::Invalid { op: "value", reason })
            }
        }
    }
}

impl From<Edge> for Value {
    fn from(edge: Edge) -> Self {
        Value::Tensor(edge)
    }
}

/// Why an operator was not expanded.
#[derive(Debug)]
pub enum Stop {
    /// It cannot be.
    Error(Error),
    /// It needs the contents of a tensor that is computed by a call. They are read, and then it is asked again.
    Content(Edge),
    /// It is what these operators do with these values.
    Inline(Arc<Body>, Vec<Value>),
    /// It is computed by the host, while a call runs, from all its inputs.
    Host(Arc<dyn HostOperator>),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

/// What an operator expands to is added to a graph through this.
#[derive(Debug)]
pub struct Expander<'a> {
    pub(crate) graph: &'a mut Graph,
    pub(crate) folder: &'a Folder,
    /// What the operator made before it needed the contents of a tensor.
    pub(crate) kept: &'a mut Vec<Edge>,
    /// Nodes that stay in the graph though the operator is asked again.
    pub(crate) keep: &'a mut bool,
    /// How many outputs the operator has, and which of them somebody reads.
    pub(crate) wanted: &'a [bool],
    /// How many calls a batch of 1 stands for that the model fixes.
    pub(crate) fixed_calls: usize,
}

/// The result of expanding.
pub type Expanded<T> = std::result::Result<T, Stop>;

impl Expander<'_> {
    /// Element type and shape of a tensor.
    pub fn spec(&self, edge: Edge) -> TensorSpec {
        self.graph.spec(edge)
    }

    /// The size of each axis of a tensor.
    pub fn shape(&self, edge: Edge) -> Sizes {
        Sizes::from_slice(self.graph.shape(edge))
    }

    /// The number of axes of a tensor.
    pub fn rank(&self, edge: Edge) -> usize {
        self.graph.shape(edge).len()
    }

    /// The element type of a tensor.
    pub fn dtype(&self, edge: Edge) -> DType {
        self.graph.dtype(edge)
    }

    /// The device that the plan is for.
    pub fn device(&self) -> millstream_core::Device {
        *self.folder.device()
    }

    /// How many calls a batch of 1 stands for that the model fixes in the shapes it asks for; 1 but for calls that are joined.
    /// An operator may make the first size of such a shape that many times as large. Whether that is right is proved
    /// afterwards, for the whole graph.
    pub fn fixed_calls(&self) -> usize {
        self.fixed_calls
    }

    /// How many outputs the operator has. Those behind the last that somebody reads are not counted.
    pub fn outputs(&self) -> usize {
        self.wanted.len()
    }

    /// Whether somebody reads an output.
    pub fn wants(&self, output: usize) -> bool {
        self.wanted.get(output).copied().unwrap_or(false)
    }

    /// Whether the contents of a tensor follow from shapes and constants.
    pub fn is_constant(&self, edge: Edge) -> bool {
        self.graph.constant(edge).is_some()
    }

    /// The contents of a tensor.
    ///
    /// # Errors
    ///
    /// [`Stop::Content`] where a call has to compute them first: return it, and the operator is asked again. Contents
    /// that cannot be computed.
    pub fn content(&self, edge: Edge) -> Expanded<Array> {
        match self.graph.constant(edge) {
            Some(constant) => Ok(constant.array(self.folder)?),
            None => Err(Stop::Content(edge)),
        }
    }

    /// The contents of a tensor of integers.
    ///
    /// # Errors
    ///
    /// As for [`content`](Self::content), and another element type.
    pub fn integers(&self, edge: Edge) -> Expanded<Vec<i64>> {
        Ok(self.content(edge)?.to_i64s()?)
    }

    /// The contents of a tensor of one element.
    ///
    /// # Errors
    ///
    /// As for [`content`](Self::content), and another number of elements.
    pub fn scalar(&self, edge: Edge) -> Expanded<Scalar> {
        Ok(self.content(edge)?.to_scalar()?)
    }

    /// Tensors that the operator makes before it asks for contents. They stay, and are given again when the operator is
    /// asked again.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn kept(
        &mut self,
        make: impl FnOnce(&mut Self) -> Expanded<SmallVec<[Edge; 1]>>,
    ) -> Expanded<Vec<Edge>> {
        if self.kept.is_empty() {
            let made = make(self)?;
            self.kept.extend(made);
            *self.keep = true;
        }
        Ok(self.kept.clone())
    }

    /// A constant.
    pub fn constant(&mut self, array: Array) -> Edge {
        self.graph.add_constant(self.folder.constant(array))
    }

    /// A constant that the model keeps.
    pub fn shared_constant(&mut self, constant: &Constant) -> Edge {
        self.graph.add_constant(self.folder.first_of(constant))
    }

    /// A constant of rank 0, of the element type of another tensor.
    ///
    /// # Errors
    ///
    /// A type that is only stored.
    pub fn number(&mut self, value: impl Into<Scalar>, dtype: DType) -> Expanded<Edge> {
        Ok(self.constant(Array::of_scalars(dtype, &[], &[value.into()])?))
    }

    /// What an operation makes of these tensors. Inputs that repeat broadcast.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn apply_all(&mut self, op: Op, inputs: &[Edge]) -> Expanded<SmallVec<[Edge; 1]>> {
        Ok(self.builder().add(NodeOp::Op(op), inputs)?)
    }

    /// What an operation with one output makes of these tensors.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn apply(&mut self, op: Op, inputs: &[Edge]) -> Expanded<Edge> {
        Ok(self.builder().add_one(NodeOp::Op(op), inputs)?)
    }

    /// Another view of a tensor.
    ///
    /// # Errors
    ///
    /// A view that the tensor does not have.
    pub fn view(&mut self, view: View, input: Edge) -> Expanded<Edge> {
        Ok(self.builder().add_one(NodeOp::View(view), &[input])?)
    }

    /// Tensors one behind the other along an axis.
    ///
    /// # Errors
    ///
    /// Tensors that do not fit, or none.
    pub fn concat(&mut self, axis: usize, inputs: &[Edge]) -> Expanded<Edge> {
        if let [input] = inputs
            && axis < self.rank(*input)
        {
            return Ok(*input);
        }
        Ok(self.builder().add_one(NodeOp::Concat { axis }, inputs)?)
    }

    fn builder(&mut self) -> Builder<'_> {
        Builder { graph: self.graph, folder: self.folder }
    }
}

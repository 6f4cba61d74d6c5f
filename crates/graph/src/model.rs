//! A model as it was loaded: operators on values whose shapes are not known yet.

use std::fmt;
use std::sync::Arc;

use millstream_core::{DType, LayerName};

use crate::constant::Constant;
use crate::expand::{Expander, Stop, Value};
use crate::model_value::ModelValue;

/// An operator of a model: what its importer knows how to expand to operations.
///
/// An operator is asked again for every set of shapes that the model is called with. By then element types and shapes
/// of its inputs are known. If it needs the *contents* of an input ([`Expander::content`]), they are at hand where they follow from
/// shapes and constants; else the work so far is run first, and the operator is asked again.
pub trait Operator: Send + Sync + fmt::Debug {
    /// Its name, as in `"Conv"`.
    fn kind(&self) -> &str;

    /// The operations that compute its outputs from these inputs. An input that is not given is `None`.
    ///
    /// # Errors
    ///
    /// Inputs that the operator does not take, or [what it needs](Stop) before it can be expanded.
    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Result<Vec<Value>, Stop>;
}

/// A value of a [`Body`], by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

impl ValueId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One size of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name. Equal names say that sizes are meant to be equal, not that they are.
    Named(String),
    /// Anything.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => write!(f, "{size}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// What a value is declared to be.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// A tensor of numbers, with its shape if the rank is known.
    Tensor(DType, Option<Vec<Dim>>),
    /// A tensor of strings.
    Strings(Option<Vec<Dim>>),
    /// Values of one type.
    Sequence(Box<ValueType>),
    /// A value or none.
    Optional(Box<ValueType>),
    /// Values by keys.
    Map(Box<ValueType>),
    /// Nothing is said of it.
    Unknown,
}

impl ValueType {
    /// The element type of a tensor, and its shape if that is fixed.
    pub(crate) fn tensor(&self) -> Option<(DType, Option<Vec<usize>>)> {
        let ValueType::Tensor(dtype, dims) = self else { return None };
        let sizes = dims.as_ref().and_then(|dims| {
            let known = dims.iter().map(|dim| match dim {
                Dim::Known(size) => Some(*size),
                Dim::Named(_) | Dim::Unknown => None,
            });
            known.collect()
        });
        Some((*dtype, sizes))
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |f: &mut fmt::Formatter<'_>, dims: &Option<Vec<Dim>>| match dims {
            Some(dims) => {
                let texts: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            None => f.write_str("[…]"),
        };
        match self {
            ValueType::Tensor(dtype, dims) => {
                write!(f, "{dtype}")?;
                sizes(f, dims)
            }
            ValueType::Strings(dims) => {
                f.write_str("string")?;
                sizes(f, dims)
            }
            ValueType::Sequence(of) => write!(f, "sequence({of})"),
            ValueType::Optional(of) => write!(f, "optional({of})"),
            ValueType::Map(of) => write!(f, "map({of})"),
            ValueType::Unknown => f.write_str("?"),
        }
    }
}

/// An input or output of a model.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: ValueId,
    /// What it is declared to be.
    pub declared: ValueType,
    /// What it is where the caller gives nothing.
    pub default: Option<Constant>,
}

/// An operator on values of a [`Body`].
#[derive(Debug)]
pub struct OperatorNode {
    /// The name that the file gives it.
    pub name: String,
    /// What it does.
    pub operator: Box<dyn Operator>,
    /// What it reads; an optional input that is not given is `None`.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; an output that nobody wants is `None`.
    pub outputs: Vec<Option<ValueId>>,
    /// Its name in faults and traces.
    pub layer: LayerName,
}

/// What a value of a body is before any call.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Constant(Constant),
    Value(Arc<ModelValue>),
}

/// A list of operators: a model, or a branch or loop of one.
///
/// A body sees nothing but its inputs. What a branch reads of the surrounding body is an input of both: of the operator,
/// behind its own, and of the branch.
#[derive(Debug, Default)]
pub struct Body {
    pub(crate) names: Vec<String>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) nodes: Vec<OperatorNode>,
    /// What is known of each value.
    pub(crate) known: Vec<Option<Known>>,
}

impl Body {
    /// A body without operators.
    pub fn new() -> Self {
        Self::default()
    }

    /// A further value. Names are for people: they need not differ.
    pub fn add_value(&mut self, name: &str) -> ValueId {
        self.names.push(name.to_owned());
        self.known.push(None);
        ValueId(self.names.len() as u32 - 1)
    }

    /// Makes a value an input.
    pub fn add_input(&mut self, value: ValueId, declared: ValueType, default: Option<Constant>) {
        let name = self.names[value.index()].clone();
        self.inputs.push(Port { name, value, declared, default });
    }

    /// Makes a value an output.
    pub fn add_output(&mut self, name: &str, value: ValueId, declared: ValueType) {
        self.outputs.push(Port { name: name.to_owned(), value, declared, default: None });
    }

    /// Says what a value is.
    pub fn set_constant(&mut self, value: ValueId, constant: Constant) {
        self.known[value.index()] = Some(Known::Constant(constant));
    }

    /// Says what a value is that is no tensor of numbers, such as strings.
    pub fn set_known(&mut self, value: ValueId, known: ModelValue) {
        self.known[value.index()] = Some(Known::Value(Arc::new(known)));
    }

    /// A further operator. It must come behind those that make its inputs.
    pub fn add_node(
        &mut self,
        name: &str,
        operator: Box<dyn Operator>,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<Option<ValueId>>,
    ) {
        let layer = LayerName::new(if name.is_empty() { operator.kind() } else { name });
        self.nodes.push(OperatorNode { name: name.to_owned(), operator, inputs, outputs, layer });
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The operators.
    pub fn nodes(&self) -> &[OperatorNode] {
        &self.nodes
    }

    /// The constants of the body.
    pub fn constants(&self) -> impl Iterator<Item = &Constant> {
        self.known.iter().filter_map(|known| match known {
            Some(Known::Constant(constant)) => Some(constant),
            Some(Known::Value(_)) | None => None,
        })
    }

    /// What is known of a value before any call.
    pub(crate) fn known(&self, value: ValueId) -> Option<&Known> {
        self.known[value.index()].as_ref()
    }

    /// The name of a value.
    pub fn name(&self, value: ValueId) -> &str {
        &self.names[value.index()]
    }
}

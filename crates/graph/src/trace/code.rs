//! Code that is written with tensors, as a model.

use std::fmt;
use std::sync::Arc;

use millstream_core::{DType, Device};
use millstream_nn::{Module, Tensor};

use crate::expand::{Expanded, Expander, Value};
use crate::graph::{Edge, Graph, NodeOp};
use crate::model::{Body, Operator, ValueType};
use crate::session::{Session, SessionBuilder};
use crate::{Error, Result};

/// Code that takes tensors and makes tensors.
type Work = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// The one operator of a model that is code.
struct Code {
    work: Box<Work>,
    outputs: usize,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code").field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl Operator for Code {
    fn kind(&self) -> &str {
        "code"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let given = inputs.iter().flatten().map(Value::tensor);
        let given: Vec<Edge> = given.collect::<Result<_>>()?;
        let shapes: Vec<_> = given.iter().map(|&edge| (at.shape(edge), at.dtype(edge))).collect();
        let shapes: Vec<(&[usize], DType)> =
            shapes.iter().map(|(shape, dtype)| (&shape[..], *dtype)).collect();
        let graph = Graph::trace(&at.device(), &shapes, |inputs| (self.work)(inputs))?;
        if graph.outputs().len() != self.outputs {
            let (found, named) = (graph.outputs().len(), self.outputs);
            let reason = format!("the code gives {found} tensors, but has names for {named}");
            return Err(Error::Invalid { op: "trace", reason }.into());
        }
        let made = inlined(at, &graph, &given)?;
        Ok(made.into_iter().map(Value::from).collect())
    }
}

/// The outputs of a graph that gets these inputs.
fn inlined(at: &mut Expander<'_>, graph: &Graph, inputs: &[Edge]) -> Expanded<Vec<Edge>> {
    let mut known: Vec<Option<Edge>> = vec![None; graph.edges().len()];
    for (own, given) in graph.inputs().iter().zip(inputs) {
        known[own.index()] = Some(*given);
    }
    let find = |at: &mut Expander<'_>, known: &mut Vec<Option<Edge>>, edge: Edge| {
        if let Some(edge) = known[edge.index()] {
            return Ok(edge);
        }
        let Some(constant) = graph.constant(edge) else {
            let reason = "an edge is read before it is made".into();
            return Err(Error::Invalid { op: "trace", reason });
        };
        Ok(*known[edge.index()].insert(at.shared_constant(constant)))
    };
    for node in graph.nodes() {
        let scope = node.layer.map(millstream_core::LayerName::enter);
        let inputs = node.inputs.iter().map(|&edge| find(at, &mut known, edge));
        let inputs: Vec<Edge> = inputs.collect::<Result<_>>()?;
        let made = match &node.op {
            NodeOp::Op(op) => at.apply_all(op.clone(), &inputs)?.to_vec(),
            NodeOp::View(view) => vec![at.view(view.clone(), inputs[0])?],
            NodeOp::Concat { axis } => vec![at.concat(*axis, &inputs)?],
        };
        drop(scope);
        for (own, made) in node.outputs.iter().zip(made) {
            known[own.index()] = Some(made);
        }
    }
    let outputs = graph.outputs().iter().map(|&edge| find(at, &mut known, edge));
    Ok(outputs.collect::<Result<_>>()?)
}

impl Body {
    /// A model of code that is written with tensors. The code is traced once for every set of input shapes.
    ///
    /// `inputs` and `outputs` are their names, with what inputs are declared to be; declared shapes are checked before the
    /// code sees them.
    pub fn of_code(
        inputs: &[(&str, ValueType)],
        outputs: &[&str],
        work: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Self {
        let mut body = Body::new();
        let mut read = Vec::with_capacity(inputs.len());
        for (name, declared) in inputs {
            let value = body.add_value(name);
            body.add_input(value, declared.clone(), None);
            read.push(Some(value));
        }
        let made: Vec<_> = outputs.iter().map(|name| body.add_value(name)).collect();
        for (name, value) in outputs.iter().zip(&made) {
            body.add_output(name, *value, ValueType::Unknown);
        }
        let code = Code { work: Box::new(work), outputs: outputs.len() };
        body.add_node("code", Box::new(code), read, made.into_iter().map(Some).collect());
        body
    }

    /// A model of a module, with the input `input` and the output `output`.
    pub fn of_module(module: Arc<impl Module + 'static>, dtype: DType) -> Self {
        let inputs = [("input", ValueType::Tensor(dtype, None))];
        Self::of_code(&inputs, &["output"], move |inputs| Ok(vec![module.forward(&inputs[0])?]))
    }
}

impl SessionBuilder {
    /// A session of code that is written with tensors: for every set of input shapes it is traced once, passes make its
    /// graph better, and the plan is kept. See [`Body::of_code`] for the parameters and [`Graph::trace`] for what code may do.
    ///
    /// ```
    /// use millstream_core::{DType, Device};
    /// use millstream_graph::{Session, ValueType};
    /// use millstream_nn::Tensor;
    /// # use millstream_cpu as _;
    ///
    /// let device = Device::cpu()?;
    /// let row = ValueType::Tensor(DType::F32, None);
    /// let session = Session::builder(&device)
    ///     .trace(&[("x", row.clone()), ("y", row)], &["sum"], |inputs| {
    ///         Ok(vec![inputs[0].add(&inputs[1])?])
    ///     })?;
    /// let ones = Tensor::ones(&[3], DType::F32, &device)?;
    /// let outputs = session.run([("x", &ones), ("y", &ones)])?;
    /// assert_eq!(outputs.tensor("sum")?.to_vec::<f32>()?, [2.0; 3]);
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build). What the code may not do is found when it is called first.
    pub fn trace(
        self,
        inputs: &[(&str, ValueType)],
        outputs: &[&str],
        work: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Result<Session> {
        self.build(Body::of_code(inputs, outputs, work))
    }
}

impl Session {
    /// A session of a module. It takes `input`, of any shape that the module takes, and gives `output`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use millstream_core::{DType, Device};
    /// use millstream_graph::Session;
    /// use millstream_nn::{Linear, Module, Tensor, Weights};
    /// # use millstream_cpu as _;
    ///
    /// let device = Device::cpu()?;
    /// let layer = Arc::new(Linear::new(4, 2, true, &Weights::random(1, DType::F32, &device))?);
    /// let session = Session::of_module(Arc::clone(&layer), DType::F32, &device)?;
    /// let input = Tensor::ones(&[3, 4], DType::F32, &device)?;
    /// let outputs = session.run([&input])?;
    /// assert_eq!(outputs.tensor("output")?.to_vec::<f32>()?, layer.forward(&input)?.to_vec::<f32>()?);
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`SessionBuilder::trace`].
    pub fn of_module(
        module: Arc<impl Module + 'static>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        Self::builder(device).build(Body::of_module(module, dtype))
    }
}

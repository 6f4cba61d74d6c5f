//! Operators that the host computes.

use std::fmt;
use std::sync::Arc;

use millstream_graph::{
    Array, HostCall, HostOperator, HostStep, HostValue, Operator, Stop, Strings,
};

use super::common::refusal;
use crate::Result;
use crate::node::{NodeDef, operator};

/// The inputs of an operator that the host computes; those at the end that are not given may be missing.
pub(crate) struct HostInputs<'a> {
    call: &'a HostCall<'a>,
    values: Vec<Option<HostValue>>,
}

impl<'a> HostInputs<'a> {
    /// The call.
    pub fn call(&self) -> &'a HostCall<'a> {
        self.call
    }

    /// How many there are, given or not.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// An input, if it is given.
    pub fn value(&self, index: usize) -> Option<&HostValue> {
        self.values.get(index).and_then(Option::as_ref)
    }

    /// An input that must be given.
    pub fn required(&self, index: usize) -> Result<&HostValue> {
        self.value(index).ok_or_else(|| refusal(format!("input {index} is not given")))
    }

    /// The numbers of an input.
    pub fn array(&self, index: usize) -> Result<Array> {
        self.required(index)?.array(self.call)
    }

    /// The numbers of an input, if it is given.
    pub fn optional(&self, index: usize) -> Result<Option<Array>> {
        self.value(index).map(|value| value.array(self.call)).transpose()
    }

    /// An empty list for the elements of a result.
    ///
    /// # Errors
    ///
    /// A tensor may not be so large, or there is no memory for it.
    pub fn room<T>(&self, rows: usize, width: usize) -> Result<Vec<T>> {
        let limit = self.call.limits().tensor_bytes / size_of::<T>().max(1);
        let count = rows.checked_mul(width).filter(|count| *count <= limit);
        let mut elements = Vec::new();
        match count.map(|count| elements.try_reserve_exact(count)) {
            Some(Ok(())) => Ok(elements),
            _ => Err(refusal(format!("a result of {rows} times {width} elements"))),
        }
    }

    /// The same with a value for every element.
    pub fn filled<T: Clone>(&self, rows: usize, width: usize, value: T) -> Result<Vec<T>> {
        let mut elements = self.room(rows, width)?;
        elements.resize(rows * width, value);
        Ok(elements)
    }

    /// The strings of an input.
    pub fn strings(&self, index: usize) -> Result<&Strings> {
        self.required(index)?.strings()
    }
}

struct Function<F> {
    kind: String,
    /// The inputs whose contents are read; all of them where this is none.
    reads: Option<&'static [usize]>,
    run: F,
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)
    }
}

impl<F> HostOperator for Function<F>
where
    F: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync,
{
    fn reads(&self, input: usize) -> bool {
        self.reads.is_none_or(|reads| reads.contains(&input))
    }

    fn run(&self, call: &HostCall<'_>, values: Vec<Option<HostValue>>) -> Result<HostStep> {
        (self.run)(HostInputs { call, values }).map(HostStep::Done)
    }
}

/// What the host computes as a function says.
pub(crate) fn host_function<F>(kind: &str, run: F) -> Arc<dyn HostOperator>
where
    F: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync + 'static,
{
    Arc::new(Function { kind: kind.to_owned(), reads: None, run })
}

/// The same, where only the contents of some inputs are read.
pub(crate) fn host_function_reading<F>(
    kind: &str,
    reads: &'static [usize],
    run: F,
) -> Arc<dyn HostOperator>
where
    F: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync + 'static,
{
    Arc::new(Function { kind: kind.to_owned(), reads: Some(reads), run })
}

/// An operator that the host always computes.
pub(crate) fn host_operator<F>(node: &NodeDef<'_, '_>, run: F) -> Result<Box<dyn Operator>>
where
    F: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync + 'static,
{
    let host = host_function(node.kind(), run);
    operator(node, move |_, _| Err(Stop::Host(Arc::clone(&host))))
}

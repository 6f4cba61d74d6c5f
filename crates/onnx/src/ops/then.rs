//! Operators of two parts: what the device computes, and what the host makes of it.

use std::sync::Arc;

use millstream_graph::{
    Body, Expanded, Expander, HostOperator, HostValue, Operator, Stop, Value, ValueType,
};

use super::host::{HostInputs, host_function};
use crate::Result;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};

/// An operator whose inputs the device makes one tensor of, from which the host makes its outputs.
pub(crate) fn device_then_host<D, H>(
    node: &NodeDef<'_, '_>,
    device: D,
    host: H,
) -> Result<Box<dyn Operator>>
where
    D: Fn(&mut Expander<'_>, Inputs<'_>) -> Expanded<Vec<Value>> + Send + Sync + 'static,
    H: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync + 'static,
{
    let mut body = Body::new();
    let mut given = Vec::with_capacity(node.inputs());
    for _ in 0..node.inputs() {
        let value = body.add_value("given");
        body.add_input(value, ValueType::Unknown, None);
        given.push(Some(value));
    }
    let between = body.add_value("between");
    body.add_node(node.kind(), operator(node, device)?, given, vec![Some(between)]);
    let outputs: Vec<_> = (0..node.outputs()).map(|_| body.add_value("made")).collect();
    let some = outputs.iter().map(|&output| Some(output)).collect();
    let host: Arc<dyn HostOperator> = host_function(node.kind(), host);
    let second = operator(node, move |_, _| Err(Stop::Host(Arc::clone(&host))))?;
    body.add_node(node.kind(), second, vec![Some(between)], some);
    for output in outputs {
        body.add_output("made", output, ValueType::Unknown);
    }
    let (body, count) = (Arc::new(body), node.inputs());
    operator(node, move |_, inputs| {
        let given = (0..count).map(|index| inputs.required(index).cloned());
        Err(Stop::Inline(Arc::clone(&body), given.collect::<Expanded<_>>()?))
    })
}

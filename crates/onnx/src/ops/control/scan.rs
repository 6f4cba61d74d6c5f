//! Scan.

use std::sync::Arc;

use millstream_graph::{
    Body, Expanded, Expander, HostOperator, Operator, Sizes, Stop, Value, ValueType,
};

use super::super::common::{refusal, refuse};
use super::batched::Batched;
use super::chunks::Chunks;
use super::unroll::{Along, Iterated, place};
use crate::Result;
use crate::inputs::Inputs;
use crate::node::{NodeDef, SubBody, operator};

pub(super) fn scan(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let body = node.body("body")?;
    let iterated = node.attributes.int_or("num_scan_inputs", 0)?;
    // The first version has batches, and lengths as its first input.
    let batched = node.version < 9;
    let own = node.inputs().saturating_sub(usize::from(batched));
    let formal = body.body.inputs().len() - body.captured.len();
    let iterated = usize::try_from(iterated).unwrap_or(0);
    let made = body.body.outputs().len();
    if iterated == 0 || iterated > own || formal != own || made < own - iterated {
        let reason = format!(
            "a body of {formal} inputs and {made} outputs for {own} values, {iterated} of them iterated over"
        );
        return Err(refusal(reason));
    }
    let carried = own - iterated;
    let along = |axes: &str, directions: &str, count: usize| -> Result<Vec<Along>> {
        let axes = node.attributes.ints(axes)?.unwrap_or(&[]);
        let directions = node.attributes.ints(directions)?.unwrap_or(&[]);
        for given in [axes, directions] {
            if !given.is_empty() && given.len() != count {
                return Err(refusal(format!(
                    "{} axes or directions for {count} values",
                    given.len()
                )));
            }
        }
        let at = |list: &[i64], index: usize| list.get(index).copied().unwrap_or(0);
        let of = |index| Along { axis: at(axes, index), backwards: at(directions, index) != 0 };
        Ok((0..count).map(of).collect())
    };
    let (inputs, outputs) = if batched {
        let inputs = along("", "directions", iterated)?;
        (inputs, vec![Along::default(); made - carried])
    } else {
        let inputs = along("scan_input_axes", "scan_input_directions", iterated)?;
        (inputs, along("scan_output_axes", "scan_output_directions", made - carried)?)
    };
    let declared = body.body.outputs()[carried..].iter().map(|port| port.declared.clone());
    let of = Arc::new(Iterated {
        kind: "Scan",
        body: Arc::clone(&body.body),
        counted: false,
        count_shapes: [Sizes::new(), Sizes::new()],
        carried,
        inputs,
        outputs,
        captured: body.captured.len(),
        declared: declared.collect(),
    });
    let chunks = Arc::new(Chunks::new(&of));
    if batched {
        let host: Arc<dyn HostOperator> = Arc::new(Batched::new(chunks));
        return operator(node, move |_, _| Err(Stop::Host(Arc::clone(&host))));
    }
    let host: Arc<dyn HostOperator> = Arc::clone(&chunks) as Arc<dyn HostOperator>;
    operator(node, move |at, inputs| {
        let values = given(&body, own, inputs)?;
        let trips = trips(at, &of, &values)?;
        if of.is_short(trips as u64) {
            return of.unroll(at, trips as u64, values, None);
        }
        Err(Stop::Host(Arc::clone(&host)))
    })
}

fn given(body: &SubBody, own: usize, inputs: Inputs<'_>) -> Expanded<Vec<Value>> {
    let formal = (0..own).map(|index| inputs.required(index).cloned());
    body.values(formal.collect::<Expanded<Vec<Value>>>()?, inputs)
}

/// How many iterations there are: as many as what is iterated over has elements.
fn trips(at: &Expander<'_>, of: &Iterated, values: &[Value]) -> Expanded<usize> {
    let mut trips = None;
    for (value, along) in values[of.carried..].iter().zip(&of.inputs) {
        let shape = at.shape(value.tensor()?);
        let steps = shape[place(along.axis, shape.len())?];
        if *trips.get_or_insert(steps) != steps {
            return refuse(format!("{trips:?} and {steps} elements are iterated over"));
        }
    }
    Ok(trips.unwrap_or(0))
}

/// All iterations in place, as a body: its inputs are what is carried, what is iterated over, and what is captured.
pub(super) fn in_place(of: &Arc<Iterated>) -> Body {
    let mut body = Body::new();
    let count = of.carried + of.inputs.len() + of.captured;
    let mut inputs = Vec::with_capacity(count);
    for _ in 0..count {
        let value = body.add_value("given");
        body.add_input(value, ValueType::Unknown, None);
        inputs.push(Some(value));
    }
    let outputs: Vec<_> =
        (0..of.carried + of.outputs.len()).map(|_| Some(body.add_value("made"))).collect();
    body.add_node(of.kind, Box::new(InPlace(Arc::clone(of))), inputs, outputs.clone());
    for output in outputs.into_iter().flatten() {
        body.add_output("made", output, ValueType::Unknown);
    }
    body
}

#[derive(Debug)]
struct InPlace(Arc<Iterated>);

impl Operator for InPlace {
    fn kind(&self) -> &str {
        self.0.kind
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let values: Option<Vec<Value>> = inputs.iter().cloned().collect();
        let Some(values) = values else { return refuse("a value of a loop is not given") };
        let trips = trips(at, &self.0, &values)?;
        self.0.unroll(at, trips as u64, values, None)
    }
}

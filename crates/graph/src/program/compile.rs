//! From a body, or what is left of one, to a stage.

use std::sync::Arc;

use super::Settings;
use super::stage::{Arrival, Call, Form, Produced, Stage, Stages, Then};
use super::work::{Registers, Saved, Work};
use crate::Result;
use crate::expand::Value;
use crate::graph::Graph;
use crate::lower::lower;
use crate::model::Body;
use crate::separate::{Joining, Share, segmented};

/// The first stage of a body whose inputs have these forms: those of a call, or of calls that are joined.
pub(super) fn first(
    settings: &Settings,
    body: &Arc<Body>,
    forms: &[Form],
    joining: Option<&Joining>,
) -> Result<Stage> {
    stage(settings, prepare(settings, Work::new(body, forms)?, joining)?)
}

/// The stage that follows when this has arrived.
pub(super) fn following(settings: &Settings, saved: &Saved, arrived: &Arrival) -> Result<Stage> {
    let work = Work::resume(saved, arrived, settings)?;
    stage(settings, prepare(settings, work, None)?)
}

/// A stage as a graph that the passes have been through.
struct Prepared {
    work: Work,
    /// The outputs of the body, if nothing comes behind the stage.
    outputs: Option<Vec<Value>>,
    registers: Registers,
    graph: Graph,
}

fn prepare(settings: &Settings, mut work: Work, joining: Option<&Joining>) -> Result<Prepared> {
    if let Some(Joining { calls, grows: true, .. }) = joining {
        work.fixed_calls = *calls;
    }
    work.expand(settings)?;
    let outputs = work.outputs()?;
    let registers = work.place(outputs.as_deref());
    let mut graph = work.graph.clone();
    settings.passes.run(&mut graph, &settings.folder)?;
    if let Some(Joining { calls, inputs, grows: _ }) = joining {
        // The first registers are those of the inputs.
        let shares = work.input_registers.iter().map(|&register| inputs.get(register).copied());
        let shares: Vec<Share> = shares.map(|share| share.unwrap_or(Share::Whole)).collect();
        if let Some(segmented) = segmented(&graph, *calls, &shares, &settings.folder) {
            graph = segmented;
        }
    }
    Ok(Prepared { work, outputs, registers, graph })
}

/// A body of one stage, as the graph that is run.
pub(crate) struct Whole {
    pub graph: Graph,
    /// The register that each input of the graph is in.
    pub input_registers: Vec<usize>,
    /// The first register that the graph writes.
    pub first_output: usize,
    pub outputs: Vec<Produced>,
}

/// The graph of a body for inputs of these forms, or the node that needs contents of a call.
pub(super) fn whole(
    settings: &Settings,
    body: &Arc<Body>,
    forms: &[Form],
    joining: Option<&Joining>,
) -> Result<std::result::Result<Whole, Option<String>>> {
    let prepared = prepare(settings, Work::new(body, forms)?, joining)?;
    let Prepared { work, outputs, registers, graph } = prepared;
    let Some(outputs) = outputs else { return Ok(Err(work.waiting_node())) };
    let outputs = outputs.iter().map(|value| registers.find(&work.graph, value)).collect();
    let (input_registers, first_output) = (work.input_registers, registers.first);
    Ok(Ok(Whole { graph, input_registers, first_output, outputs }))
}

fn stage(settings: &Settings, prepared: Prepared) -> Result<Stage> {
    let Prepared { mut work, outputs, registers, graph } = prepared;
    let lowered = lower(&graph, &settings.folder)?;
    let inputs = lowered.inputs.iter().map(|&input| work.input_registers[input]).collect();
    let then = match outputs {
        Some(outputs) => {
            let found = outputs.iter().map(|value| registers.find(&work.graph, value));
            Then::Finish(found.collect())
        }
        None => {
            let contents = work.contents.iter().filter_map(|&edge| registers.of(edge)).collect();
            let calls = std::mem::take(&mut work.calls).into_iter().map(|call| {
                let inputs = call
                    .inputs
                    .iter()
                    .map(|value| value.as_ref().map(|value| registers.find(&work.graph, value)));
                let inputs = inputs.collect();
                Call {
                    operator: call.operator,
                    inputs,
                    outputs: call.outputs,
                    node: call.node,
                    kind: call.kind,
                }
            });
            let calls: Vec<Call> = calls.collect();
            let mut reads = Vec::new();
            for call in &calls {
                for (index, input) in call.inputs.iter().enumerate() {
                    if let Some(Produced::Register(register)) = input
                        && call.operator.reads(index)
                    {
                        reads.push(*register);
                    }
                }
            }
            let saved = Box::new(work.save(&registers));
            Then::Continue { contents, reads, calls, saved, next: Box::new(Stages::new()) }
        }
    };
    then.load_constants(settings)?;
    Ok(Stage {
        plan: lowered.plan,
        inputs,
        outputs: lowered.outputs,
        first_output: registers.first,
        constants: lowered.constants,
        then,
    })
}

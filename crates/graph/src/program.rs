//! A body of operators, compiled for the shapes that it is called with.
//!
//! What a call does is a chain of *stages*. A stage is a plan. Most models have one stage: their shapes follow from those
//! of the inputs. Where an operator needs contents that only the call has (the size of what NonZero finds, the condition of an
//! If), the stage ends: its plan runs, the contents are read, and the next stage is the one for these contents. Stages
//! form a tree: from each stage one goes on to a child by what arrived, and every stage is compiled once.

mod compile;
mod host;
mod limits;
mod run;
mod stage;
mod work;

use std::sync::Arc;
use std::time::Duration;

use millstream_core::sync::shim::AtomicUsize;

use crate::constant::Folder;
use crate::model::Body;
use crate::passes::Passes;
use crate::separate::Joining;
use crate::session::SessionStats;
use crate::{Error, Result};

pub(crate) use compile::Whole;
pub use host::{HostArray, HostCall, HostOperator, HostStep, HostValue, Resume};
pub use limits::Limits;
pub(crate) use run::{Run, Step};
use stage::Arrival;
pub(crate) use stage::{Form, Produced, Stage, Stages};
use work::Saved;

/// How programs are compiled.
#[derive(Debug)]
pub(crate) struct Settings {
    pub folder: Folder,
    pub passes: Passes,
    /// Sets of input shapes, and of what only contents tell, for which a program keeps its stages.
    pub stages: usize,
    /// The time of uses of stages.
    pub clock: Arc<AtomicUsize>,
    /// How long a call waits for the compilation of another.
    pub timeout: Duration,
    pub limits: Limits,
}

/// A body with what was compiled of it, shared by all calls.
///
/// # Thread safety
///
/// Any number of threads may run it at once. A stage is compiled once, by one thread; others wait for that stage only.
#[derive(Debug)]
pub struct Program {
    body: Arc<Body>,
    root: Stages,
}

impl Program {
    /// A program of a body.
    pub fn new(body: impl Into<Arc<Body>>) -> Self {
        Self { body: body.into(), root: Stages::new() }
    }

    /// The body.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// What was compiled so far.
    pub(crate) fn stats(&self) -> SessionStats {
        let mut stats = SessionStats { compiled: self.root.builds(), ..SessionStats::default() };
        let mut weights: std::collections::HashMap<u64, usize> = std::collections::HashMap::new();
        self.root.for_each(&mut |stage| {
            stats.stages += 1;
            stats.commands += stage.plan.as_ref().map_or(0, millstream_core::Plan::commands);
            let arena = stage.plan.as_ref().map_or(0, millstream_core::Plan::arena_bytes);
            stats.largest_arena = stats.largest_arena.max(arena);
            for constant in &stage.constants {
                weights.insert(constant.number(), constant.loaded_bytes());
            }
        });
        stats.weight_bytes = weights.values().sum();
        stats
    }

    /// The graph for inputs of these forms, those of a call or of joined calls, if it is one stage; else the name of the node that waits for contents.
    pub(crate) fn whole(
        &self,
        settings: &Settings,
        forms: &[Form],
        joining: Option<&Joining>,
    ) -> Result<std::result::Result<Whole, Option<String>>> {
        compile::whole(settings, &self.body, forms, joining)
    }

    /// Compiles the first stage for calls that are joined so, with inputs of these forms, for whoever keeps it.
    pub(crate) fn compile(
        &self,
        settings: &Settings,
        forms: &[Form],
        joining: &Joining,
    ) -> Result<Stage> {
        compile::first(settings, &self.body, forms, Some(joining))
    }

    /// The first stage for inputs of these forms.
    fn first(&self, settings: &Settings, forms: Vec<Form>) -> Result<Arc<Stage>> {
        let arrived = Arrival { contents: Vec::new(), forms };
        self.stage(settings, &self.root, arrived, |arrived| {
            compile::first(settings, &self.body, &arrived.forms, None)
        })
    }

    /// The stage that follows a stage when this has arrived.
    fn next(
        &self,
        settings: &Settings,
        (saved, next): (&Saved, &Stages),
        arrived: Arrival,
    ) -> Result<Arc<Stage>> {
        self.stage(settings, next, arrived, |arrived| compile::following(settings, saved, arrived))
    }

    /// A stage of this program. For one that is new, others that were not used for long are freed.
    fn stage(
        &self,
        settings: &Settings,
        stages: &Stages,
        arrived: Arrival,
        compile: impl FnOnce(&Arrival) -> Result<Stage>,
    ) -> Result<Arc<Stage>> {
        let mut is_new = false;
        let stage = stages.get_or_compile(settings, arrived, |arrived| {
            is_new = true;
            compile(arrived)
        })?;
        // The first stage behind another makes no chain more.
        if is_new && stages.are_several() {
            self.root.trim(settings.stages.max(1));
        }
        Ok(stage)
    }
}

/// An error of a node, with its name.
pub(crate) fn node_error(node: &str, operator: &str, error: Error) -> Error {
    match error {
        Error::Node { .. } | Error::OutOfMemory { .. } | Error::DeviceLost { .. } => error,
        error => Error::Node {
            node: node.to_owned(),
            operator: operator.to_owned(),
            reason: error.to_string(),
        },
    }
}

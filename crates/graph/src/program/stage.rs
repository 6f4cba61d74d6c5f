//! What was compiled: stages, and how one follows from another.

use std::sync::{Arc, OnceLock};

use crate::recent_cache::RecentCache;
use millstream_core::{Layout, Plan, TensorSpec};

use super::work::Saved;
use super::{HostOperator, HostValue, Settings};
use crate::constant::Constant;
use crate::expand::OpaqueKind;
use crate::model_value::ModelValue;
use crate::view::Sizes;
use crate::{Array, Result};

/// What the compiler has to know of a value that a call brings.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Tensor(TensorSpec),
    /// A constant, which takes no register.
    Constant(Constant),
    Sequence(Vec<Form>),
    Optional(Option<Box<Form>>),
    /// What no plan reads.
    Opaque(OpaqueKind),
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Form::Tensor(a), Form::Tensor(b)) => a == b,
            (Form::Constant(a), Form::Constant(b)) => a.number() == b.number(),
            (Form::Sequence(a), Form::Sequence(b)) => a == b,
            (Form::Optional(a), Form::Optional(b)) => a == b,
            (Form::Opaque(a), Form::Opaque(b)) => a == b,
            (
                Form::Tensor(_)
                | Form::Constant(_)
                | Form::Sequence(_)
                | Form::Optional(_)
                | Form::Opaque(_),
                _,
            ) => false,
        }
    }
}

/// Sequences of up to so many values are compiled for their length.
const SHORT: usize = 32;

impl Form {
    /// The form of a value that a caller gives.
    pub fn of(value: &ModelValue) -> Self {
        match value {
            ModelValue::Tensor(tensor) => Form::Tensor(TensorSpec::of(tensor.layout())),
            ModelValue::Strings(strings) => {
                Form::Opaque(OpaqueKind::Strings(Sizes::from_slice(strings.shape())))
            }
            ModelValue::Map(_) => Form::Opaque(OpaqueKind::Map),
            ModelValue::Sequence(values) if values.len() > SHORT => {
                Form::Opaque(OpaqueKind::Sequence)
            }
            ModelValue::Sequence(values) => Form::Sequence(values.iter().map(Form::of).collect()),
            ModelValue::Optional(value) => {
                Form::Optional(value.as_ref().map(|value| Box::new(Form::of(value))))
            }
        }
    }

    /// The form of a value that an operator of the host made.
    pub fn of_made(value: &HostValue) -> Self {
        match value {
            HostValue::Value(value) => Form::of(value),
            HostValue::Array(array) => Form::Tensor(array.array().spec()),
            HostValue::Constant(constant) => Form::Tensor(constant.spec()),
            HostValue::Whole(_) => Form::Opaque(OpaqueKind::Sequence),
        }
    }

    /// The form of a value that an operator of the host gives to a program. The program is compiled for constants.
    pub fn of_given(value: &HostValue) -> Self {
        match value {
            HostValue::Constant(constant) => Form::Constant(constant.clone()),
            other => Form::of_made(other),
        }
    }
}

/// What a stage is compiled for: contents that were asked for, and the forms of values that are new.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrival {
    pub contents: Vec<Array>,
    pub forms: Vec<Form>,
}

/// A value of a call, by where it is found.
#[derive(Clone, Debug)]
pub(crate) enum Produced {
    Register(usize),
    Constant(Constant),
    Sequence(Vec<Produced>),
    Optional(Option<Box<Produced>>),
    Known(Arc<ModelValue>),
}

/// An operator that the host computes between two stages.
#[derive(Debug)]
pub(crate) struct Call {
    pub operator: Arc<dyn HostOperator>,
    pub inputs: Vec<Option<Produced>>,
    /// How many outputs are read.
    pub outputs: usize,
    /// The node, for errors.
    pub node: String,
    pub kind: String,
}

/// What comes after the plan of a stage.
#[derive(Debug)]
pub(crate) enum Then {
    /// These are the outputs.
    Finish(Vec<Produced>),
    /// Contents are read, operators are run on the host, and the next stage follows from what they gave.
    Continue {
        /// The registers of what the next stage is compiled for.
        contents: Vec<usize>,
        /// Registers whose contents the calls read.
        reads: Vec<usize>,
        calls: Vec<Call>,
        saved: Box<Saved>,
        next: Box<Stages>,
    },
}

impl Produced {
    fn load_constants(&self, settings: &Settings) -> Result<()> {
        match self {
            Produced::Constant(constant) => constant.load(&settings.folder).map(drop),
            Produced::Sequence(values) => {
                values.iter().try_for_each(|value| value.load_constants(settings))
            }
            Produced::Optional(value) => {
                value.iter().try_for_each(|value| value.load_constants(settings))
            }
            Produced::Register(_) | Produced::Known(_) => Ok(()),
        }
    }
}

impl Then {
    /// Brings constants to the device that a call gives out. What the host gets, it brings there if it needs to.
    pub fn load_constants(&self, settings: &Settings) -> Result<()> {
        match self {
            Then::Finish(outputs) => {
                outputs.iter().try_for_each(|output| output.load_constants(settings))
            }
            Then::Continue { .. } => Ok(()),
        }
    }
}

/// A plan, and what comes after it. Shared by all calls whose shapes led here.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Nothing has to be computed where there is none.
    pub plan: Option<Plan>,
    /// The registers that the plan reads.
    pub inputs: Vec<usize>,
    /// What it writes, to registers from `first_output` on.
    pub outputs: Vec<Layout>,
    pub first_output: usize,
    /// What the plan reads, kept so that plans of other shapes find it too.
    pub constants: Vec<Constant>,
    pub then: Then,
}

/// Stages by what arrived: those used last are kept.
#[derive(Debug)]
pub(crate) struct Stages(OnceLock<RecentCache<Arrival, Stage>>);

impl Stages {
    pub fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The stage for what arrived. `compile` makes it if it is not there: one thread does, others that need the same
    /// stage wait.
    pub fn get_or_compile(
        &self,
        settings: &Settings,
        arrived: Arrival,
        compile: impl FnOnce(&Arrival) -> Result<Stage>,
    ) -> Result<Arc<Stage>> {
        let cache = self.0.get_or_init(|| {
            let Settings { stages, timeout, clock, .. } = settings;
            RecentCache::with_clock(*stages, *timeout, Arc::clone(clock))
        });
        cache.get_or_build(arrived, compile)
    }

    /// The stages that are there.
    fn all(&self) -> Vec<Arc<Stage>> {
        self.0.get().map(RecentCache::values).unwrap_or_default()
    }

    /// How many stages were compiled.
    pub fn builds(&self) -> usize {
        self.0.get().map_or(0, RecentCache::builds)
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        self.all().len() > 1
    }

    fn take(&mut self) -> Vec<Arc<Stage>> {
        self.0.get_mut().map(RecentCache::clear).unwrap_or_default()
    }

    /// These stages and all that were reached from them. A chain may be too long for a recursion.
    pub fn for_each(&self, each: &mut dyn FnMut(&Stage)) {
        let mut left = self.all();
        while let Some(stage) = left.pop() {
            each(&stage);
            left.extend(stage.next().map(Stages::all).unwrap_or_default());
        }
    }

    /// Frees stages until no more than `ends` of them are the last of a chain: those that were not used for longest, and
    /// what led to nothing else. A stage that is in use meanwhile stays with who uses it.
    pub fn trim(&self, ends: usize) {
        while let Some(Link { before, stage, .. }) = self.oldest_end(ends) {
            let place = before.as_ref().map_or(Some(self), |before| before.next());
            if let Some(cache) = place.and_then(|stages| stages.0.get()) {
                cache.remove(&stage);
            }
        }
    }

    /// The end of a chain that was not used for longest, if there are more than so many.
    fn oldest_end(&self, ends: usize) -> Option<Link> {
        let mut found = Vec::new();
        let mut left: Vec<Link> = self.links(None).collect();
        while let Some(link) = left.pop() {
            let next = link.stage.next();
            let before = left.len();
            left.extend(next.into_iter().flat_map(|next| next.links(Some(&link.stage))));
            if left.len() == before {
                found.push(link);
            }
        }
        let is_beyond = found.len() > ends;
        found.into_iter().min_by_key(|link| link.used).filter(|_| is_beyond)
    }

    fn links(&self, before: Option<&Arc<Stage>>) -> impl Iterator<Item = Link> + use<> {
        let before = before.cloned();
        let uses = self.0.get().map(RecentCache::uses).unwrap_or_default();
        let link = move |(used, stage)| Link { before: before.clone(), stage, used };
        uses.into_iter().map(link)
    }
}

/// A stage, and the one that it follows.
struct Link {
    before: Option<Arc<Stage>>,
    stage: Arc<Stage>,
    /// When it was used last.
    used: usize,
}

/// A chain of stages may be too long for a recursion.
impl Drop for Stages {
    fn drop(&mut self) {
        let mut left = self.take();
        while let Some(stage) = left.pop() {
            if let Some(mut stage) = Arc::into_inner(stage)
                && let Then::Continue { next, .. } = &mut stage.then
            {
                left.extend(next.take());
            }
        }
    }
}

impl Stage {
    /// The stages that follow this one.
    fn next(&self) -> Option<&Stages> {
        match &self.then {
            Then::Continue { next, .. } => Some(next),
            Then::Finish(_) => None,
        }
    }
}

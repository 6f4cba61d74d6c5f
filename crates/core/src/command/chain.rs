//! Chains: several elementwise operations in one pass over memory.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::same::chain_words;
use super::select::in_type;
use super::{BinaryOp, BufferLike, Command, Op, Operand, UnaryOp};
use crate::{DType, Error, Layout, Result, Scalar};

/// Steps that a chain can have.
pub const MAX_CHAIN_STEPS: usize = 16;

/// Inputs that a chain can have.
pub const MAX_CHAIN_INPUTS: usize = 8;

const MAX_TERMS: usize = 3;

/// What a step computes: the elementwise operations of [`Op`] by the same names and rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainOp {
    /// Converts the element type, as [`Op::Copy`] does.
    Cast {
        /// The type that it is converted to.
        dtype: DType,
    },
    /// A function of one element, as [`Op::Unary`].
    Unary {
        /// The function.
        op: UnaryOp,
    },
    /// A function of two elements, as [`Op::Binary`].
    Binary {
        /// The function.
        op: BinaryOp,
    },
    /// The second operand where the first is true, else the third, as [`Op::Where`].
    Where,
    /// Limits each element to a range, as [`Op::Clip`].
    Clip {
        /// The lower limit.
        min: Option<Scalar>,
        /// The upper limit.
        max: Option<Scalar>,
    },
}

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainTerm {
    /// An input of the chain, by index.
    Input(u8),
    /// The result of an earlier step, by index.
    Step(u8),
}

/// One step of a [`Chain`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainStep {
    op: ChainOp,
    terms: [ChainTerm; MAX_TERMS],
}

impl ChainStep {
    /// Converts the element type.
    pub fn cast(dtype: DType, term: ChainTerm) -> Self {
        Self { op: ChainOp::Cast { dtype }, terms: [term; MAX_TERMS] }
    }

    /// A function of one element.
    pub fn unary(op: UnaryOp, term: ChainTerm) -> Self {
        Self { op: ChainOp::Unary { op }, terms: [term; MAX_TERMS] }
    }

    /// A function of two elements.
    pub fn binary(op: BinaryOp, a: ChainTerm, b: ChainTerm) -> Self {
        Self { op: ChainOp::Binary { op }, terms: [a, b, b] }
    }

    /// `a` where the condition is true, else `b`.
    pub fn where_(condition: ChainTerm, a: ChainTerm, b: ChainTerm) -> Self {
        Self { op: ChainOp::Where, terms: [condition, a, b] }
    }

    /// Limits each element to a range.
    pub fn clip(min: Option<Scalar>, max: Option<Scalar>, term: ChainTerm) -> Self {
        Self { op: ChainOp::Clip { min, max }, terms: [term; MAX_TERMS] }
    }

    /// What it computes.
    pub fn op(&self) -> ChainOp {
        self.op
    }

    /// What it reads, in the order of the operation's inputs.
    pub fn terms(&self) -> &[ChainTerm] {
        let count = match self.op {
            ChainOp::Cast { .. } | ChainOp::Unary { .. } | ChainOp::Clip { .. } => 1,
            ChainOp::Binary { .. } => 2,
            ChainOp::Where => 3,
        };
        &self.terms[..count]
    }

    /// The same step with other operands.
    #[must_use]
    pub fn with_terms(&self, rename: impl Fn(ChainTerm) -> ChainTerm) -> Self {
        Self { op: self.op, terms: self.terms.map(rename) }
    }

    /// The operation that this step stands for.
    pub fn to_op(&self) -> Op {
        match self.op {
            ChainOp::Cast { dtype } => Op::Copy { dtype, saturate: true },
            ChainOp::Unary { op } => Op::Unary { op },
            ChainOp::Binary { op } => Op::Binary { op },
            ChainOp::Where => Op::Where,
            ChainOp::Clip { min, max } => Op::Clip { min, max },
        }
    }
}

/// Elementwise operations that are executed in one pass over memory: [`Op::Chain`].
///
/// A step reads inputs of the chain and results of earlier steps. The result of the last step is the output. Results
/// are the same as those of the operations recorded one by one: each is rounded to its element type. A chain is
/// checked when it is made and never changes; clones share it. Two chains are equal if they have the same steps on
/// the same inputs.
///
/// # Example
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::command::{BinaryOp, Chain, ChainStep, ChainTerm, UnaryOp};
/// use millstream::DType;
///
/// let [x, bias] = [ChainTerm::Input(0), ChainTerm::Input(1)];
/// let chain = Chain::new(
///     &[DType::F32, DType::F32],
///     &[
///         ChainStep::binary(BinaryOp::Add, x, bias),
///         ChainStep::unary(UnaryOp::Relu, ChainTerm::Step(0)),
///     ],
/// );
/// assert_eq!(chain.unwrap().dtype(), DType::F32);
///
/// let misfit = Chain::new(&[DType::F32, DType::F16], &[ChainStep::binary(BinaryOp::Add, x, bias)]);
/// let message = misfit.unwrap_err().to_string();
/// assert_eq!(message, "chain: step 0 is binary with b f16, expected b to be f32");
/// ```
#[derive(Clone)]
pub struct Chain(Arc<Program>);

struct Program {
    /// The element types of the inputs.
    inputs: Vec<DType>,
    steps: Vec<ChainStep>,
    /// The element type of each result.
    results: Vec<DType>,
    /// Inputs and steps as bytes, for equality and hashing.
    words: Box<[u8]>,
}

const STEP_NAMES: [&str; MAX_CHAIN_STEPS] = [
    "step 0", "step 1", "step 2", "step 3", "step 4", "step 5", "step 6", "step 7", "step 8",
    "step 9", "step 10", "step 11", "step 12", "step 13", "step 14", "step 15",
];

/// The names of inputs.
pub(super) const INPUT_NAMES: [&str; MAX_CHAIN_INPUTS] =
    ["input_0", "input_1", "input_2", "input_3", "input_4", "input_5", "input_6", "input_7"];

impl Chain {
    /// A chain of steps on inputs of these element types.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] for too few or too many inputs or steps, for an input or a result that no step reads, and
    /// for a step whose operands do not fit it or come later. The error names the step.
    pub fn new(inputs: &[DType], steps: &[ChainStep]) -> Result<Self> {
        if !(1..=MAX_CHAIN_INPUTS).contains(&inputs.len()) {
            return mismatch("inputs", format!("1 to {MAX_CHAIN_INPUTS}"), inputs.len());
        }
        if !(1..=MAX_CHAIN_STEPS).contains(&steps.len()) {
            return mismatch("steps", format!("1 to {MAX_CHAIN_STEPS}"), steps.len());
        }
        let mut results = Vec::with_capacity(steps.len());
        let mut checked = Vec::with_capacity(steps.len());
        for (place, step) in steps.iter().enumerate() {
            let mut step = *step;
            let (from, to) = check_step(inputs, &results, place, &step)?;
            if let ChainOp::Clip { min, max } = &mut step.op {
                for limit in [min, max].into_iter().flatten() {
                    *limit = in_type(*limit, from);
                }
            }
            results.push(to);
            checked.push(step);
        }
        check_read(inputs.len(), &checked)?;
        let words = chain_words(inputs, &checked);
        Ok(Chain(Arc::new(Program { inputs: inputs.into(), steps: checked, results, words })))
    }

    /// The element types of the inputs.
    pub fn inputs(&self) -> &[DType] {
        &self.0.inputs
    }

    /// The steps. Limits of a clip are converted to the element type that is limited.
    pub fn steps(&self) -> &[ChainStep] {
        &self.0.steps
    }

    /// The element type of the result of each step.
    pub fn results(&self) -> &[DType] {
        &self.0.results
    }

    /// The element type of an input or a result.
    ///
    /// # Panics
    ///
    /// If the chain has no such input or result.
    pub fn dtype_of(&self, term: ChainTerm) -> DType {
        match term {
            ChainTerm::Input(place) => self.0.inputs[usize::from(place)],
            ChainTerm::Step(place) => self.0.results[usize::from(place)],
        }
    }

    /// The element type of the output.
    pub fn dtype(&self) -> DType {
        self.0.results[self.0.results.len() - 1]
    }
}

/// The element types of a step's first operand and of its result, by the rules of the operation that the step stands
/// for.
fn check_step(
    inputs: &[DType],
    results: &[DType],
    place: usize,
    step: &ChainStep,
) -> Result<(DType, DType)> {
    let mut layouts = [Layout::scalar(DType::Bool); MAX_TERMS];
    for (layout, term) in layouts.iter_mut().zip(step.terms()) {
        let (known, place_of) = match term {
            ChainTerm::Input(at) => (inputs, usize::from(*at)),
            ChainTerm::Step(at) => (results, usize::from(*at)),
        };
        let Some(&dtype) = known.get(place_of) else {
            let expected = format!("one of {} inputs or {place} earlier steps", inputs.len());
            return mismatch(STEP_NAMES[place], expected, format!("{:?} of {term:?}", step.op));
        };
        *layout = Layout::scalar(dtype);
    }
    let cast_to = match step.op {
        ChainOp::Cast { dtype } => Some(dtype),
        _ => None,
    };
    let read = layouts.iter().map(Layout::dtype);
    if let Some(stored) = read.chain(cast_to).find(|dtype| dtype.is_storage()) {
        return mismatch(STEP_NAMES[place], "types that are computed with", stored);
    }
    let references: [&Layout; MAX_TERMS] = std::array::from_fn(|at| &layouts[at]);
    match step.to_op().infer(&references[..step.terms().len()]) {
        Ok(outputs) => Ok((layouts[0].dtype(), outputs[0].dtype())),
        Err(Error::Mismatch { op, operand, expected, found }) => {
            // Steps work on single elements, so the shape is left out of the message.
            let found = found.trim_end_matches("[]");
            let (expected, found) =
                (format!("{operand} to be {expected}"), format!("{op} with {operand} {found}"));
            mismatch(STEP_NAMES[place], expected, found)
        }
        Err(error) => Err(error),
    }
}

/// Whether all inputs and all results but the last are read.
fn check_read(inputs: usize, steps: &[ChainStep]) -> Result<()> {
    let is_read = |wanted: ChainTerm| steps.iter().any(|step| step.terms().contains(&wanted));
    for (place, name) in INPUT_NAMES.iter().enumerate().take(inputs) {
        if !is_read(ChainTerm::Input(place as u8)) {
            return mismatch(name, "an input that a step reads", "read by none");
        }
    }
    for (place, name) in STEP_NAMES.iter().enumerate().take(steps.len() - 1) {
        if !is_read(ChainTerm::Step(place as u8)) {
            return mismatch(name, "a result that a later step reads", "read by none");
        }
    }
    Ok(())
}

#[cold]
fn mismatch<T>(
    operand: &'static str,
    expected: impl Into<String>,
    found: impl ToString,
) -> Result<T> {
    let (expected, found) = (expected.into(), found.to_string());
    Err(Error::Mismatch { op: "chain", operand, expected, found })
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.words == other.0.words
    }
}

impl Eq for Chain {}

impl Hash for Chain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0.words);
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} through", self.0.inputs)?;
        for step in &self.0.steps {
            write!(f, " {:?} of {:?};", step.op, step.terms())?;
        }
        Ok(())
    }
}

impl<B: BufferLike> Command<B> {
    /// Executes a chain of elementwise operations in one pass. All inputs broadcast; `dst` may be one of them.
    ///
    /// # Errors
    ///
    /// A number or types of inputs other than the chain's, shapes that do not broadcast, or operands that do not fit
    /// their buffers or overlap.
    pub fn chain(
        chain: &Chain,
        dst: Operand<B>,
        inputs: impl IntoIterator<Item = Operand<B>>,
    ) -> Result<Self> {
        Self::new(Op::Chain { chain: chain.clone() }, [dst], inputs)
    }
}

#[cfg(test)]
mod tests;

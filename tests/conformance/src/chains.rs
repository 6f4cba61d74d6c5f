//! Chains at random.
//!
//! All steps but the last are functions that every device rounds alike, so that what the last one gives is known.

use millstream_core::{
    BinaryOp, Chain, ChainStep, ChainTerm, DType, MAX_CHAIN_STEPS, Scalar, UnaryOp,
};

use crate::Generator;
use crate::cases::TYPES;

/// Products on the way: few, so that nothing becomes too small for an exact result.
const MAX_PRODUCTS: usize = 3;

/// A chain under way.
struct Growing<'a> {
    generator: &'a mut Generator,
    /// All values so far with their types, inputs first.
    values: Vec<(ChainTerm, DType)>,
    /// Those that nobody has read.
    unread: Vec<ChainTerm>,
    steps: Vec<ChainStep>,
    products: usize,
}

/// At most so many steps on inputs of these types, and which of the inputs they read.
pub(crate) fn random(
    generator: &mut Generator,
    inputs: &[DType],
    steps: usize,
) -> (Chain, Vec<usize>) {
    let steps = steps.clamp(1, MAX_CHAIN_STEPS);
    let terms = (0..inputs.len()).map(|place| ChainTerm::Input(place as u8));
    let values: Vec<_> = terms.zip(inputs.iter().copied()).collect();
    let unread = values.iter().map(|value| value.0).collect();
    let mut growing = Growing { generator, values, unread, steps: Vec::new(), products: 0 };
    for place in 0..steps {
        growing.grow(place + 1 == steps);
    }
    let steps = growing.steps;
    prune(inputs, &steps)
}

impl Growing<'_> {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.generator.below(list.len())]
    }

    /// A value of a type, if possible one that nobody has read.
    fn take(&mut self, fits: impl Fn(DType) -> bool) -> Option<ChainTerm> {
        let fitting: Vec<ChainTerm> =
            self.values.iter().filter(|value| fits(value.1)).map(|value| value.0).collect();
        let fresh: Vec<ChainTerm> =
            fitting.iter().copied().filter(|term| self.unread.contains(term)).collect();
        let list = if fresh.is_empty() || self.generator.below(4) == 0 { fitting } else { fresh };
        if list.is_empty() { None } else { Some(self.pick(&list)) }
    }

    fn grow(&mut self, is_last: bool) {
        let first = match self.steps.len() {
            // What was made last is read next, so that little is left over.
            made if made > 0 && self.generator.below(4) > 0 => ChainTerm::Step(made as u8 - 1),
            _ => self.take(|_| true).expect("a chain has inputs"),
        };
        let dtype = self.values.iter().find(|value| value.0 == first).expect("a known value").1;
        let step = match self.generator.below(8) {
            0 => ChainStep::cast(self.pick(&TYPES), first),
            1 if dtype != DType::Bool => {
                let limits = [None, Some(Scalar::Int(-2)), Some(Scalar::Int(3))];
                let (min, max) = (self.pick(&limits), self.pick(&limits));
                ChainStep::clip(min, max, first)
            }
            2 => match self.take(|other| other == DType::Bool) {
                Some(condition) => {
                    let other = self.take(|other| other == dtype).expect("the first at least");
                    ChainStep::where_(condition, first, other)
                }
                None => ChainStep::cast(dtype, first),
            },
            3 | 4 => ChainStep::unary(self.unary(dtype, is_last), first),
            _ => {
                let other = self.take(|other| other == dtype).expect("the first at least");
                ChainStep::binary(self.binary(dtype), first, other)
            }
        };
        self.unread.retain(|term| !step.terms().contains(term));
        let types: Vec<DType> = step.terms().iter().map(|term| self.dtype(*term)).collect();
        let made = result(&step, types[types.len() - 1]);
        let term = ChainTerm::Step(self.steps.len() as u8);
        self.values.push((term, made));
        self.unread.push(term);
        self.steps.push(step);
    }

    fn dtype(&self, term: ChainTerm) -> DType {
        self.values.iter().find(|value| value.0 == term).expect("a known value").1
    }

    fn unary(&mut self, dtype: DType, is_last: bool) -> UnaryOp {
        use UnaryOp::*;
        if dtype == DType::Bool {
            return Not;
        }
        if dtype.is_float() && is_last {
            return self.pick(&[Tanh, Sigmoid, Erf, HardSigmoid { alpha: 0.2, beta: 0.5 }, IsNan]);
        }
        if dtype.is_float() {
            return self.pick(&[Abs, Neg, Relu, Floor, Round, IsNan]);
        }
        self.pick(&[Abs, Neg, Relu, Sign, Not])
    }

    fn binary(&mut self, dtype: DType) -> BinaryOp {
        use BinaryOp::*;
        if dtype == DType::Bool {
            return self.pick(&[And, Or, Xor, Equal, NotEqual]);
        }
        let mut ops = vec![Add, Sub, Min, Max, Less, GreaterEqual];
        if self.products < MAX_PRODUCTS {
            ops.push(Mul);
        }
        if !dtype.is_float() {
            ops.extend([And, Or, Xor]);
        }
        let op = self.pick(&ops);
        self.products += usize::from(op == Mul);
        op
    }
}

/// The type that a step makes of its last operand's.
fn result(step: &ChainStep, dtype: DType) -> DType {
    use millstream_core::ChainOp;
    match step.op() {
        ChainOp::Cast { dtype } => dtype,
        ChainOp::Unary { op } => op.output(dtype).expect("a function of that type"),
        ChainOp::Binary { op } => op.output(dtype).expect("a function of that type"),
        ChainOp::Where | ChainOp::Clip { .. } => dtype,
    }
}

/// Leaves out what the last step does not need.
fn prune(inputs: &[DType], steps: &[ChainStep]) -> (Chain, Vec<usize>) {
    let mut needed = vec![ChainTerm::Step(steps.len() as u8 - 1)];
    for (place, step) in steps.iter().enumerate().rev() {
        if needed.contains(&ChainTerm::Step(place as u8)) {
            needed.extend(step.terms());
        }
    }
    let is_needed = |term: ChainTerm| needed.contains(&term);
    let read: Vec<usize> =
        (0..inputs.len()).filter(|&place| is_needed(ChainTerm::Input(place as u8))).collect();
    let kept: Vec<usize> =
        (0..steps.len()).filter(|&place| is_needed(ChainTerm::Step(place as u8))).collect();
    let place = |list: &[usize], old: u8| {
        list.iter().position(|&place| place == usize::from(old)).expect("needed") as u8
    };
    let renamed = |term: ChainTerm| match term {
        ChainTerm::Input(old) => ChainTerm::Input(place(&read, old)),
        ChainTerm::Step(old) => ChainTerm::Step(place(&kept, old)),
    };
    let steps: Vec<ChainStep> =
        kept.iter().map(|&place| steps[place].with_terms(renamed)).collect();
    let types: Vec<DType> = read.iter().map(|&place| inputs[place]).collect();
    let chain = Chain::new(&types, &steps).unwrap_or_else(|error| panic!("{error}: {steps:?}"));
    (chain, read)
}

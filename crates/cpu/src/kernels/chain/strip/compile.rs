//! From the steps of a chain to instructions.

use millstream_core::{
    BinaryOp, Chain, ChainOp, ChainTerm, DType, MAX_CHAIN_STEPS, Scalar, UnaryOp,
};

use super::{Instruction, Place, What};

/// A step is one instruction, and what it reads may have to be loaded and what it replaces kept.
const MOST: usize = 3 * MAX_CHAIN_STEPS;

/// The instructions of a chain.
pub(in crate::kernels::chain) struct Program {
    list: [Instruction; MOST],
    count: usize,
    /// Results that are stored at one time or another.
    pub slots: usize,
}

impl Program {
    /// The instructions of a chain, unless it needs functions or types that strips do not have.
    pub fn new(chain: &Chain) -> Option<Self> {
        let fits = |dtype: &DType| matches!(dtype, DType::F32 | DType::Bool);
        if chain.dtype() != DType::F32 || !chain.inputs().iter().chain(chain.results()).all(fits) {
            return None;
        }
        let mut compiler = Compiler::new(chain);
        for place in 0..chain.steps().len() {
            compiler.step(place)?;
        }
        Some(compiler.program)
    }

    #[inline(always)]
    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.list[..self.count]
    }

    fn push(&mut self, what: What, place: Place) -> &mut Instruction {
        let next = &mut self.list[self.count];
        *next = Instruction { what, place, turned: false, low: 0.0, high: 0.0 };
        self.count += 1;
        next
    }
}

struct Compiler<'a> {
    chain: &'a Chain,
    program: Program,
    /// The last step that reads each result.
    ends: [usize; MAX_CHAIN_STEPS],
    /// What the accumulator holds, what lies beside it, and what the mask stands for.
    own: Option<ChainTerm>,
    kept: Option<ChainTerm>,
    mask: Option<ChainTerm>,
    /// Where results are stored that lie in neither.
    slots: [Option<u8>; MAX_CHAIN_STEPS],
}

impl<'a> Compiler<'a> {
    fn new(chain: &'a Chain) -> Self {
        let mut ends = [0; MAX_CHAIN_STEPS];
        for (place, step) in chain.steps().iter().enumerate() {
            for term in step.terms() {
                if let ChainTerm::Step(result) = term {
                    ends[usize::from(*result)] = place;
                }
            }
        }
        let none =
            Instruction { what: What::Load, place: Place::Own, turned: false, low: 0.0, high: 0.0 };
        let program = Program { list: [none; MOST], count: 0, slots: 0 };
        Compiler { chain, program, ends, own: None, kept: None, mask: None, slots: [None; 16] }
    }

    fn step(&mut self, place: usize) -> Option<()> {
        let step = self.chain.steps()[place];
        let terms = step.terms();
        let first = self.chain.dtype_of(terms[0]);
        match step.op() {
            ChainOp::Cast { .. } => None,
            _ if first == DType::Bool && step.op() != ChainOp::Where => None,
            ChainOp::Unary { op } => {
                let (what, low, high) = function(op)?;
                self.take(place, terms[0]);
                self.leave(place);
                let next = self.program.push(what, Place::Own);
                (next.low, next.high) = (low, high);
                self.own = Some(ChainTerm::Step(place as u8));
                Some(())
            }
            ChainOp::Clip { min, max } => {
                self.take(place, terms[0]);
                self.leave(place);
                let next = self.program.push(What::Clip, Place::Own);
                // As the single operation rounds them.
                next.low = min.map_or(f64::NEG_INFINITY, Scalar::as_f64) as f32;
                next.high = max.map_or(f64::INFINITY, Scalar::as_f64) as f32;
                self.own = Some(ChainTerm::Step(place as u8));
                Some(())
            }
            ChainOp::Binary { op } => {
                let (what, compares) = pair(op)?;
                self.two(place, what, [terms[0], terms[1]], !compares);
                let result = ChainTerm::Step(place as u8);
                *(if compares { &mut self.mask } else { &mut self.own }) = Some(result);
                Some(())
            }
            ChainOp::Where => {
                if self.chain.dtype_of(terms[1]) != DType::F32 {
                    return None;
                }
                if self.mask != Some(terms[0]) {
                    // The mask of a comparison is there until the next one is made.
                    let ChainTerm::Input(input) = terms[0] else { return None };
                    self.program.push(What::Mask, Place::Input(input));
                    self.mask = Some(terms[0]);
                }
                self.two(place, What::Choose, [terms[1], terms[2]], true);
                self.own = Some(ChainTerm::Step(place as u8));
                Some(())
            }
        }
    }

    /// An instruction of two operands, one of which is in the accumulator or comes there.
    fn two(&mut self, place: usize, what: What, [a, b]: [ChainTerm; 2], replaces: bool) {
        let turned = self.own == Some(b) && self.own != Some(a);
        let other = if turned {
            a
        } else {
            self.take(place, a);
            b
        };
        // Before what is in the accumulator is kept, which may be what is read.
        let found = self.find(other);
        if replaces {
            self.leave(place);
        }
        self.program.push(what, found).turned = turned;
    }

    /// Brings a value to the accumulator.
    fn take(&mut self, place: usize, term: ChainTerm) {
        if self.own == Some(term) {
            return;
        }
        let found = self.find(term);
        // What was there is read by later steps: this one would have been turned.
        self.leave(place);
        let found = if found == Place::Kept { self.find(term) } else { found };
        self.program.push(What::Load, found);
        self.own = Some(term);
    }

    /// Keeps what is in the accumulator, which is about to be replaced, if later steps read it.
    fn leave(&mut self, place: usize) {
        let Some(ChainTerm::Step(result)) = self.own else { return };
        let is_stored = self.kept == self.own || self.slots[usize::from(result)].is_some();
        if self.ends[usize::from(result)] <= place || is_stored {
            return;
        }
        let is_free = match self.kept {
            Some(ChainTerm::Step(kept)) => self.ends[usize::from(kept)] < place,
            _ => true,
        };
        if is_free {
            self.program.push(What::Keep, Place::Own);
            self.kept = self.own;
        } else {
            let slot = self.program.slots as u8;
            self.program.slots += 1;
            self.slots[usize::from(result)] = Some(slot);
            self.program.push(What::Store, Place::Slot(slot));
        }
    }

    /// Where a value is. All that is read later was kept.
    fn find(&self, term: ChainTerm) -> Place {
        if self.own == Some(term) {
            return Place::Own;
        }
        if self.kept == Some(term) {
            return Place::Kept;
        }
        match term {
            ChainTerm::Input(input) => Place::Input(input),
            ChainTerm::Step(result) => {
                let slot = self.slots[usize::from(result)].expect("a result that was stored");
                Place::Slot(slot)
            }
        }
    }
}

/// A function of one element, and its numbers.
fn function(op: UnaryOp) -> Option<(What, f32, f32)> {
    match op {
        UnaryOp::Relu => Some((What::Relu, 0.0, 0.0)),
        UnaryOp::Neg => Some((What::Neg, 0.0, 0.0)),
        UnaryOp::Abs => Some((What::Abs, 0.0, 0.0)),
        UnaryOp::Square => Some((What::Square, 0.0, 0.0)),
        UnaryOp::Sqrt => Some((What::Sqrt, 0.0, 0.0)),
        UnaryOp::Reciprocal => Some((What::Reciprocal, 0.0, 0.0)),
        UnaryOp::LeakyRelu { slope } => Some((What::LeakyRelu, slope, 0.0)),
        UnaryOp::HardSigmoid { alpha, beta } => Some((What::HardSigmoid, alpha, beta)),
        UnaryOp::HardSwish => Some((What::HardSwish, 0.0, 0.0)),
        _ => None,
    }
}

/// A function of two elements, and whether it compares them.
fn pair(op: BinaryOp) -> Option<(What, bool)> {
    match op {
        BinaryOp::Add => Some((What::Add, false)),
        BinaryOp::Sub => Some((What::Sub, false)),
        BinaryOp::Mul => Some((What::Mul, false)),
        BinaryOp::Div => Some((What::Div, false)),
        BinaryOp::Max => Some((What::Max, false)),
        BinaryOp::Min => Some((What::Min, false)),
        BinaryOp::Equal => Some((What::Equal, true)),
        BinaryOp::NotEqual => Some((What::NotEqual, true)),
        BinaryOp::Less => Some((What::Less, true)),
        BinaryOp::LessEqual => Some((What::LessEqual, true)),
        BinaryOp::Greater => Some((What::Greater, true)),
        BinaryOp::GreaterEqual => Some((What::GreaterEqual, true)),
        _ => None,
    }
}

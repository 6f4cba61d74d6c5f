//! From the steps of a chain to instructions.

use millstream_core::{
    BinaryOp, Chain, ChainOp, ChainTerm, DType, MAX_CHAIN_STEPS, Scalar, UnaryOp,
};

use super::{Instruction, Location, Opcode};

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
        for location in 0..chain.steps().len() {
            compiler.step(location)?;
        }
        Some(compiler.program)
    }

    #[inline(always)]
    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.list[..self.count]
    }

    fn push(&mut self, opcode: Opcode, location: Location) -> &mut Instruction {
        let next = &mut self.list[self.count];
        *next = Instruction { opcode, location, swapped: false, low: 0.0, high: 0.0 };
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
    accumulator: Option<ChainTerm>,
    kept: Option<ChainTerm>,
    mask: Option<ChainTerm>,
    /// Where results are stored that lie in neither.
    slots: [Option<u8>; MAX_CHAIN_STEPS],
}

impl<'a> Compiler<'a> {
    fn new(chain: &'a Chain) -> Self {
        let mut ends = [0; MAX_CHAIN_STEPS];
        for (location, step) in chain.steps().iter().enumerate() {
            for term in step.terms() {
                if let ChainTerm::Step(result) = term {
                    ends[usize::from(*result)] = location;
                }
            }
        }
        let none = Instruction {
            opcode: Opcode::Load,
            location: Location::Accumulator,
            swapped: false,
            low: 0.0,
            high: 0.0,
        };
        let program = Program { list: [none; MOST], count: 0, slots: 0 };
        Compiler {
            chain,
            program,
            ends,
            accumulator: None,
            kept: None,
            mask: None,
            slots: [None; 16],
        }
    }

    fn step(&mut self, location: usize) -> Option<()> {
        let step = self.chain.steps()[location];
        let terms = step.terms();
        let first = self.chain.dtype_of(terms[0]);
        match step.op() {
            ChainOp::Cast { .. } => None,
            _ if first == DType::Bool && step.op() != ChainOp::Where => None,
            ChainOp::Unary { op } => {
                let (opcode, low, high) = function(op)?;
                self.take(location, terms[0]);
                self.leave(location);
                let next = self.program.push(opcode, Location::Accumulator);
                (next.low, next.high) = (low, high);
                self.accumulator = Some(ChainTerm::Step(location as u8));
                Some(())
            }
            ChainOp::Clip { min, max } => {
                self.take(location, terms[0]);
                self.leave(location);
                let next = self.program.push(Opcode::Clip, Location::Accumulator);
                // As the single operation rounds them.
                next.low = min.map_or(f64::NEG_INFINITY, Scalar::as_f64) as f32;
                next.high = max.map_or(f64::INFINITY, Scalar::as_f64) as f32;
                self.accumulator = Some(ChainTerm::Step(location as u8));
                Some(())
            }
            ChainOp::Binary { op } => {
                let (opcode, compares) = pair(op)?;
                self.two(location, opcode, [terms[0], terms[1]], !compares);
                let result = ChainTerm::Step(location as u8);
                *(if compares { &mut self.mask } else { &mut self.accumulator }) = Some(result);
                Some(())
            }
            ChainOp::Where => {
                if self.chain.dtype_of(terms[1]) != DType::F32 {
                    return None;
                }
                if self.mask != Some(terms[0]) {
                    // The mask of a comparison is there until the next one is made.
                    let ChainTerm::Input(input) = terms[0] else { return None };
                    self.program.push(Opcode::Mask, Location::Input(input));
                    self.mask = Some(terms[0]);
                }
                self.two(location, Opcode::Choose, [terms[1], terms[2]], true);
                self.accumulator = Some(ChainTerm::Step(location as u8));
                Some(())
            }
        }
    }

    /// An instruction of two operands, one of which is in the accumulator or comes there.
    fn two(&mut self, location: usize, opcode: Opcode, [a, b]: [ChainTerm; 2], replaces: bool) {
        let swapped = self.accumulator == Some(b) && self.accumulator != Some(a);
        let other = if swapped {
            a
        } else {
            self.take(location, a);
            b
        };
        // Before what is in the accumulator is kept, which may be what is read.
        let found = self.find(other);
        if replaces {
            self.leave(location);
        }
        self.program.push(opcode, found).swapped = swapped;
    }

    /// Brings a value to the accumulator.
    fn take(&mut self, location: usize, term: ChainTerm) {
        if self.accumulator == Some(term) {
            return;
        }
        let found = self.find(term);
        // What was there is read by later steps: this one would have been swapped.
        self.leave(location);
        let found = if found == Location::Kept { self.find(term) } else { found };
        self.program.push(Opcode::Load, found);
        self.accumulator = Some(term);
    }

    /// Keeps what is in the accumulator, which is about to be replaced, if later steps read it.
    fn leave(&mut self, location: usize) {
        let Some(ChainTerm::Step(result)) = self.accumulator else { return };
        let is_stored = self.kept == self.accumulator || self.slots[usize::from(result)].is_some();
        if self.ends[usize::from(result)] <= location || is_stored {
            return;
        }
        let is_free = match self.kept {
            Some(ChainTerm::Step(kept)) => self.ends[usize::from(kept)] < location,
            _ => true,
        };
        if is_free {
            self.program.push(Opcode::Keep, Location::Accumulator);
            self.kept = self.accumulator;
        } else {
            let slot = self.program.slots as u8;
            self.program.slots += 1;
            self.slots[usize::from(result)] = Some(slot);
            self.program.push(Opcode::Store, Location::Slot(slot));
        }
    }

    /// Where a value is. All that is read later was kept.
    fn find(&self, term: ChainTerm) -> Location {
        if self.accumulator == Some(term) {
            return Location::Accumulator;
        }
        if self.kept == Some(term) {
            return Location::Kept;
        }
        match term {
            ChainTerm::Input(input) => Location::Input(input),
            ChainTerm::Step(result) => {
                let slot = self.slots[usize::from(result)].expect("a result that was stored");
                Location::Slot(slot)
            }
        }
    }
}

/// A function of one element, and its numbers.
fn function(op: UnaryOp) -> Option<(Opcode, f32, f32)> {
    match op {
        UnaryOp::Relu => Some((Opcode::Relu, 0.0, 0.0)),
        UnaryOp::Neg => Some((Opcode::Neg, 0.0, 0.0)),
        UnaryOp::Abs => Some((Opcode::Abs, 0.0, 0.0)),
        UnaryOp::Square => Some((Opcode::Square, 0.0, 0.0)),
        UnaryOp::Sqrt => Some((Opcode::Sqrt, 0.0, 0.0)),
        UnaryOp::Reciprocal => Some((Opcode::Reciprocal, 0.0, 0.0)),
        UnaryOp::LeakyRelu { slope } => Some((Opcode::LeakyRelu, slope, 0.0)),
        UnaryOp::HardSigmoid { alpha, beta } => Some((Opcode::HardSigmoid, alpha, beta)),
        UnaryOp::HardSwish => Some((Opcode::HardSwish, 0.0, 0.0)),
        _ => None,
    }
}

/// A function of two elements, and whether it compares them.
fn pair(op: BinaryOp) -> Option<(Opcode, bool)> {
    match op {
        BinaryOp::Add => Some((Opcode::Add, false)),
        BinaryOp::Sub => Some((Opcode::Sub, false)),
        BinaryOp::Mul => Some((Opcode::Mul, false)),
        BinaryOp::Div => Some((Opcode::Div, false)),
        BinaryOp::Max => Some((Opcode::Max, false)),
        BinaryOp::Min => Some((Opcode::Min, false)),
        BinaryOp::Equal => Some((Opcode::Equal, true)),
        BinaryOp::NotEqual => Some((Opcode::NotEqual, true)),
        BinaryOp::Less => Some((Opcode::Less, true)),
        BinaryOp::LessEqual => Some((Opcode::LessEqual, true)),
        BinaryOp::Greater => Some((Opcode::Greater, true)),
        BinaryOp::GreaterEqual => Some((Opcode::GreaterEqual, true)),
        _ => None,
    }
}

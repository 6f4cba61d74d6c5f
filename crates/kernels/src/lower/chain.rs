//! Elementwise steps in one pass.
//!
//! A key describes all of a chain but the numbers in it: the operation of each step, its type, and what it reads. The
//! text is written from the key alone, so different chains have different kernels. The numbers are params, so that
//! chains with other limits or slopes share a kernel.

use std::fmt::Write;

use millstream_core::{
    BoundCommand, Chain, ChainOp, ChainStep, ChainTerm, DType, MAX_CHAIN_INPUTS, MAX_CHAIN_STEPS,
    Scalar,
};

use super::unary;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

/// The output and all inputs.
const OPERANDS: usize = 1 + MAX_CHAIN_INPUTS;

params! {
    /// The params of `chain`.
    ChainParams {
        walk: Walk<9>,
        /// The numbers of each step: parameters of a function as `f32`, limits as elements.
        first: [u64; 16],
        second: [u64; 16],
        tail: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "chain",
    text: include_str!("../../programs/chain.kernel"),
    constants: &[
        "STEP_0",
        "STEP_1",
        "STEP_2",
        "STEP_3",
        "STEP_4",
        "STEP_5",
        "STEP_6",
        "STEP_7",
        "STEP_8",
        "STEP_9",
        "STEP_10",
        "STEP_11",
        "STEP_12",
        "STEP_13",
        "STEP_14",
        "STEP_15",
        "INPUTS",
        "MORE_INPUTS",
        "RANK",
        "WIDE",
        "VECTOR",
        "STEPS",
    ],
    params: ChainParams::declaration,
};

/// Bits of each part of a step; all parts together have 29.
const TERM_BITS: u32 = 5;
const TYPE_BITS: u32 = 5;
const CODE_BITS: u32 = 6;
const KIND_BITS: u32 = 3;
/// How many inputs have their types in one constant.
const INPUTS_PER_WORD: usize = MAX_CHAIN_INPUTS / 2;

/// The operation of a step; 0 means that there is no step.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Cast = 1,
    Unary = 2,
    Binary = 3,
    Where = 4,
    Clip = 5,
}

/// A step in the form from which the text is written.
#[derive(Clone, Copy, PartialEq, Debug)]
struct PackedStep {
    kind: Kind,
    /// The number of the function; for a clip, which limits it has.
    code: i32,
    /// The element type of the result.
    to: i32,
    /// What it reads: the index of an input, or the number of inputs plus the index of a step.
    terms: [i32; 3],
}

impl PackedStep {
    fn of(step: &ChainStep, result: DType) -> Self {
        let (kind, code) = match step.op() {
            ChainOp::Cast { dtype: _ } => (Kind::Cast, 0),
            ChainOp::Unary { op } => (Kind::Unary, unary::code(op).0),
            ChainOp::Binary { op } => (Kind::Binary, op as i32),
            ChainOp::Where => (Kind::Where, 0),
            ChainOp::Clip { min, max } => {
                (Kind::Clip, i32::from(min.is_some()) | i32::from(max.is_some()) << 1)
            }
        };
        let mut terms = [0; 3];
        for (to, term) in terms.iter_mut().zip(step.terms()) {
            *to = match term {
                ChainTerm::Input(place) => i32::from(*place),
                ChainTerm::Step(place) => MAX_CHAIN_INPUTS as i32 + i32::from(*place),
            };
        }
        Self { kind, code, to: result as i32, terms }
    }

    /// The step as one constant of a key.
    fn pack(self) -> i32 {
        let [a, b, c] = self.terms;
        let parts = [
            (a, TERM_BITS),
            (b, TERM_BITS),
            (c, TERM_BITS),
            (self.to, TYPE_BITS),
            (self.code, CODE_BITS),
            (self.kind as i32, KIND_BITS),
        ];
        parts.iter().fold(0, |word, &(value, bits)| {
            debug_assert!((0..1 << bits).contains(&value), "{self:?}");
            word << bits | value
        })
    }

    fn unpack(mut word: i32) -> Option<Self> {
        let mut take = |bits: u32| {
            let value = word & ((1 << bits) - 1);
            word >>= bits;
            value
        };
        let kind = match take(KIND_BITS) {
            1 => Kind::Cast,
            2 => Kind::Unary,
            3 => Kind::Binary,
            4 => Kind::Where,
            5 => Kind::Clip,
            _ => return None,
        };
        let (code, to) = (take(CODE_BITS), take(TYPE_BITS));
        let [c, b, a] = [take(TERM_BITS), take(TERM_BITS), take(TERM_BITS)];
        Some(Self { kind, code, to, terms: [a, b, c] })
    }
}

pub(super) fn lower(command: &BoundCommand, chain: &Chain, limits: &Limits) -> Lowered {
    let (dst, inputs) = (&command.outputs()[0], command.inputs());
    let mut operands = [dst; OPERANDS];
    operands[1..].iter_mut().zip(inputs).for_each(|(to, input)| *to = input);
    let Some(grid) = Elementwise::new(operands, limits) else { return Lowered::default() };
    let (mut first, mut second) = ([0; MAX_CHAIN_STEPS], [0; MAX_CHAIN_STEPS]);
    let mut constants = [0; PROGRAM.constants.len()];
    for (place, step) in chain.steps().iter().enumerate() {
        constants[place] = PackedStep::of(step, chain.results()[place]).pack();
        (first[place], second[place]) = numbers(step, chain.dtype_of(step.terms()[0]));
    }
    for (place, dtype) in chain.inputs().iter().enumerate() {
        let shift = TYPE_BITS as usize * (place % INPUTS_PER_WORD);
        constants[MAX_CHAIN_STEPS + place / INPUTS_PER_WORD] |= (*dtype as i32 + 1) << shift;
    }
    let last = constants.len() - 4;
    constants[last..].copy_from_slice(&[grid.rank, grid.wide, grid.vector, grid.steps]);
    let launch = Launch {
        key: Key::new(Program::Chain, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: operands.iter().map(|&operand| Slot::from(operand)).collect(),
        params: ChainParams { walk: grid.walk, first, second, tail: grid.tail }.pack(),
    };
    Lowered { launches: smallvec::smallvec![launch], workspace: 0 }
}

/// The numbers of a step, as bits.
fn numbers(step: &ChainStep, dtype: DType) -> (u64, u64) {
    match step.op() {
        ChainOp::Unary { op } => {
            let (_, a, b) = unary::code(op);
            (a.to_bits().into(), b.to_bits().into())
        }
        ChainOp::Clip { min, max } => {
            let bits = |limit: Option<Scalar>| {
                limit.map_or(0, |limit| u64::from_ne_bytes(limit.to_bytes(dtype)))
            };
            (bits(min), bits(max))
        }
        ChainOp::Cast { dtype: _ } | ChainOp::Binary { op: _ } | ChainOp::Where => (0, 0),
    }
}

/// The functions in the text of a single operation, without its kernel.
fn functions(text: &'static str) -> &'static str {
    text.split("// Chains take what is above.").next().unwrap_or(text)
}

/// Writes the steps of a key: the functions that they call, and `chain`, which calls those.
pub(crate) fn write_steps(text: &mut String, key: &Key) {
    let constants: Vec<i32> = key.constants().map(|(_, value)| value).collect();
    let steps: Vec<PackedStep> =
        constants[..MAX_CHAIN_STEPS].iter().map_while(|&word| PackedStep::unpack(word)).collect();
    let input = |place: usize| {
        let word = constants[MAX_CHAIN_STEPS + place / INPUTS_PER_WORD];
        let shift = TYPE_BITS as usize * (place % INPUTS_PER_WORD);
        (word >> shift & ((1 << TYPE_BITS) - 1)) - 1
    };
    let dtype = |term: i32| match usize::try_from(term - MAX_CHAIN_INPUTS as i32) {
        Ok(step) => steps[step].to,
        Err(_) => input(term as usize),
    };
    for (place, step) in steps.iter().enumerate() {
        let text_of = match step.kind {
            Kind::Unary => unary::PROGRAM.text,
            Kind::Binary => super::binary::PROGRAM.text,
            Kind::Clip => super::clip::PROGRAM.text,
            Kind::Cast | Kind::Where => continue,
        };
        let from = dtype(step.terms[0]);
        let PackedStep { code, to, .. } = step;
        let _ = writeln!(text, "namespace step_{place} {{");
        let _ = writeln!(text, "#define OP {code}\n#define HAS {code}");
        let _ = writeln!(text, "#define DTYPE {from}\n#define TO {to}");
        text.push_str(functions(text_of));
        text.push_str("\n#undef OP\n#undef HAS\n#undef DTYPE\n#undef TO\n}\n");
    }
    text.push_str(
        "typedef Index<WIDE>::Type I;\n\
         template <int N>\n\
         FN void chain(DEVICE u8* dst, DEVICE const u8* in0, DEVICE const u8* in1, DEVICE const u8* in2,\n    \
         DEVICE const u8* in3, DEVICE const u8* in4, DEVICE const u8* in5, DEVICE const u8* in6,\n    \
         DEVICE const u8* in7, IN_THREAD const I* at, IN_PARAMS Params& p) {\n",
    );
    for place in (0..MAX_CHAIN_INPUTS).filter(|&place| input(place) >= 0) {
        let (operand, dtype) = (place + 1, input(place));
        let _ = writeln!(
            text,
            "    const Values<{dtype}, N> x{place} = \
             load_values<{dtype}, N, (STEPS & {})>(in{place}, at[{operand}]);",
            1 << operand
        );
    }
    let name = |term: i32| match usize::try_from(term - MAX_CHAIN_INPUTS as i32) {
        Ok(step) => format!("r{step}.e[k]"),
        Err(_) => format!("x{term}.e[k]"),
    };
    for (place, step) in steps.iter().enumerate() {
        let [a, b, c] = step.terms.map(name);
        let value = format!("Element<{}>::Value", dtype(step.terms[0]));
        let made = match step.kind {
            Kind::Cast => a,
            Kind::Where => format!("{a} != 0 ? {b} : {c}"),
            Kind::Binary => format!("step_{place}::apply({a}, {b})"),
            Kind::Unary => format!(
                "step_{place}::apply({a}, ({value})f32_of((u32)p.first[{place}]), \
                 ({value})f32_of((u32)p.second[{place}]))"
            ),
            Kind::Clip => format!(
                "step_{place}::apply({a}, step_{place}::limit(p.first[{place}]), \
                 step_{place}::limit(p.second[{place}]))"
            ),
        };
        // Each result is rounded to its type, as if it had been stored.
        let to = step.to;
        let _ = writeln!(
            text,
            "    Values<{to}, N> r{place};\n    \
             for (int k = 0; k < N; ++k) r{place}.e[k] = Element<{to}>::get(Element<{to}>::put({made}));"
        );
    }
    let last = steps.len() - 1;
    let _ = writeln!(text, "    store_values<{}, N>(dst, at[0], r{last});\n}}", steps[last].to);
}

#[cfg(test)]
mod tests;

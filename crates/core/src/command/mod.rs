//! The narrow waist: what to compute, on which buffers, as plain data.
//!
//! The front only makes Commands, a backend only executes them. A [`Command`] cannot be built from
//! operands that do not fit it, so a backend may rely on every rule that a constructor states.

mod activation;
mod attention;
mod blocks;
mod cache;
mod chain;
mod check;
mod compact;
mod conv;
mod cumsum;
mod deform_conv;
mod elementwise;
mod fourier;
mod gather;
mod grid_sample;
mod host;
mod in_place;
mod infer;
mod integer;
mod iota;
mod matmul;
mod needs_f64;
mod normalize;
mod op;
mod op_kind;
mod operand;
mod packed;
mod packed_axes;
mod pad;
mod params;
mod planned;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod reverse;
mod roi_align;
mod same;
mod scatter;
mod select;
mod spec;
mod top_k;
mod transfer;
mod views;
mod work;

pub use activation::Activation;
pub use attention::{Alignment, AttentionParams, KeyWindow};
pub use blocks::BlockWeights;
pub use chain::{Chain, ChainOp, ChainStep, ChainTerm, MAX_CHAIN_INPUTS, MAX_CHAIN_STEPS};
pub use deform_conv::DeformConvParams;
pub use grid_sample::{GridMode, GridPadding};
pub use host::HostBytes;
pub(crate) use host::{HostRole, PoolEntry};
pub use infer::{Names, Outputs};
pub use integer::{Quantized, Rescale};
pub use iota::IotaParams;
pub use matmul::Epilogue;
pub use op::Op;
pub use op_kind::OpKind;
pub use operand::{Access, BufferLike, Operand, RawBuffer};
pub use packed_axes::PackedAxis;
pub use params::*;
pub use quantize::{DynamicAxes, DynamicRange, QuantizePart};
pub use random::Distribution;
pub use recurrent::{Recurrent, RecurrentActivation, RecurrentExtras, RecurrentVariant};
pub use reduce::{Axes, ReduceOp};
pub use roi_align::{RoiAlignParams, RoiMode};
pub use spec::TensorSpec;
pub use views::*;

pub use elementwise::{BinaryOp, UnaryOp};

use in_place::InPlace;
use smallvec::SmallVec;

use crate::{Error, Layout, Result};

/// Operands a Command holds without an allocation of its own.
const INLINE_OPERANDS: usize = 4;

type Operands<B> = SmallVec<[Operand<B>; INLINE_OPERANDS]>;

/// One operation with its operands.
///
/// `B` is how a buffer is named: by a [`Buffer`](crate::Buffer) reference while a Command is built, by a
/// [`RawBuffer`] address after it was recorded. Outputs come first, then inputs in the order in which the constructor
/// takes them. An optional input that is absent leaves no gap.
///
/// # Example
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::backend::RawBuffer;
/// use millstream::command::{Command, Operand};
/// use millstream::memory::Layout;
/// use millstream::DType;
///
/// let buffer = RawBuffer { address: 0x1000, bytes: 64 };
/// let row = Operand::new(buffer, Layout::contiguous(DType::F32, &[16]).unwrap());
/// let fill = Command::fill(row, 1.0f32).unwrap();
/// assert_eq!(fill.op().name(), "fill");
///
/// let too_long = Operand::new(buffer, Layout::contiguous(DType::F32, &[17]).unwrap());
/// assert!(Command::fill(too_long, 1.0f32).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Command<B> {
    op: Op,
    outputs: u16,
    state: State,
    operands: Operands<B>,
}

/// What was checked of a Command.
///
/// This is a number and not an enum. An enum has unused values, and `Result<Command>` would keep its tag there,
/// inside the Command; `?` would then copy the Command twice.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State(u8);

/// A Command whose operands are device addresses, as a backend gets it.
pub type BoundCommand = Command<RawBuffer>;

impl<B> Command<B> {
    /// What is computed.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// The operands that are written.
    pub fn outputs(&self) -> &[Operand<B>] {
        &self.operands[..usize::from(self.outputs)]
    }

    /// The operands that are only read.
    pub fn inputs(&self) -> &[Operand<B>] {
        &self.operands[usize::from(self.outputs)..]
    }

    /// All operands with what is done to them, outputs first.
    pub fn accesses(&self) -> impl Iterator<Item = (Access, &Operand<B>)> {
        let outputs = usize::from(self.outputs);
        self.operands.iter().enumerate().map(move |(index, operand)| {
            (if index < outputs { Access::Write } else { Access::Read }, operand)
        })
    }

    /// Bytes of all operands if they were dense: what a memory-bound kernel must move at least.
    pub fn bytes(&self) -> usize {
        let dense = self.operands.iter().map(|operand| operand.layout.dense_bytes());
        dense.fold(0, usize::saturating_add)
    }

    /// The same Command with other names for its buffers. Whether it fits those buffers is not known until it is
    /// [verified](Self::verify). Recording verifies it.
    pub fn bind<C>(self, mut name: impl FnMut(&B) -> C) -> Command<C> {
        Command {
            op: self.op,
            outputs: self.outputs,
            state: self.state.bound(),
            operands: self
                .operands
                .iter()
                .map(|operand| Operand { buffer: name(&operand.buffer), layout: operand.layout })
                .collect(),
        }
    }

    /// A Command without operands.
    fn of(op: Op) -> Self {
        Command { op, outputs: 0, state: State::UNCHECKED, operands: SmallVec::new() }
    }

    /// Adds an operand. It is written where it stays, because an operand is large and passing it by value would copy
    /// it.
    fn push(&mut self, buffer: B, layout: &Layout) {
        let count = self.operands.len();
        self.operands.reserve(1);
        // SAFETY: the list has room for one more operand, and both fields are written before the length is raised.
        unsafe {
            let place = self.operands.as_mut_ptr().add(count);
            (&raw mut (*place).buffer).write(buffer);
            (&raw mut (*place).layout).copy_from_nonoverlapping(layout, 1);
            self.operands.set_len(count + 1);
        }
    }

    /// As [`bind`](Self::bind), for a Command that was verified; the result is pushed to `list`. What stays behind in
    /// `self` can never be verified again.
    pub(crate) fn bind_into<C>(&mut self, list: &mut Vec<Command<C>>, name: impl Fn(&B) -> C) {
        let count = list.len();
        list.reserve(1);
        // SAFETY: the list has room for one more Command, and all fields are written before the length is raised.
        // Nothing in between panics.
        let bound = unsafe {
            let place = list.as_mut_ptr().add(count);
            (&raw mut (*place).op).write(std::mem::replace(&mut self.op, Op::Where));
            (&raw mut (*place).outputs).write(self.outputs);
            (&raw mut (*place).state).write(std::mem::replace(&mut self.state, State::SPENT));
            (&raw mut (*place).operands).write(SmallVec::new());
            list.set_len(count + 1);
            &mut *place
        };
        for operand in &self.operands {
            bound.push(name(&operand.buffer), &operand.layout);
        }
    }

    /// As [`bind`](Self::bind), where naming a buffer can fail.
    ///
    /// # Errors
    ///
    /// The first error of `name`.
    pub fn try_bind<C>(self, mut name: impl FnMut(&B) -> Result<C>) -> Result<Command<C>> {
        let operands = self
            .operands
            .iter()
            .map(|operand| Ok(Operand { buffer: name(&operand.buffer)?, layout: operand.layout }))
            .collect::<Result<_>>()?;
        let state = self.state.bound();
        Ok(Command { op: self.op, outputs: self.outputs, state, operands })
    }
}

impl<B: BufferLike> Command<B> {
    /// Checks the rules that depend on the buffers, and notes that they hold. It takes a reference because a Command
    /// is large and passing it by value would copy it.
    fn check(&mut self) -> Result<()> {
        self.check_operands()?;
        self.state = State::CHECKED;
        Ok(())
    }

    /// Checks every rule about the buffers of this Command. Operands lie inside their buffers. Outputs overlap
    /// neither themselves nor each other. An output shares memory with an input only if the operation may work in
    /// place. Host bytes are backed by memory.
    ///
    /// Constructors check this too, so it costs nothing for a Command that was not bound again since.
    ///
    /// # Errors
    ///
    /// The rule that is broken, or a Command that was already recorded with
    /// [`record_from`](crate::Stream::record_from).
    pub fn verify(&self) -> Result<()> {
        match self.state {
            State::CHECKED => Ok(()),
            State::SPENT => Err(Error::Invalid {
                op: "command",
                reason: "it was recorded already, and is of no use now".into(),
            }),
            _ => self.check_operands(),
        }
    }

    fn check_operands(&self) -> Result<()> {
        if let Op::Upload { source: host, .. } | Op::Download { target: host } = &self.op {
            host.check_backed()?;
        }
        check_operands(usize::from(self.outputs), &self.operands, self.op.in_place())
            .map_err(|reason| Error::Invalid { op: self.op.name(), reason })
    }
}

/// Checks the rules that hold for all Commands. Outputs come first in `operands`.
fn check_operands<B: BufferLike>(
    outputs: usize,
    operands: &[Operand<B>],
    in_place: InPlace,
) -> Result<(), String> {
    for operand in operands {
        operand.check_bounds()?;
    }
    let (written, read) = operands.split_at(outputs);
    for (index, output) in written.iter().enumerate() {
        if !output.layout.is_injective() {
            return Err(format!("output {:?} overlaps itself", output.layout));
        }
        if written[..index].iter().any(|other| output.overlaps(other)) {
            return Err("two outputs share memory".into());
        }
        let shared = read.iter().enumerate().filter(|(_, input)| output.overlaps(input));
        for (index, input) in shared {
            if !in_place.allows(index) || output.layout != input.layout {
                return Err(format!(
                    "output {:?} shares memory with input {:?}",
                    output.layout, input.layout
                ));
            }
        }
    }
    Ok(())
}

impl State {
    /// The operands were not checked against the buffers.
    const UNCHECKED: Self = State(0);
    /// The operands were checked against these buffers.
    const CHECKED: Self = State(1);
    /// The Command was recorded, and its operands are gone.
    const SPENT: Self = State(2);

    /// The state of the same Command after its buffers were replaced.
    fn bound(self) -> Self {
        if self == State::SPENT { self } else { State::UNCHECKED }
    }
}

#[cfg(test)]
mod tests;

//! The shapes of a Command's operands.

use std::fmt;

use crate::{BoundCommand, DType, Layout, MAX_RANK};

/// How many operands have their shapes kept; outputs come first.
const OPERANDS: usize = 4;

/// Element types and shapes of a Command's first operands, as in `f32[2, 8] ← f32[2, 4], f32[4, 8]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    operands: [Shape; OPERANDS],
    /// How many operands there are, and how many of them are outputs.
    count: u8,
    outputs: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    dtype: DType,
    rank: u8,
    sizes: [u32; MAX_RANK],
}

impl Shape {
    fn of(layout: &Layout) -> Self {
        let mut sizes = [0; MAX_RANK];
        for (size, &of) in sizes.iter_mut().zip(layout.shape()) {
            *size = u32::try_from(of).unwrap_or(u32::MAX);
        }
        Self { dtype: layout.dtype(), rank: layout.rank() as u8, sizes }
    }
}

impl Shapes {
    pub(crate) fn of(command: &BoundCommand) -> Self {
        let (outputs, inputs) = (command.outputs(), command.inputs());
        let absent = Shape { dtype: DType::U8, rank: 0, sizes: [0; MAX_RANK] };
        let mut operands = [absent; OPERANDS];
        for (shape, operand) in operands.iter_mut().zip(outputs.iter().chain(inputs)) {
            *shape = Shape::of(&operand.layout);
        }
        let count = u8::try_from(outputs.len() + inputs.len()).unwrap_or(u8::MAX);
        Self { operands, count, outputs: outputs.len() as u8 }
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = usize::from(self.count).min(OPERANDS);
        for (index, shape) in self.operands[..kept].iter().enumerate() {
            if index == usize::from(self.outputs) {
                f.write_str(if index == 0 { "← " } else { " ← " })?;
            } else if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}{:?}", shape.dtype, &shape.sizes[..usize::from(shape.rank)])?;
        }
        if usize::from(self.count) > kept { f.write_str(", …") } else { Ok(()) }
    }
}

impl fmt::Debug for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

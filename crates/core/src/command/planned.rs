//! What plans ask of Commands, and how they change them.

use super::{Command, Op, Operand};

impl<B> Command<B> {
    /// An operand, outputs first, so that its buffer can be replaced. The caller makes sure that the Command still
    /// keeps its rules.
    #[inline]
    pub(crate) fn operand_mut(&mut self, index: usize) -> &mut Operand<B> {
        &mut self.operands[index]
    }

    /// Whether an output may use the memory of the input with this index if both have the same layout.
    pub(crate) fn may_overwrite(&self, input: usize) -> bool {
        self.op.in_place().allows(input)
    }

    /// The inputs and outputs of a plan's run as a Command, so that their uses are looked up like those of others. It
    /// is never recorded.
    pub(crate) fn of_ends<'a>(
        outputs: impl Iterator<Item = (B, &'a crate::Layout)>,
        inputs: impl Iterator<Item = (B, &'a crate::Layout)>,
    ) -> Self {
        let mut ends = Self::of(Op::Where);
        outputs.for_each(|(buffer, layout)| ends.push(buffer, layout));
        ends.outputs = ends.operands.len() as u16;
        inputs.for_each(|(buffer, layout)| ends.push(buffer, layout));
        ends
    }
}

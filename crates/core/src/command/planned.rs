//! What plans need to know of Commands, and may do to them.

use super::{Command, Op, Operand};

impl<B> Command<B> {
    /// An operand, outputs first, for naming its buffer anew. The caller sees to it that the Command still
    /// keeps its rules.
    #[inline]
    pub(crate) fn operand_mut(&mut self, index: usize) -> &mut Operand<B> {
        &mut self.operands[index]
    }

    /// Whether an output may lie where the input with this index lies, if both have the same layout.
    pub(crate) fn may_overwrite(&self, input: usize) -> bool {
        self.op.in_place().allows(input)
    }

    /// What a run of a plan reads and writes, in the form in which uses are looked up. Never recorded.
    pub(crate) fn of_ends<'a>(
        outputs: impl Iterator<Item = (B, &'a crate::Layout)>,
        inputs: impl Iterator<Item = (B, &'a crate::Layout)>,
    ) -> Self {
        let mut ends = Self::of(Op::Where);
        outputs.for_each(|(buffer, layout)| ends.push(buffer, layout));
        ends.outputs = ends.operands.len() as u8;
        inputs.for_each(|(buffer, layout)| ends.push(buffer, layout));
        ends
    }
}

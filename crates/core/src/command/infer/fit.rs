//! The inputs of an operation, with outputs that are wanted or given.

use smallvec::SmallVec;

use super::Outputs;
use crate::command::{Op, Operand};
use crate::{DType, Error, Layout, MAX_RANK, Result, broadcast_shapes};

/// A shape that a rule is building.
pub(in crate::command) type Shape = SmallVec<[usize; MAX_RANK]>;

/// The operands of an operation, as its rules see them.
pub(in crate::command) struct Fit<'a, B> {
    op: &'a Op,
    inputs: Inputs<'a, B>,
    made: Made<'a, B>,
    /// The index of the next output.
    next: usize,
}

enum Inputs<'a, B> {
    /// Layouts that are only read.
    Shown(&'a [&'a Layout]),
    /// Operands whose layouts are broadcast in place.
    Bound(&'a mut [Operand<B>]),
}

enum Made<'a, B> {
    /// The rules derive them.
    Wanted(&'a mut Outputs),
    /// The rules compare them.
    Given(&'a [Operand<B>]),
}

impl<'a, B> Fit<'a, B> {
    pub fn infer(op: &'a Op, inputs: &'a [&'a Layout], outputs: &'a mut Outputs) -> Self {
        Self { op, inputs: Inputs::Shown(inputs), made: Made::Wanted(outputs), next: 0 }
    }

    /// Broadcasts inputs in place and derives outputs.
    pub fn bind(op: &'a Op, inputs: &'a mut [Operand<B>], outputs: &'a mut Outputs) -> Self {
        Self { op, inputs: Inputs::Bound(inputs), made: Made::Wanted(outputs), next: 0 }
    }

    pub fn compare(op: &'a Op, outputs: &'a [Operand<B>], inputs: &'a mut [Operand<B>]) -> Self {
        Self { op, inputs: Inputs::Bound(inputs), made: Made::Given(outputs), next: 0 }
    }

    /// Checks the number of operands.
    pub fn count(&self) -> Result<()> {
        let (outputs, inputs) = self.op.operand_counts();
        let found = self.inputs();
        if found != inputs {
            let names = self.op.input_names();
            return self.fail("inputs", format!("{inputs} ({})", names.join(", ")), found);
        }
        if let Made::Given(given) = &self.made
            && given.len() != outputs
        {
            let names = self.op.output_names();
            return self.fail("outputs", format!("{outputs} ({})", names.join(", ")), given.len());
        }
        Ok(())
    }

    #[inline]
    pub fn inputs(&self) -> usize {
        match &self.inputs {
            Inputs::Shown(inputs) => inputs.len(),
            Inputs::Bound(inputs) => inputs.len(),
        }
    }

    #[inline]
    pub fn input(&self, place: usize) -> &Layout {
        match &self.inputs {
            Inputs::Shown(inputs) => inputs[place],
            Inputs::Bound(inputs) => &inputs[place].layout,
        }
    }

    /// Replaces a layout by its broadcast to a larger shape.
    pub fn set_input(&mut self, place: usize, layout: Layout) {
        match &mut self.inputs {
            Inputs::Shown(_) => {}
            Inputs::Bound(inputs) => inputs[place].layout = layout,
        }
    }

    pub fn shape(&self, place: usize) -> &[usize] {
        self.input(place).shape()
    }

    pub fn dtype(&self, place: usize) -> DType {
        self.input(place).dtype()
    }

    /// States the next output. Rules state every output, in order.
    pub fn output(&mut self, dtype: DType, shape: &[usize]) -> Result<()> {
        let place = self.next;
        self.next += 1;
        match &mut self.made {
            Made::Wanted(outputs) => match Layout::contiguous(dtype, shape) {
                Ok(layout) => outputs.push(layout),
                Err(_) => {
                    let expected =
                        format!("at most {MAX_RANK} axes, and elements that can be addressed");
                    let found = format!("{dtype}{shape:?}");
                    return self.fail(self.op.output_names()[place], expected, found);
                }
            },
            Made::Given(outputs) => {
                let found = &outputs[place].layout;
                if found.dtype() != dtype || found.shape() != shape {
                    let expected = format!("{dtype}{shape:?}");
                    return self.output_misfit(place, expected);
                }
            }
        }
        Ok(())
    }

    /// The first output, if it is given.
    pub fn given(&self) -> Option<&'a Layout> {
        match self.made {
            Made::Wanted(_) => None,
            Made::Given(outputs) => outputs.first().map(|output| &output.layout),
        }
    }

    /// The first output has the shape that all inputs broadcast to.
    #[inline]
    pub fn elementwise(&mut self, dtype: DType) -> Result<()> {
        match self.made {
            Made::Given(outputs) => {
                let output = &outputs[0].layout;
                if output.dtype() != dtype {
                    return self.output_misfit(0, dtype.to_string());
                }
                for place in 0..self.inputs() {
                    if self.shape(place) != output.shape() {
                        self.stretch(place, output.shape())?;
                    }
                }
            }
            Made::Wanted(_) => {
                let mut shape = Shape::from_slice(self.shape(0));
                for place in 1..self.inputs() {
                    if self.shape(place) == &shape[..] {
                        continue;
                    }
                    match broadcast_shapes(&shape, self.shape(place)) {
                        Ok(both) => shape = both.into_iter().collect(),
                        Err(_) => {
                            let expected = format!("a shape that broadcasts with {shape:?}");
                            return self.misfit(place, expected);
                        }
                    }
                }
                self.output(dtype, &shape)?;
                for place in 0..self.inputs() {
                    if self.shape(place) != &shape[..] {
                        self.stretch(place, &shape)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Broadcasts an input to a shape.
    pub fn stretch(&mut self, place: usize, shape: &[usize]) -> Result<()> {
        let stretched = match &mut self.inputs {
            Inputs::Shown(inputs) => inputs[place].broadcast_to(shape).map(drop),
            Inputs::Bound(inputs) => inputs[place].layout.stretch(shape),
        };
        match stretched {
            Ok(()) => Ok(()),
            Err(_) => self.misfit(place, format!("a shape that broadcasts to {shape:?}")),
        }
    }

    /// An input that has one number for each index of an axis of `shape`, or is already broadcast to `shape`.
    pub fn spread(&mut self, place: usize, shape: &[usize], axis: usize) -> Result<()> {
        let found = *self.input(place);
        let repeats =
            |other: usize| other == axis || shape[other] <= 1 || found.strides()[other] == 0;
        if found.shape() == shape && shape.len() > 1 && (0..shape.len()).all(repeats) {
            return Ok(());
        }
        let channels = shape[axis];
        if found.shape() != [channels] {
            return self.misfit(place, format!("the shape [{channels}]"));
        }
        let mut strides = [0; MAX_RANK];
        strides[axis] = found.strides()[0];
        self.set_input(
            place,
            Layout::strided(found.dtype(), shape, &strides[..shape.len()], found.offset())?,
        );
        Ok(())
    }

    /// An input that has one number, which is broadcast to `shape`.
    pub fn spread_one(&mut self, place: usize, shape: &[usize]) -> Result<()> {
        let found = *self.input(place);
        let repeats = found.shape() == shape && found.strides().iter().all(|&stride| stride == 0);
        if repeats {
            return Ok(());
        }
        if found.elements() != 1 {
            return self.misfit(place, "one element");
        }
        let strides = [0; MAX_RANK];
        self.set_input(
            place,
            Layout::strided(found.dtype(), shape, &strides[..shape.len()], found.offset())?,
        );
        Ok(())
    }

    pub fn wants_dtype(&self, place: usize, dtype: DType) -> Result<()> {
        if self.dtype(place) == dtype { Ok(()) } else { self.misfit(place, dtype.to_string()) }
    }

    /// Refuses inputs of storage-only types.
    pub fn wants_computed(&self) -> Result<()> {
        match (0..self.inputs()).find(|&place| self.dtype(place).is_storage()) {
            None => Ok(()),
            Some(place) => self.misfit(place, "a type that is computed with: cast it first"),
        }
    }

    pub fn wants_float(&self, place: usize) -> Result<()> {
        let fits = self.dtype(place).is_float();
        if fits { Ok(()) } else { self.misfit(place, "a floating-point type") }
    }

    pub fn wants_number(&self, place: usize) -> Result<()> {
        let fits = self.dtype(place).is_number();
        if fits { Ok(()) } else { self.misfit(place, "a number type") }
    }

    pub fn wants_byte(&self, place: usize) -> Result<()> {
        let fits = matches!(self.dtype(place), DType::U8 | DType::I8);
        if fits { Ok(()) } else { self.misfit(place, "u8 or i8") }
    }

    pub fn wants_index(&self, place: usize) -> Result<()> {
        let fits = matches!(self.dtype(place), DType::I32 | DType::I64);
        if fits { Ok(()) } else { self.misfit(place, "i32 or i64") }
    }

    pub fn wants_shape(&self, place: usize, shape: &[usize]) -> Result<()> {
        let fits = self.shape(place) == shape;
        if fits { Ok(()) } else { self.misfit(place, format!("the shape {shape:?}")) }
    }

    pub fn wants_rank(&self, place: usize, rank: usize, axes: &str) -> Result<()> {
        let fits = self.input(place).rank() == rank;
        if fits { Ok(()) } else { self.misfit(place, format!("{rank} axes: {axes}")) }
    }

    /// Checks that a parameter names an axis of an input.
    pub fn wants_axis(&self, place: usize, axis: usize) -> Result<()> {
        let rank = self.input(place).rank();
        if axis < rank {
            return Ok(());
        }
        self.fail(
            "axis",
            format!("below {rank}, the rank of {}", self.op.input_names()[place]),
            axis,
        )
    }

    /// Checks a parameter.
    pub fn wants(
        &self,
        holds: bool,
        parameter: &'static str,
        expected: impl FnOnce() -> String,
        found: impl ToString,
    ) -> Result<()> {
        if holds { Ok(()) } else { self.fail(parameter, expected(), found) }
    }

    /// The error for an input.
    #[cold]
    pub fn misfit<T>(&self, place: usize, expected: impl Into<String>) -> Result<T> {
        let found = self.input(place);
        let found = format!("{}{:?}", found.dtype(), found.shape());
        self.fail(self.op.input_names()[place], expected, found)
    }

    /// The error for an output.
    #[cold]
    pub fn output_misfit<T>(&self, place: usize, expected: impl Into<String>) -> Result<T> {
        let found = match &self.made {
            Made::Wanted(outputs) => outputs.get(place).copied(),
            Made::Given(outputs) => outputs.get(place).map(|output| output.layout),
        };
        let found = found.map(|found| format!("{}{:?}", found.dtype(), found.shape()));
        self.fail(self.op.output_names()[place], expected, found.unwrap_or_default())
    }

    #[cold]
    pub fn fail<T>(
        &self,
        operand: &'static str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Result<T> {
        Err(Error::Mismatch {
            op: self.op.name(),
            operand,
            expected: expected.into(),
            found: found.to_string(),
        })
    }
}

//! One case: an operation, its operands, and the bytes of their buffers.

use std::fmt;

use millstream_core::{BufferLike, Command, DType, HostBytes, Layout, Op, Operand, Result};

use crate::dense::positions;
use crate::value::write_at;
use crate::{Dense, Value, View};

/// Bytes behind the last element of every buffer that nobody may write.
const TAIL_GUARD: usize = 40;

/// An operand of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseOperand {
    /// Which of the case's buffers it lies in.
    pub buffer: usize,
    /// Where it lies in that buffer.
    pub layout: Layout,
}

/// An operation with everything that is needed to run it.
#[derive(Clone, PartialEq)]
pub struct Case {
    /// What is special about this case; unique in the suite.
    pub name: String,
    /// The operation. Bytes of the host in it only say how many there are: every Command has its own.
    pub op: Op,
    /// The bytes that an upload brings, dense in row-major order; none for any other operation.
    pub host: Vec<u8>,
    /// The operands, outputs first. Several may lie in one buffer.
    pub operands: Vec<CaseOperand>,
    /// The bytes of every buffer before the run, guards included.
    pub buffers: Vec<Vec<u8>>,
}

impl Case {
    /// The operands that are written.
    pub fn outputs(&self) -> &[CaseOperand] {
        &self.operands[..self.op.output_names().len()]
    }

    /// The operands that are only read.
    pub fn inputs(&self) -> &[CaseOperand] {
        &self.operands[self.op.output_names().len()..]
    }

    /// The elements of the inputs before the run.
    pub fn input_values(&self) -> Vec<Dense> {
        let read = |input: &CaseOperand| Dense::read(&input.layout, &self.buffers[input.buffer]);
        self.inputs().iter().map(read).collect()
    }

    /// The Command of this case, with `name` giving the device's buffer for each buffer of the case.
    ///
    /// # Errors
    ///
    /// Operands that do not fit the operation, which is a mistake of the case or of `name`.
    pub fn command<B: BufferLike + Clone>(&self, name: impl Fn(usize) -> B) -> Result<Command<B>> {
        let bind = |operand: &CaseOperand| Operand::new(name(operand.buffer), operand.layout);
        let op = match &self.op {
            Op::Upload { spec, source: _ } => {
                Op::Upload { source: HostBytes::copy_of(&self.host), spec: *spec }
            }
            // A target is written once.
            Op::Download { target } => Op::Download { target: HostBytes::zeroed(target.len()) },
            op => op.clone(),
        };
        Command::new(op, self.outputs().iter().map(bind), self.inputs().iter().map(bind))
    }

    /// For each byte of a buffer, whether the operation is to write it.
    pub fn written(&self, buffer: usize) -> Vec<bool> {
        let mut written = vec![false; self.buffers[buffer].len()];
        for output in self.outputs().iter().filter(|output| output.buffer == buffer) {
            let (size, shared) = (output.layout.dtype().size(), output.layout.dtype().per_byte());
            for position in positions(&output.layout) {
                written[position / shared * size..][..size].fill(true);
            }
        }
        written
    }
}

// The bytes would drown what a reader of a failure needs.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} of", self.name, self.op)?;
        for operand in &self.operands {
            write!(f, " #{}({:?})", operand.buffer, operand.layout)?;
        }
        let total = self.buffers.iter().map(Vec::len).sum::<usize>();
        if total > 4096 {
            return Ok(());
        }
        for input in self.input_values() {
            let values = input.values.iter().map(Value::to_string).collect::<Vec<_>>();
            write!(f, " [{}]", values.join(" "))?;
        }
        Ok(())
    }
}

/// Puts a case together, operand by operand.
#[derive(Clone, Debug)]
pub struct CaseBuilder(Case);

impl CaseBuilder {
    /// A case without operands.
    pub fn new(name: impl Into<String>, op: Op) -> Self {
        let (host, operands, buffers) = (Vec::new(), Vec::new(), Vec::new());
        Self(Case { name: name.into(), op, host, operands, buffers })
    }

    /// Sets the bytes that an upload brings.
    pub fn host(mut self, bytes: Vec<u8>) -> Self {
        self.0.host = bytes;
        self
    }

    /// Adds the outputs that the operation makes of the inputs, which are there already, with one view for
    /// each.
    ///
    /// # Panics
    ///
    /// Inputs that do not fit the operation, or fewer views than outputs.
    pub fn outputs(self, views: &[View]) -> Self {
        self.outputs_by(|place, dtype, shape| views[place].layout(dtype, shape))
    }

    /// As [`outputs`](Self::outputs), with a function that lays out each output by its number, element type
    /// and shape.
    ///
    /// # Panics
    ///
    /// Inputs that do not fit the operation.
    pub fn outputs_by(mut self, lay: impl Fn(usize, DType, &[usize]) -> Layout) -> Self {
        let layouts: Vec<&Layout> = self.0.operands.iter().map(|operand| &operand.layout).collect();
        let made = self.0.op.infer(&layouts);
        let made = made.unwrap_or_else(|error| panic!("{}: {error}", self.0.name));
        let inputs = std::mem::take(&mut self.0.operands);
        let buffers = std::mem::take(&mut self.0.buffers);
        for (place, made) in made.iter().enumerate() {
            self = self.output(lay(place, made.dtype(), made.shape()));
        }
        // Outputs come first, and so do their buffers.
        let first = self.0.buffers.len();
        let moved = |input: CaseOperand| CaseOperand { buffer: first + input.buffer, ..input };
        self.0.operands.extend(inputs.into_iter().map(moved));
        self.0.buffers.extend(buffers);
        self
    }

    /// Adds an output in a buffer of its own.
    ///
    /// What lies there before differs from byte to byte, so that neither an element that is left out
    /// nor one that is written beside its place goes unnoticed.
    pub fn output(mut self, layout: Layout) -> Self {
        let bytes =
            (0..layout.extent_bytes() + TAIL_GUARD).map(|at| 0xa5 ^ (at * 29) as u8).collect();
        self.0.operands.push(CaseOperand { buffer: self.0.buffers.len(), layout });
        self.0.buffers.push(bytes);
        self
    }

    /// Adds an input in a buffer of its own, with its elements in row-major order.
    ///
    /// Everything between the elements is NaN (or -1), so that reading it spoils the answer.
    pub fn input(mut self, layout: Layout, values: &[Value]) -> Self {
        let mut bytes = vec![0xff; layout.extent_bytes() + TAIL_GUARD];
        write(&layout, &mut bytes, values);
        self.0.operands.push(CaseOperand { buffer: self.0.buffers.len(), layout });
        self.0.buffers.push(bytes);
        self
    }

    /// Adds an input that is the first output itself.
    ///
    /// # Panics
    ///
    /// A case without an output.
    pub fn in_place(mut self, values: &[Value]) -> Self {
        let output = self.0.operands[0];
        write(&output.layout, &mut self.0.buffers[output.buffer], values);
        self.0.operands.push(output);
        self
    }

    /// Adds an input that is an earlier operand, as in `a + a`.
    ///
    /// # Panics
    ///
    /// An operand that does not exist.
    pub fn again(mut self, operand: usize) -> Self {
        self.0.operands.push(self.0.operands[operand]);
        self
    }

    /// The case.
    pub fn build(self) -> Case {
        self.0
    }
}

/// Writes elements in row-major order to where a layout puts them.
///
/// # Panics
///
/// Another number of values than the layout has, or a layout beyond the bytes.
pub(crate) fn write(layout: &Layout, bytes: &mut [u8], values: &[Value]) {
    let positions = positions(layout);
    assert_eq!(positions.len(), values.len(), "values for {layout:?}");
    for (position, value) in positions.into_iter().zip(values) {
        write_at(layout.dtype(), bytes, position, *value);
    }
}

//! From an operation to a Command on the calling thread's stream.

use std::cell::OnceCell;

use millstream_core::{
    Buffer, Command, DType, Device, HostBytes, LayerName, Layout, Op, Operand, Outputs, Stream,
};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::{invalid, named, refusal};
use crate::{Error, Result};

/// Records the Commands of one operation.
pub(crate) struct OpRecorder {
    op: &'static str,
    stream: Stream,
}

impl OpRecorder {
    /// For an operation, whose errors have this name.
    pub fn new(op: &'static str, device: &Device) -> Result<Self> {
        Ok(Self { op, stream: Stream::current_unleased(device)? })
    }

    /// A tensor that a Command of this recorder writes before anything else reads it.
    #[inline]
    pub fn output(&self, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        match Layout::contiguous(dtype, shape) {
            Ok(layout) => self.place(&layout),
            Err(error) => Err(named(self.op, error)),
        }
    }

    /// A tensor of these bytes.
    pub fn output_with(&self, dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor> {
        let layout = Layout::contiguous(dtype, shape).map_err(|error| named(self.op, error))?;
        let buffer = self.stream.allocate_with(&layout, bytes);
        Ok(Tensor { buffer: buffer.map_err(|error| named(self.op, error))?, layout })
    }

    /// As [`output`](Self::output), for a layout without gaps.
    pub fn place(&self, layout: &Layout) -> Result<Tensor> {
        Ok(Tensor { buffer: self.stream.allocate(layout.dense_bytes())?, layout: *layout })
    }

    /// The layouts of what an operation computes from these tensors.
    pub fn infer(&self, op: &Op, inputs: &[&Tensor]) -> Result<Outputs> {
        let layouts: SmallVec<[&Layout; 4]> = inputs.iter().map(|input| &input.layout).collect();
        op.infer(&layouts).map_err(|error| named(self.op, error))
    }

    /// Records an operation with one output on these tensors.
    pub fn apply(&self, op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
        let inputs: SmallVec<[_; 4]> =
            inputs.iter().map(|input| (&input.buffer, &input.layout)).collect();
        let made = OnceCell::new();
        let command = Command::infer(op, &inputs, |layout| {
            let buffer = self.stream.allocate(layout.dense_bytes())?;
            // An operation with several outputs is refused, since they would share this memory.
            Ok(&made.get_or_init(|| Tensor { buffer, layout: *layout }).buffer)
        });
        self.record(command)?;
        made.into_inner().map_or_else(|| invalid(self.op, "has no output".into()), Ok)
    }

    /// Records a Command, or returns why it could not be built.
    pub fn record(&self, mut command: Result<Command<&Buffer>>) -> Result<()> {
        #[cfg(test)]
        layers::note();
        match &mut command {
            Ok(command) => match self.stream.record_from(command) {
                Ok(_) => Ok(()),
                Err(error) => Err(self.refused(command, error)),
            },
            Err(error) => Err(named(self.op, error.clone())),
        }
    }

    /// The error of a Command that the stream refused. If two devices were mixed, it says which tensor is on which.
    #[cold]
    fn refused(&self, command: &Command<&Buffer>, error: Error) -> Error {
        let home = self.stream.device();
        let away = |operand: &Operand<&Buffer>| operand.buffer.device() != home;
        let foreign = command.inputs().iter().position(away);
        let mixed = matches!(error, Error::WrongDevice { .. });
        let Some(index) = foreign.filter(|_| mixed) else { return error };
        let buffer = command.inputs()[index].buffer;
        let (here, there) = (home.label(), buffer.device().label());
        match LayerName::current() {
            // The settled tensors of a layer are its weights.
            Some(layer) if buffer.is_settled() => {
                let weights = format!("but the layer's weights are on {there}");
                let reason = format!("input on {here}, {weights}: move it with to_device");
                refusal(layer.as_str(), reason)
            }
            _ => {
                let names = command.op().input_names();
                let (this, other) = (names[index], names[usize::from(index == 0)]);
                let reason = format!("{other} is on {here}, but {this} is on {there}");
                let reason = format!("{reason}: move one with to_device");
                named(self.op, Error::Invalid { op: self.op, reason })
            }
        }
    }

    /// A copy of some bytes in memory that the device reads fastest.
    pub fn host_copy_of(&self, bytes: &[u8]) -> HostBytes {
        self.stream.host_copy_of(bytes)
    }

    /// Fills an output with bytes of the host.
    pub fn upload(&self, output: &Tensor, bytes: HostBytes) -> Result<()> {
        self.record(Command::upload(output.operand(), bytes))
    }
}

/// The tensors that are given, in order.
pub(crate) fn some<const N: usize>(tensors: [Option<&Tensor>; N]) -> SmallVec<[&Tensor; 4]> {
    tensors.into_iter().flatten().collect()
}

/// Tensors as operands of a Command.
pub(crate) fn operands<'a>(
    tensors: &'a [&'a Tensor],
) -> impl Iterator<Item = Operand<&'a Buffer>> + 'a {
    tensors.iter().map(|tensor| tensor.operand())
}

/// The layers of the Commands that this thread recorded.
#[cfg(test)]
pub(crate) mod layers {
    use std::cell::RefCell;

    use millstream_core::LayerName;

    thread_local! {
        static NOTED: RefCell<Vec<Option<LayerName>>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note() {
        NOTED.with_borrow_mut(|noted| noted.push(LayerName::current()));
    }

    /// The layers of what `work` records.
    pub(crate) fn of(work: impl FnOnce()) -> Vec<&'static str> {
        NOTED.take();
        work();
        NOTED.take().into_iter().map(|name| name.map_or("", LayerName::as_str)).collect()
    }
}

//! From an operation to a Command on the calling thread's stream.

use millstream_core::{Buffer, Command, DType, Device, HostBytes, Layout, Stream};

use super::Tensor;
use crate::{Error, Result};

/// Records the Commands of one operation.
pub(crate) struct Recorder {
    op: &'static str,
    stream: Stream,
}

impl Recorder {
    /// For an operation, by the name that its errors have.
    pub fn new(op: &'static str, device: &Device) -> Result<Self> {
        Ok(Self { op, stream: Stream::visit(device)? })
    }

    /// A tensor to be written by a Command of this recorder, before anybody else sees it.
    #[inline]
    pub fn output(&self, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        match Layout::contiguous(dtype, shape) {
            Ok(layout) => {
                Ok(Tensor { buffer: self.stream.allocate(layout.dense_bytes())?, layout })
            }
            Err(error) => Err(Error::named(self.op, error)),
        }
    }

    /// Records a Command, or says why it could not be built.
    pub fn record(&self, mut command: millstream_core::Result<Command<&Buffer>>) -> Result<()> {
        #[cfg(test)]
        layers::note();
        match &mut command {
            Ok(command) => self.stream.record_from(command).map(drop).map_err(Error::from),
            Err(error) => Err(Error::named(self.op, error.clone())),
        }
    }

    /// A copy of some bytes where the device reads them best.
    pub fn host_copy_of(&self, bytes: &[u8]) -> HostBytes {
        self.stream.host_copy_of(bytes)
    }

    /// Fills an output with bytes of the host.
    pub fn upload(&self, output: &Tensor, bytes: HostBytes) -> Result<()> {
        self.record(Command::upload(output.operand(), bytes))
    }
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

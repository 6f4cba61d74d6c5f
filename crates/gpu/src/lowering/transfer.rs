//! Uploads and downloads.

use millstream_core::{BoundCommand, HostBytes, Layout, Operand, RawBuffer, Result};
use millstream_kernels::lower_copy;

use super::{BatchLowering, Staged};
use crate::memory::{HostBinding, StagingLayout};
use crate::platform::Platform;

impl<P: Platform> BatchLowering<P> {
    /// The place of a transfer's bytes; `None` if there are no bytes.
    pub(super) fn bind_host(
        &self,
        host: &HostBytes,
        layout: &mut StagingLayout,
        staging: &Staged<P>,
    ) -> Result<Option<HostBinding<P::Segment>>> {
        let memory = staging.as_ref().ok().and_then(Option::as_deref);
        match (layout.bind(self.platform.number(), host, memory), staging) {
            (None, Err(error)) if !host.is_empty() => Err(error.clone()),
            (bound, _) => Ok(bound),
        }
    }

    pub(super) fn upload(
        &mut self,
        command: &BoundCommand,
        source: HostBinding<P::Segment>,
    ) -> Result<()> {
        let dst = &command.outputs()[0];
        if dst.layout.is_empty() {
            return Ok(());
        }
        if dst.layout.is_contiguous() {
            let target = self.bind(dst.buffer.address)?.offset_by(dst.layout.start_bytes());
            self.list.copy(target, source.binding, dst.layout.dense_bytes());
            return Ok(());
        }
        let dense = dense_at(source.address, &dst.layout)?;
        self.kernels(&lower_copy(dst, &dense, &self.limits))
    }

    /// Adds a download. Returns `true` if the end of the batch is part of it.
    pub(super) fn download(
        &mut self,
        command: &BoundCommand,
        target: HostBinding<P::Segment>,
        is_last: bool,
    ) -> Result<bool> {
        let src = &command.inputs()[0];
        let bytes = src.layout.dense_bytes();
        if src.layout.is_empty() {
            return Ok(false);
        }
        if !src.layout.is_contiguous() {
            let dense = dense_at(target.address, &src.layout)?;
            self.kernels(&lower_copy(&dense, src, &self.limits))?;
            return Ok(false);
        }
        let source = self.bind(src.buffer.address)?.offset_by(src.layout.start_bytes());
        if is_last && bytes <= P::KERNEL_COPY_BYTES {
            self.list.copy_and_finish(target.binding, source, bytes);
            return Ok(true);
        }
        self.list.copy(target.binding, source, bytes);
        Ok(false)
    }
}

/// An operand with a layout's shape and type, dense at an address.
fn dense_at(address: usize, layout: &Layout) -> Result<Operand<RawBuffer>> {
    let dense = Layout::contiguous(layout.dtype(), layout.shape())?;
    Ok(Operand::new(RawBuffer { address, bytes: dense.dense_bytes() }, dense))
}

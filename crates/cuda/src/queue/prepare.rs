//! From the Commands of a batch to steps.

use std::sync::Arc;

use millstream_core::{BoundCommand, Error, Layout, Op, Operand, RawBuffer, Result};
use millstream_kernels::{Lowered, lower, lower_copy};

use super::host::Seen;
use super::staging::{self, Staging};
use super::steps::{Places, Steps};
use crate::blas::Blas;
use crate::builtin::KERNEL_COPY;
use crate::driver::{DeviceMemory, Failure};
use crate::gpu::Gpu;
use crate::settings::Settings;

/// The smallest scratch memory that is taken.
const SMALLEST_SCRATCH: usize = 1 << 20;

/// What turns Commands into steps, with the memory that kernels need beside their operands.
pub(crate) struct Preparer {
    pub(super) gpu: &'static Gpu,
    pub(super) settings: Settings,
    places: Places,
    /// For one Command after the other: they run in order.
    scratch: Option<Arc<DeviceMemory>>,
    pub blas: Option<Blas>,
    pub steps: Steps,
}

/// Where the stamps of a batch are written, if anybody wants to know what ran when.
#[derive(Clone, Copy)]
pub(crate) struct Stamps {
    /// Their place in the staging memory.
    pub place: usize,
}

impl Preparer {
    pub fn new(gpu: &'static Gpu, settings: Settings, places: Places) -> Self {
        Self { gpu, settings, places, scratch: None, blas: None, steps: Steps::default() }
    }

    /// The error for a call that failed before anything was launched.
    pub(super) fn refusal(&self, failure: &Failure, requested: usize) -> Error {
        if failure.out_of_memory {
            let limit = self.gpu.properties.memory;
            return Error::OutOfMemory {
                device: self.gpu.name(),
                requested,
                in_use: 0,
                cached: 0,
                reserved: limit,
                limit,
            };
        }
        self.gpu.note(failure)
    }

    /// Fills the list of steps. Nothing is launched.
    ///
    /// # Errors
    ///
    /// What kept a Command from being prepared: the whole batch is refused then.
    pub fn prepare(
        &mut self,
        commands: &[BoundCommand],
        staging: Option<&Staging>,
        stamps: Option<Stamps>,
    ) -> Result<()> {
        self.steps.clear();
        if let Some(blas) = &mut self.blas {
            blas.tidy();
        }
        let mut places = staging::Places::default();
        for (index, command) in commands.iter().enumerate() {
            self.stamp(staging, stamps, index);
            let is_last = index + 1 == commands.len() && stamps.is_none();
            let gpu = self.gpu.properties.ordinal;
            match command.op() {
                // Where the bytes are nowhere there are none.
                Op::Upload { source } => {
                    if let Some(seen) = places.see(gpu, source, staging) {
                        self.upload(command, seen)?;
                    }
                }
                Op::Download { target } => {
                    if let Some(seen) = places.see(gpu, target, staging)
                        && self.download(command, seen, is_last)?
                    {
                        return Ok(());
                    }
                }
                Op::Timestamp => {
                    let dst = &command.outputs()[0];
                    self.steps.time(self.gpu, dst.buffer.address + dst.layout.start_bytes());
                }
                Op::MatMul { .. } => self.product(commands, index)?,
                _ => self.kernels(&lower(command, index as u32, &self.gpu.limits)?)?,
            }
        }
        self.stamp(staging, stamps, commands.len());
        self.steps.tick(self.gpu, self.places);
        Ok(())
    }

    fn stamp(&mut self, staging: Option<&Staging>, stamps: Option<Stamps>, index: usize) {
        if let (Some(staging), Some(stamps)) = (staging, stamps) {
            self.steps.time(self.gpu, staging.memory().address() + stamps.place + index * 8);
        }
    }

    pub(super) fn kernels(&mut self, lowered: &Lowered) -> Result<()> {
        let scratch = self.scratch(lowered.workspace)?;
        for launch in &lowered.launches {
            self.steps.launch(self.gpu, launch, scratch, self.places.faults)?;
        }
        Ok(())
    }

    /// The address of scratch memory of that size.
    pub(super) fn scratch(&mut self, bytes: usize) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        if let Some(scratch) = self.scratch.as_ref().filter(|scratch| scratch.bytes() >= bytes) {
            return Ok(scratch.address());
        }
        let size = bytes.next_power_of_two().max(SMALLEST_SCRATCH);
        let new = match DeviceMemory::new(&self.gpu.context, size) {
            Err(failure) if failure.out_of_memory => DeviceMemory::new(&self.gpu.context, bytes),
            new => new,
        };
        let new = Arc::new(new.map_err(|failure| self.refusal(&failure, bytes))?);
        let address = new.address();
        if let Some(old) = self.scratch.replace(new) {
            // Batches in flight and earlier Commands of this one use it; all are through before this one.
            self.steps.keep.push(Box::new(old));
        }
        Ok(address)
    }

    /// What a graph that was captured from the steps must keep.
    pub fn kept_scratch(&self) -> Option<Arc<DeviceMemory>> {
        self.scratch.clone()
    }

    fn upload(&mut self, command: &BoundCommand, seen: Seen) -> Result<()> {
        let dst = &command.outputs()[0];
        let bytes = dst.layout.dense_bytes();
        if dst.layout.is_empty() {
            return Ok(());
        }
        if dst.layout.is_contiguous() {
            let target = dst.buffer.address + dst.layout.start_bytes();
            self.steps.copy_in(self.gpu, target, seen.host, seen.address, bytes);
            return Ok(());
        }
        let dense = dense_at(seen.address, &dst.layout)?;
        self.kernels(&lower_copy(dst, &dense, &self.gpu.limits))
    }

    /// Gives `true` if the batch ends with it.
    fn download(&mut self, command: &BoundCommand, seen: Seen, is_last: bool) -> Result<bool> {
        let src = &command.inputs()[0];
        let bytes = src.layout.dense_bytes();
        if src.layout.is_empty() {
            return Ok(false);
        }
        if !src.layout.is_contiguous() {
            let dense = dense_at(seen.address, &src.layout)?;
            self.kernels(&lower_copy(&dense, src, &self.gpu.limits))?;
            return Ok(false);
        }
        let source = src.buffer.address + src.layout.start_bytes();
        if is_last && bytes <= KERNEL_COPY {
            self.steps.copy_out_and_tick(self.gpu, seen.address, source, bytes, self.places);
            return Ok(true);
        }
        self.steps.copy_out(self.gpu, seen.host, seen.address, source, bytes);
        Ok(false)
    }
}

/// Elements of a layout's shape and type, dense at an address.
fn dense_at(address: usize, layout: &Layout) -> Result<Operand<RawBuffer>> {
    let dense = Layout::contiguous(layout.dtype(), layout.shape())?;
    Ok(Operand::new(RawBuffer { address, bytes: dense.dense_bytes() }, dense))
}

//! From the Commands of a batch to steps.

use std::sync::Arc;

use millstream_core::{BoundCommand, Error, HostBytes, Layout, Op, Operand, RawBuffer, Result};
use millstream_kernels::{Lowered, lower, lower_copy};

use super::failures::Failures;
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

/// The staging memory of a batch, if it needs some, or why there is none.
pub(crate) type Staged = Result<Option<Arc<Staging>>>;

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

    /// The error for a call that failed while a Command was prepared.
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

    /// Fills the list of steps. Nothing is launched. A Command that cannot be prepared has no steps, and the
    /// others are not concerned: gives which, and why.
    ///
    /// # Errors
    ///
    /// The device is lost.
    pub fn prepare(
        &mut self,
        commands: &[BoundCommand],
        staging: &Staged,
        stamps: Option<Stamps>,
    ) -> Result<Failures> {
        self.steps.clear();
        if let Some(blas) = &mut self.blas {
            blas.tidy();
        }
        let mut failures = Failures::default();
        let mut places = staging::Places::default();
        for (index, command) in commands.iter().enumerate() {
            self.stamp(staging, stamps, index);
            let is_last = index + 1 == commands.len() && stamps.is_none();
            let mark = self.steps.begin(index, command);
            match self.command(command, index, &mut places, staging, is_last) {
                Ok(true) => return Ok(failures),
                Ok(false) => {}
                Err(error) => {
                    self.gpu.check()?;
                    self.steps.rewind(mark);
                    failures.add(index, error);
                }
            }
        }
        self.stamp(staging, stamps, commands.len());
        self.tick(commands.len());
        Ok(failures)
    }

    /// Adds the end of a batch of so many Commands.
    pub fn tick(&mut self, commands: usize) {
        self.steps.begin_between(commands);
        self.steps.tick(self.gpu, self.places);
    }

    /// Adds the steps of a Command. Gives `true` if the batch ends with it.
    fn command(
        &mut self,
        command: &BoundCommand,
        index: usize,
        places: &mut staging::Places,
        staging: &Staged,
        is_last: bool,
    ) -> Result<bool> {
        if index >= self.places.commands {
            return Err(Error::Driver {
                device: self.gpu.name(),
                message: format!("a batch has at most {} Commands", self.places.commands).into(),
            });
        }
        match command.op() {
            Op::Upload { source, .. } => {
                if let Some(seen) = self.see(source, places, staging)? {
                    self.upload(command, seen)?;
                }
            }
            Op::Download { target } => {
                if let Some(seen) = self.see(target, places, staging)? {
                    return self.download(command, seen, is_last);
                }
            }
            Op::Timestamp => {
                let dst = &command.outputs()[0];
                self.steps.time(self.gpu, dst.buffer.address + dst.layout.start_bytes());
            }
            Op::MatMul { .. } => self.product(command, index)?,
            _ => self.kernels(&lower(command, index as u32, &self.gpu.limits)?)?,
        }
        Ok(false)
    }

    /// Where the bytes of a transfer are; nowhere if there are none.
    fn see(
        &self,
        host: &HostBytes,
        places: &mut staging::Places,
        staging: &Staged,
    ) -> Result<Option<Seen>> {
        let memory = staging.as_ref().ok().and_then(Option::as_deref);
        match (places.see(self.gpu.properties.ordinal, host, memory), staging) {
            (None, Err(error)) if !host.is_empty() => Err(error.clone()),
            (seen, _) => Ok(seen),
        }
    }

    fn stamp(&mut self, staging: &Staged, stamps: Option<Stamps>, index: usize) {
        if let (Ok(Some(staging)), Some(stamps)) = (staging, stamps) {
            self.steps.begin_between(index);
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

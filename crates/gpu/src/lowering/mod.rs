//! From the Commands of a batch to a launch list.

mod launch_list;
mod operands;
mod product;
mod transfer;
mod written;

use std::sync::Arc;

use millstream_core::{BoundCommand, Error, Op, RawBuffer, Result};
use millstream_kernels::{Lowered, Slot, lower};

pub use self::launch_list::{Item, LaunchFailure, LaunchList};
pub use self::operands::ProductOperands;
use crate::failure::Failure;
use crate::memory::{Registered, SegmentView, Staging, StagingLayout};
use crate::platform::{Binding, Memory, Platform};
use crate::queue::Failures;

/// The smallest scratch memory that is taken.
const SMALLEST_SCRATCH: usize = 1 << 20;

/// What turns the Commands of a batch into launches, with the memory that kernels need beside their operands.
pub(crate) struct BatchLowering<P: Platform> {
    platform: P,
    /// Where kernels of the queue note faults.
    fault_record: Binding<P::Segment>,
    /// Commands that a batch has at most.
    most_commands: usize,
    segments: SegmentView<P::Segment>,
    /// For one Command after the other: they run in order.
    scratch: Option<Arc<Registered<P::Memory>>>,
    pub encoder: P::Encoder,
    pub list: LaunchList<P>,
}

/// The staging memory of a batch, if it needs some, or why there is none.
pub(crate) type Staged<P> = Result<Option<Arc<Staging<P>>>>;

/// Where the times of a batch are written, if anybody wants to know what ran when.
#[derive(Clone, Copy)]
pub(crate) struct Timestamps {
    /// Their offset in the staging memory.
    pub offset: usize,
}

impl<P: Platform> BatchLowering<P> {
    pub fn new(
        platform: P,
        encoder: P::Encoder,
        fault_record: Binding<P::Segment>,
        most_commands: usize,
    ) -> Self {
        Self {
            platform,
            fault_record,
            most_commands,
            segments: SegmentView::default(),
            scratch: None,
            encoder,
            list: LaunchList::default(),
        }
    }

    /// The error for a call that failed while a Command was lowered.
    pub fn refusal(&self, failure: &Failure, requested: usize) -> Error {
        let status = self.platform.status();
        if failure.out_of_memory {
            let limit = self.platform.memory_bytes();
            return Error::OutOfMemory {
                device: status.name().to_owned(),
                requested,
                in_use: 0,
                cached: 0,
                reserved: limit,
                limit,
            };
        }
        status.note(failure)
    }

    fn failed_call(&self, reason: String) -> Error {
        let device = self.platform.status().name().to_owned();
        Error::Driver { device, message: reason.into() }
    }

    /// Fills the launch list. Nothing is launched. A Command that cannot be lowered has no items, and the
    /// others are not concerned: gives which, and why.
    ///
    /// # Errors
    ///
    /// The device is lost.
    pub fn lower(
        &mut self,
        commands: &[BoundCommand],
        staging: &Staged<P>,
        timestamps: Option<Timestamps>,
    ) -> Result<Failures> {
        self.list.clear();
        self.platform.forget_products(&mut self.encoder);
        let mut failures = Failures::default();
        let mut layout = StagingLayout::default();
        for (index, command) in commands.iter().enumerate() {
            self.timestamp(staging, timestamps, index);
            let is_last = index + 1 == commands.len() && timestamps.is_none();
            let mark = self.list.begin(index, command);
            match self.command(command, index, &mut layout, staging, is_last) {
                Ok(true) => return Ok(failures),
                Ok(false) => {}
                Err(error) => {
                    self.platform.status().check()?;
                    self.list.rewind(mark);
                    failures.add(index, error);
                }
            }
        }
        self.timestamp(staging, timestamps, commands.len());
        self.finish(commands.len());
        Ok(failures)
    }

    /// Adds the end of a batch of so many Commands.
    pub fn finish(&mut self, commands: usize) {
        self.list.begin_between(commands);
        self.list.finish();
    }

    /// Adds the items of a Command. Gives `true` if the batch ends with it.
    fn command(
        &mut self,
        command: &BoundCommand,
        index: usize,
        layout: &mut StagingLayout,
        staging: &Staged<P>,
        is_last: bool,
    ) -> Result<bool> {
        if index >= self.most_commands {
            let most = self.most_commands;
            return Err(self.failed_call(format!("a batch has at most {most} Commands")));
        }
        match command.op() {
            Op::Upload { source, .. } => {
                if let Some(source) = self.bind_host(source, layout, staging)? {
                    self.upload(command, source)?;
                }
            }
            Op::Download { target } => {
                if let Some(target) = self.bind_host(target, layout, staging)? {
                    return self.download(command, target, is_last);
                }
            }
            Op::Timestamp => {
                let dst = &command.outputs()[0];
                let target = self.bind(dst.buffer.address)?.offset_by(dst.layout.start_bytes());
                self.list.time(target);
            }
            Op::MatMul { .. } => self.product(command, index)?,
            _ => self.kernels(&lower(command, index as u32, self.platform.limits())?)?,
        }
        Ok(false)
    }

    /// The place of an address that a Command has.
    fn bind(&mut self, address: usize) -> Result<Binding<P::Segment>> {
        let found = self.segments.find(self.platform.segments(), address);
        found.ok_or_else(|| self.failed_call(format!("no memory has the address {address:#x}")))
    }

    fn timestamp(&mut self, staging: &Staged<P>, timestamps: Option<Timestamps>, index: usize) {
        if let (Ok(Some(staging)), Some(timestamps)) = (staging, timestamps) {
            self.list.begin_between(index);
            self.list.time(staging.at(timestamps.offset + index * 8).binding);
        }
    }

    fn kernels(&mut self, lowered: &Lowered) -> Result<()> {
        let scratch = match lowered.workspace {
            // Nothing names it.
            0 => self.fault_record,
            bytes => self.scratch(bytes)?.binding(),
        };
        for launch in &lowered.launches {
            let kernel = self.platform.kernel(launch.key)?;
            for slot in &launch.slots {
                let binding = match *slot {
                    Slot::Address(address) => self.bind(address)?,
                    Slot::Workspace(offset) => scratch.offset_by(offset),
                    Slot::Faults => self.fault_record,
                };
                self.list.argument(binding);
            }
            self.list.kernel(kernel, launch.groups, launch.threads, launch.params.as_bytes());
        }
        Ok(())
    }

    /// Scratch memory of that size.
    fn scratch(&mut self, bytes: usize) -> Result<Arc<Registered<P::Memory>>> {
        let fits = |scratch: &&Arc<Registered<P::Memory>>| scratch.memory().bytes() >= bytes;
        if let Some(scratch) = self.scratch.as_ref().filter(fits) {
            return Ok(Arc::clone(scratch));
        }
        let size = bytes.next_power_of_two().max(SMALLEST_SCRATCH);
        let new = match self.platform.allocate(size) {
            Err(failure) if failure.out_of_memory => self.platform.allocate(bytes),
            new => new,
        };
        let new = new.map_err(|failure| self.refusal(&failure, bytes))?;
        let new = Arc::new(Registered::new(self.platform.segments(), new));
        if let Some(old) = self.scratch.replace(Arc::clone(&new)) {
            // Batches in flight and earlier Commands of this one use it; all are through before this one.
            self.list.keep.push(Box::new(old));
        }
        Ok(new)
    }

    /// Scratch memory as a buffer of Commands.
    fn scratch_buffer(&mut self, bytes: usize) -> Result<RawBuffer> {
        let address = self.scratch(bytes)?.memory().address();
        Ok(RawBuffer { address, bytes })
    }

    /// What a captured list must keep.
    pub fn kept_scratch(&self) -> Option<Arc<Registered<P::Memory>>> {
        self.scratch.clone()
    }
}

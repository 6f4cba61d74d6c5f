//! From the Commands of a batch to a launch list.

mod hazards;
mod launch_list;
mod operands;
mod product;
mod transfer;
mod written;

use std::sync::Arc;

use millstream_core::sync::Cached;
use millstream_core::{BoundCommand, Error, Op, RawBuffer, Result};
use millstream_kernels::{Key, Limits, Lowered, Slot, lower};

pub use self::launch_list::{Item, LaunchFailure, LaunchList};
pub use self::operands::ProductOperands;
use crate::failure::Failure;
use crate::memory::{Registered, SegmentView, Staging, StagingLayout};
use crate::platform::{Binding, Memory, Platform};
use crate::queue::Failures;

/// Into how many parts a Command is cut at most.
const MAX_PARTS: u64 = 64;

/// The smallest scratch memory that is allocated.
const SMALLEST_SCRATCH: usize = 1 << 20;

/// Turns the Commands of a batch into launches. It owns the memory that kernels need besides their operands.
pub(crate) struct BatchLowering<P: Platform> {
    platform: P,
    /// Where kernels of the queue report faults.
    fault_record: Binding<P::Segment>,
    /// The most Commands of a batch.
    max_commands: usize,
    segments: SegmentView<P::Segment>,
    /// Scratch memory that all Commands share: they run one after the other.
    scratch: Option<Arc<Registered<P::Memory>>>,
    /// Those of the device; more groups for a Command that has more work than a launch may have.
    limits: Limits,
    /// Kernels that are not known yet, where they are compiled together.
    missing: Vec<Key>,
    /// They are compiled, as far as they can be.
    is_prepared: bool,
    pub encoder: P::Encoder,
    pub list: LaunchList<P>,
}

/// The staging memory of a batch, if it needs some, or why there is none.
pub(crate) type Staged<P> = Result<Option<Arc<Staging<P>>>>;

/// Where the times of a batch are written, if the profiler is on.
#[derive(Clone, Copy)]
pub(crate) struct Timestamps {
    /// Their offset in the staging memory.
    pub offset: usize,
}

/// The error where the device has no memory for what is beside the memory of streams.
pub(crate) fn out_of_memory<P: Platform>(platform: &P, requested: usize) -> Error {
    let (limit, reserved) = (platform.memory_bytes(), platform.allocated_bytes());
    let device = platform.status().name().to_owned();
    Error::OutOfMemory { device, requested, in_use: reserved, cached: 0, reserved, limit }
}

impl<P: Platform> BatchLowering<P> {
    pub fn new(
        platform: P,
        encoder: P::Encoder,
        fault_record: Binding<P::Segment>,
        max_commands: usize,
    ) -> Self {
        Self {
            limits: *platform.limits(),
            platform,
            fault_record,
            max_commands,
            segments: SegmentView::default(),
            scratch: None,
            missing: Vec::new(),
            is_prepared: false,
            encoder,
            list: LaunchList::default(),
        }
    }

    /// The error of a call that failed while a Command was lowered.
    pub fn refusal(&self, failure: &Failure, requested: usize) -> Error {
        match failure.out_of_memory {
            true => out_of_memory(&self.platform, requested),
            false => self.platform.status().note(failure),
        }
    }

    fn failed_call(&self, reason: String) -> Error {
        let device = self.platform.status().name().to_owned();
        Error::Driver { device, message: reason.into() }
    }

    /// Fills the launch list. Nothing is launched. A Command that cannot be lowered has no items, and the others are
    /// not affected. Returns which Commands failed, and why.
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
        self.is_prepared = !P::PREPARES;
        let failures = self.lower_once(commands, staging, timestamps)?;
        if self.missing.is_empty() {
            return Ok(failures);
        }
        // The first of these batches: what it needs is compiled in one go, and then it is lowered again.
        self.missing.sort_unstable();
        self.missing.dedup();
        self.platform.prepare(&self.missing);
        self.missing.clear();
        self.is_prepared = true;
        self.lower_once(commands, staging, timestamps)
    }

    fn lower_once(
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
            self.set_limits(command);
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

    /// Adds the end of a batch of this many Commands.
    pub fn finish(&mut self, commands: usize) {
        self.list.begin_between(commands);
        self.list.finish();
    }

    /// Adds the items of a Command. Returns `true` if they include the end of the batch.
    fn command(
        &mut self,
        command: &BoundCommand,
        index: usize,
        layout: &mut StagingLayout,
        staging: &Staged<P>,
        is_last: bool,
    ) -> Result<bool> {
        if index >= self.max_commands {
            let most = self.max_commands;
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
            _ => self.kernels(&lower(command, index as u32, &self.limits)?)?,
        }
        Ok(false)
    }

    /// A Command that has more work than a launch may have gets as many more groups, so that each part of it still
    /// fills the device.
    fn set_limits(&mut self, command: &BoundCommand) {
        if P::BOUNDED {
            let usual = self.platform.limits().parallel_groups;
            let parts =
                command.work().div_ceil(self.platform.max_launch_work().max(1)).clamp(1, MAX_PARTS);
            self.limits.parallel_groups = usual.saturating_mul(parts as u32);
        }
    }

    /// The place of an address in a Command.
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
            // An operand without memory: no kernel uses it.
            0 => self.fault_record,
            bytes => {
                let scratch = self.scratch(bytes)?;
                let address = scratch.memory().address();
                self.list.uses_scratch(RawBuffer { address, bytes });
                scratch.binding()
            }
        };
        for launch in &lowered.launches {
            let Some(kernel) = self.kernel(launch.key)? else { continue };
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

    /// A kernel; nothing where it is noted as missing.
    fn kernel(&mut self, key: Key) -> Result<Option<Cached<'static, P::Kernel>>> {
        if self.is_prepared {
            return self.platform.kernel(key).map(Some);
        }
        let known = self.platform.known(key);
        if known.is_none() {
            self.missing.push(key);
        }
        Ok(known)
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
            // Batches in flight and earlier Commands of this batch use the old memory. All of them have ended when
            // this batch has.
            self.list.keep.push(Box::new(old));
        }
        Ok(new)
    }

    /// Scratch memory as a buffer of Commands.
    fn scratch_buffer(&mut self, bytes: usize) -> Result<RawBuffer> {
        let address = self.scratch(bytes)?.memory().address();
        Ok(RawBuffer { address, bytes })
    }

    /// The scratch memory that a captured list must keep.
    pub fn kept_scratch(&self) -> Option<Arc<Registered<P::Memory>>> {
        self.scratch.clone()
    }
}

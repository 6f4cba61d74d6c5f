//! Prepared lists as indirect command buffers: commands that are encoded once, and that a batch only names.
//!
//! A command has no bytes of its own, so all params lie in memory. Fault records differ from batch to batch: a list with a launch that
//! can fail has a buffer of commands for each record, made when it is first needed.

use std::ptr::NonNull;

use millstream_gpu::{Binding, HostVisible, MAX_IN_FLIGHT, Memory};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLComputeCommandEncoder, MTLComputePipelineState, MTLDevice, MTLIndirectCommandBuffer,
    MTLIndirectCommandBufferDescriptor, MTLIndirectCommandType, MTLIndirectComputeCommand,
    MTLResource, MTLResourceOptions, MTLResourceUsage,
};

use crate::encode::{WHOLE, size};
use crate::gpu::Gpu;
use crate::memory::HostMemory;
use crate::objects::{AnyThread, Kept, Obj, Raw, RawBufferObject, Ref};
use crate::prepared::{GRID_INDEX, Op, PLACES, Prepared};
use crate::settings;

/// Commands of such a buffer at most.
const MAX_COMMANDS: usize = 16384;

/// A list as commands.
pub(crate) struct Indirect {
    gpu: &'static Gpu,
    /// What says that a launch is not cut, and the words of the list.
    params: HostMemory,
    commands: usize,
    has_faults: bool,
    made: Vec<Made>,
}

struct Made {
    /// Where the record is that its commands name.
    faults: usize,
    commands: AnyThread<Obj<dyn MTLIndirectCommandBuffer>>,
    /// What its commands name: Metal does not look into them.
    used: Vec<RawBufferObject>,
}

impl Indirect {
    /// Commands for a list, unless it has more than such a buffer takes, command buffers of its own, or times.
    pub fn of(gpu: &'static Gpu, list: &Prepared) -> Option<Self> {
        let commands = list.ops.iter().filter(|op| matches!(op, Op::Dispatch { .. })).count();
        if list.times > 0 || list.parts > 0 || !(1..=MAX_COMMANDS).contains(&commands) {
            return None;
        }
        let words = WHOLE.iter().chain(&list.words).copied();
        let params = HostMemory::new(gpu, words.clone().count() * size_of::<u64>())
            .inspect_err(|failure| settings::log(|| format!("no indirect commands: {failure}")))
            .ok()?;
        let place = HostVisible::host(&params).cast::<u64>();
        for (index, word) in words.enumerate() {
            // SAFETY: the memory has room for all words, begins on a page, and nobody else knows it yet.
            unsafe { place.add(index).write(word) };
        }
        let has_faults = list.ops.iter().any(|op| matches!(op, Op::Faults { .. }));
        Some(Self { gpu, params, commands, has_faults, made: Vec::new() })
    }

    /// Has an encoder run the commands for a fault record; whether there are any.
    ///
    /// # Safety
    ///
    /// As for [`Metal::encode`](crate::platform::Metal::encode), of the list that this was made of.
    pub unsafe fn execute(
        &mut self,
        compute: &Ref<dyn MTLComputeCommandEncoder>,
        list: &Prepared,
        faults: Binding<RawBufferObject>,
    ) -> bool {
        let record = if self.has_faults { faults.offset } else { 0 };
        let found = self.made.iter().position(|made| made.faults == record);
        // SAFETY: as the caller says.
        let found = found.or_else(|| unsafe { self.make(list, faults, record) });
        let Some(made) = found.map(|index| &self.made[index]) else { return false };
        let resources =
            NonNull::from(&*made.used).cast::<NonNull<ProtocolObject<dyn MTLResource>>>();
        let usage = MTLResourceUsage::Read | MTLResourceUsage::Write;
        // SAFETY: there are so many, and a buffer is a resource. All of them live until the batch has run, as the caller says,
        // and so do the commands, whose release is deferred.
        unsafe {
            compute.useResources_count_usage(resources, made.used.len(), usage);
            let range = NSRange { location: 0, length: self.commands };
            compute.executeCommandsInBuffer_withRange(&made.commands, range);
        }
        true
    }

    /// Makes the commands for a record. Gives their index.
    ///
    /// # Safety
    ///
    /// As above.
    #[cold]
    unsafe fn make(
        &mut self,
        list: &Prepared,
        faults: Binding<RawBufferObject>,
        record: usize,
    ) -> Option<usize> {
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
        descriptor.setInheritPipelineState(false);
        descriptor.setInheritBuffers(false);
        descriptor.setMaxKernelBufferBindCount(PLACES);
        // SAFETY: as many commands as Metal allows at most, of shared memory.
        let made = unsafe {
            self.gpu.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(
                &descriptor,
                self.commands,
                MTLResourceOptions::StorageModeShared,
            )
        };
        let Some(commands) = made else {
            settings::log(|| "no indirect command buffer can be had".into());
            return None;
        };
        let mut state = State::new(Memory::segment(&self.params), faults);
        let mut index = 0;
        for op in &list.ops {
            if let Op::Dispatch { groups, threads } = op {
                // SAFETY: there are as many commands as dispatches, and the objects live, as the caller says.
                unsafe {
                    let command = commands.indirectComputeCommandAtIndex(index);
                    state.encode(&command, *groups, *threads);
                }
                index += 1;
            } else {
                state.note(op);
            }
        }
        debug_assert!(self.made.len() < MAX_IN_FLIGHT, "there is one for each record");
        self.made.push(Made { faults: record, commands: AnyThread(commands), used: state.used });
        Some(self.made.len() - 1)
    }
}

impl Drop for Indirect {
    fn drop(&mut self) {
        for made in self.made.drain(..) {
            self.gpu.deferred.defer(Kept::new(made.commands.0));
        }
    }
}

/// What an encoder of the list would know before a dispatch. A command knows nothing of those before it.
struct State {
    params: RawBufferObject,
    faults: Binding<RawBufferObject>,
    pipeline: Option<Raw<dyn MTLComputePipelineState>>,
    bound: [Option<(RawBufferObject, usize)>; PLACES],
    barrier: bool,
    used: Vec<RawBufferObject>,
}

impl State {
    fn new(params: RawBufferObject, faults: Binding<RawBufferObject>) -> Self {
        let mut bound = [None; PLACES];
        bound[GRID_INDEX] = Some((params, 0));
        Self { params, faults, pipeline: None, bound, barrier: false, used: Vec::new() }
    }

    fn note(&mut self, op: &Op) {
        match op {
            Op::Pipeline(pipeline) => self.pipeline = Some(*pipeline),
            Op::Buffer { buffer, offset, index } => {
                self.bound[usize::from(*index)] = Some((*buffer, *offset));
            }
            Op::Offset { offset, index } => {
                if let Some((_, own)) = &mut self.bound[usize::from(*index)] {
                    *own = *offset;
                }
            }
            Op::Faults { index } => {
                let Binding { segment, offset } = self.faults;
                self.bound[usize::from(*index)] = Some((segment, offset));
            }
            Op::Bytes { words, index } => {
                let offset = size_of_val(&WHOLE) + words.start as usize * size_of::<u64>();
                self.bound[usize::from(*index)] = Some((self.params, offset));
            }
            Op::Barrier => self.barrier = true,
            // A list with one of these has no such commands.
            Op::Dispatch { .. } | Op::Part | Op::Time { .. } | Op::WriteTimes => {}
        }
    }

    /// # Safety
    ///
    /// The objects live.
    unsafe fn encode(
        &mut self,
        command: &Ref<dyn MTLIndirectComputeCommand>,
        groups: [u32; 3],
        threads: u32,
    ) {
        // SAFETY: as the caller says; places are those of an encoder, and the commands have as many.
        unsafe {
            if let Some(pipeline) = self.pipeline {
                command.setComputePipelineState(pipeline.get());
            }
            for (index, bound) in self.bound.iter().enumerate() {
                if let Some((buffer, offset)) = *bound {
                    command.setKernelBuffer_offset_atIndex(buffer.get(), offset, index);
                    if !self.used.contains(&buffer) {
                        self.used.push(buffer);
                    }
                }
            }
        }
        if std::mem::take(&mut self.barrier) {
            command.setBarrier();
        }
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup(
            size(groups),
            size([threads, 1, 1]),
        );
    }
}

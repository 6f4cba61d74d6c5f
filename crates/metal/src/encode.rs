//! Encoding a prepared list: command buffers and encoders are made, filled and committed here, and nowhere kept.

use std::ffi::c_void;
use std::ptr::NonNull;

use millstream_gpu::{Binding, Failure, HostVisible, Memory};
use objc2_metal::{
    MTLBarrierScope, MTLBuffer, MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder,
    MTLDispatchType, MTLSharedEvent, MTLSize,
};
use smallvec::SmallVec;

use crate::builtin::COPY_THREADS;
use crate::gpu::Gpu;
use crate::indirect::Indirect;
use crate::memory::{HostMemory, object};
use crate::objects::{Obj, RawBufferObject, Ref, pooled};
use crate::platform::Metal;
use crate::prepared::{GRID_INDEX, GRID_WORDS, Op, Prepared};
use crate::queue::{Completion, MAX_OPEN, MetalEncoder, MetalQueue, as_event};
use crate::times::{Spread, Times};

/// Words of a list that say that a launch is not cut.
pub(crate) const WHOLE: [u64; GRID_WORDS] = [0; GRID_WORDS];

impl Metal {
    /// Encodes and commits a list as the next batch of a queue.
    ///
    /// # Safety
    ///
    /// All that the list names is valid for what is done with it until the batch has run.
    ///
    /// # Errors
    ///
    /// What cannot be had; nothing of the list was committed then. Where that shows only after a part of it was, the batch
    /// fails as one that the device does not run.
    pub unsafe fn encode(
        &self,
        list: &Prepared,
        queue: &MetalQueue,
        encoder: &mut MetalEncoder,
    ) -> Result<(), Failure> {
        pooled(|| {
            let _turn = self.gpu.encoding_turn();
            self.gpu.residency.commit();
            let mut pass = Pass::new(self, queue, encoder, list)?;
            // SAFETY: as the caller says.
            match unsafe { pass.run(list) } {
                Err(failure) if !pass.committed => return Err(failure),
                Err(failure) => queue.timeline.fail(pass.tick, failure),
                Ok(()) => {}
            }
            pass.commit();
            self.gpu.capture.batch();
            Ok(())
        })
    }

    /// The same with commands that are there already. Where they cannot be had, the list is encoded.
    ///
    /// # Safety
    ///
    /// As above.
    ///
    /// # Errors
    ///
    /// As above.
    pub unsafe fn execute(
        &self,
        indirect: &mut Indirect,
        list: &Prepared,
        queue: &MetalQueue,
        encoder: &mut MetalEncoder,
    ) -> Result<(), Failure> {
        pooled(|| {
            let _turn = self.gpu.encoding_turn();
            self.gpu.residency.commit();
            let mut pass = Pass::new(self, queue, encoder, list)?;
            let faults = pass.faults;
            let compute = pass.compute()?;
            // SAFETY: as the caller says; such a list has neither parts nor times, so nothing of it is committed before the end.
            unsafe {
                if !indirect.execute(compute, list, faults) {
                    pass.run(list)?;
                }
            }
            pass.commit();
            self.gpu.capture.batch();
            Ok(())
        })
    }
}

/// Times that a batch without counters takes however many command buffers its stream has open: where it begins, and where it ends. With
/// them all batches in flight stay below what a queue takes.
const LEAST_TIMES: usize = 2;

/// A batch that is being encoded.
struct Pass<'a> {
    gpu: &'static Gpu,
    queue: &'a MetalQueue,
    encoder: &'a mut MetalEncoder,
    tick: u64,
    /// Where the fault record of the batch is.
    faults: Binding<RawBufferObject>,
    commands: Obj<dyn MTLCommandBuffer>,
    compute: Option<Obj<dyn MTLComputeCommandEncoder>>,
    times: Option<Times>,
    /// Without counters: which times are taken, and the latest of them, if that is not all.
    spread: Spread,
    latest: Option<HostMemory>,
    /// Command buffers for the parts to come: there is none that could be missing then.
    spare: SmallVec<[Obj<dyn MTLCommandBuffer>; 2]>,
    /// How many of them are not for times.
    parts: usize,
    /// A command buffer of it was committed.
    committed: bool,
}

impl<'a> Pass<'a> {
    fn new(
        platform: &Metal,
        queue: &'a MetalQueue,
        encoder: &'a mut MetalEncoder,
        list: &Prepared,
    ) -> Result<Self, Failure> {
        let tick = queue.timeline.batches() + 1;
        let times = match list.times {
            0 => None,
            count => Times::new(platform.gpu, count)?,
        };
        let commands = queue.command_buffer()?;
        // As many as the queue has room for. A batch with counters stays in one, which its encoders are sampled in.
        let (wanted, by_times) = match times {
            Some(_) => (0, 0),
            None => (list.parts + list.times, list.times),
        };
        let room = match wanted {
            0 => 0,
            _ => MAX_OPEN.saturating_sub(queue.timeline.open_count()),
        };
        let spread = Spread::new(by_times, by_times.min(room.max(LEAST_TIMES)));
        let parts = (wanted - by_times).min(room.saturating_sub(spread.taken()));
        let spare = (0..parts + spread.taken()).map(|_| queue.command_buffer());
        let spare = spare.collect::<Result<_, _>>()?;
        let latest = match spread.is_whole() {
            true => None,
            false => Some(HostMemory::new(platform.gpu, size_of::<u64>())?),
        };
        if latest.is_some() {
            platform.gpu.residency.commit();
        }
        wait_for(&commands, queue.batch_event(tick - 1));
        for (event, value) in &encoder.waits {
            // SAFETY: events live as long as the process.
            wait_for(&commands, (unsafe { event.get() }, *value));
        }
        let faults = Binding { offset: queue.fault_record(tick), ..queue.fault_place() };
        Ok(Self {
            gpu: platform.gpu,
            queue,
            encoder,
            tick,
            faults,
            commands,
            compute: None,
            times,
            spread,
            latest,
            spare,
            parts,
            committed: false,
        })
    }

    /// # Safety
    ///
    /// As for [`Metal::encode`].
    unsafe fn run(&mut self, list: &Prepared) -> Result<(), Failure> {
        for op in &list.ops {
            match op {
                Op::Part => self.next_part(),
                // SAFETY: as the caller says.
                Op::Time { buffer, offset } => unsafe { self.time(*buffer, *offset)? },
                Op::WriteTimes if self.times.is_some() => self.write_times()?,
                // They are there, and the list counts on a new encoder.
                Op::WriteTimes => self.begin_anew(),
                op => {
                    let faults = self.faults;
                    let compute = self.compute()?;
                    // SAFETY: as the caller says; the indices are those of the kernels.
                    unsafe { tell(compute, op, list, faults) };
                }
            }
        }
        self.write_times()
    }

    /// Has the GPU write the times that were wanted so far.
    fn write_times(&mut self) -> Result<(), Failure> {
        self.end_encoder();
        match &mut self.times {
            Some(times) => times.resolve(&self.commands),
            None => Ok(()),
        }
    }

    /// The clock is wanted at a place.
    ///
    /// # Safety
    ///
    /// As for [`Metal::encode`].
    ///
    /// # Errors
    ///
    /// What cannot be had.
    unsafe fn time(&mut self, buffer: RawBufferObject, offset: usize) -> Result<(), Failure> {
        if let Some(times) = &mut self.times {
            times.add(buffer, offset);
            self.end_encoder();
            return Ok(());
        }
        let Some(latest) = &self.latest else {
            // SAFETY: as the caller says.
            let place = unsafe { buffer.get() }.contents().as_ptr().addr() + offset;
            let next = object(self.spare.pop(), "commandBuffer", "room for times")?;
            self.begin_part(next, Some(place));
            return Ok(());
        };
        let (source, place) = (latest.segment(), HostVisible::host(latest).as_ptr().addr());
        let next = if self.spread.takes_next() { self.spare.pop() } else { None };
        match next {
            Some(next) => self.begin_part(next, Some(place)),
            None => self.begin_anew(),
        }
        let copy = self.gpu.builtins.copy(offset, 0, size_of::<u64>());
        let compute = self.compute()?;
        // SAFETY: the indices of that kernel; the batch keeps the target, as the caller says, and this the source.
        unsafe {
            compute.setComputePipelineState(copy.pipeline.get());
            compute.setBuffer_offset_atIndex(Some(buffer.get()), copy.target, 0);
            compute.setBuffer_offset_atIndex(Some(source.get()), copy.source, 1);
            let bytes = NonNull::from(&copy.params).cast::<c_void>();
            compute.setBytes_length_atIndex(bytes, size_of_val(&copy.params), 2);
        }
        compute.dispatchThreadgroups_threadsPerThreadgroup(
            size([copy.groups, 1, 1]),
            size([COPY_THREADS, 1, 1]),
        );
        self.begin_anew();
        Ok(())
    }

    /// Commits the last command buffer, which completes the batch.
    fn commit(&mut self) {
        self.end_encoder();
        self.queue.commit(&self.commands, self.encoder, Completion::Batch(self.tick));
        self.encoder.waits.clear();
        // The GPU uses it until the last command buffer is through.
        if let Some(latest) = self.latest.take() {
            self.gpu.deferred.defer(latest);
        }
    }

    /// The encoder, a new one if there is none.
    fn compute(&mut self) -> Result<&Ref<dyn MTLComputeCommandEncoder>, Failure> {
        if self.compute.is_none() {
            let made = match &mut self.times {
                Some(times) => times.encoder(&self.commands)?,
                None => object(
                    self.commands
                        .computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent),
                    "computeCommandEncoderWithDispatchType",
                    "encoder",
                )?,
            };
            set_whole(&made);
            self.compute = Some(made);
        }
        match &self.compute {
            Some(compute) => Ok(compute),
            None => unreachable!("there is one now"),
        }
    }

    fn end_encoder(&mut self) {
        if let Some(compute) = self.compute.take() {
            if let Some(times) = &mut self.times {
                times.end_encoder(&compute);
            }
            compute.endEncoding();
        }
    }

    /// Goes on in another command buffer, unless there are so many that the queue would block.
    fn next_part(&mut self) {
        // Those for times are not taken.
        match if self.parts > 0 { self.spare.pop() } else { None } {
            Some(next) => {
                self.parts -= 1;
                self.begin_part(next, None);
            }
            None => self.begin_anew(),
        }
    }

    /// Goes on in the encoder that there is as in a new one: a list counts on nothing of what came before, neither on an order nor
    /// on what was set.
    fn begin_anew(&self) {
        if let Some(compute) = &self.compute {
            compute.memoryBarrierWithScope(MTLBarrierScope::Buffers);
            set_whole(compute);
        }
    }

    /// Commits what there is; the rest waits for it. With a place for the time, the handler writes it there first.
    fn begin_part(&mut self, next: Obj<dyn MTLCommandBuffer>, time: Option<usize>) {
        self.end_encoder();
        self.encoder.gate += 1;
        let gate = self.encoder.gate;
        let completes = Completion::Part { tick: self.tick, gate, time };
        self.queue.commit(&self.commands, self.encoder, completes);
        // Later command buffers come after this one.
        self.encoder.waits.clear();
        self.committed = true;
        self.commands = next;
        let (event, value) = self.queue.gate_event(gate);
        self.commands.encodeWaitForEvent_value(as_event(event), value);
    }
}

/// Lets a command buffer wait for an event, unless it has come.
fn wait_for(commands: &Ref<dyn MTLCommandBuffer>, (event, value): (&Ref<dyn MTLSharedEvent>, u64)) {
    if event.signaledValue() < value {
        commands.encodeWaitForEvent_value(as_event(event), value);
    }
}

/// Says that launches are not cut, until something else is said.
fn set_whole(compute: &Ref<dyn MTLComputeCommandEncoder>) {
    // SAFETY: so many bytes, which are copied.
    unsafe {
        compute.setBytes_length_atIndex(
            NonNull::from(&WHOLE).cast::<c_void>(),
            size_of_val(&WHOLE),
            GRID_INDEX,
        );
    }
}

pub(crate) fn size([width, height, depth]: [u32; 3]) -> MTLSize {
    MTLSize { width: width as usize, height: height as usize, depth: depth as usize }
}

/// Tells an encoder one thing.
///
/// # Safety
///
/// The objects live, indices are those of the kernel, and the list has the words.
#[inline]
unsafe fn tell(
    compute: &Ref<dyn MTLComputeCommandEncoder>,
    op: &Op,
    list: &Prepared,
    faults: Binding<RawBufferObject>,
) {
    // SAFETY: as the caller says, for all of them.
    unsafe {
        match op {
            Op::Pipeline(pipeline) => compute.setComputePipelineState(pipeline.get()),
            Op::Buffer { buffer, offset, index } => {
                compute.setBuffer_offset_atIndex(Some(buffer.get()), *offset, usize::from(*index));
            }
            Op::Offset { offset, index } => {
                compute.setBufferOffset_atIndex(*offset, usize::from(*index));
            }
            Op::Faults { index } => {
                let (buffer, offset) = (faults.segment.get(), faults.offset);
                compute.setBuffer_offset_atIndex(Some(buffer), offset, usize::from(*index));
            }
            Op::Bytes { words, index } => {
                let words = &list.words[words.start as usize..words.end as usize];
                let bytes = NonNull::from(words).cast::<c_void>();
                compute.setBytes_length_atIndex(bytes, size_of_val(words), usize::from(*index));
            }
            Op::Barrier => compute.memoryBarrierWithScope(MTLBarrierScope::Buffers),
            Op::Dispatch { groups, threads } => {
                compute.dispatchThreadgroups_threadsPerThreadgroup(
                    size(*groups),
                    size([*threads, 1, 1]),
                );
            }
            Op::Part | Op::Time { .. } | Op::WriteTimes => {}
        }
    }
}

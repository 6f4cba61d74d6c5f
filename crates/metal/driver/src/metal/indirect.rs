//! Indirect command buffers: commands that are encoded once and run many times.
//!
//! Commands name buffers and pipelines and keep none of them alive. What they name has to be declared to the encoder that runs
//! them, or to be resident, since Metal does not look into them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::buffer::{Buffer, Memory};
use super::encoder::{Encoder, check_dispatch, is_offset};
use super::pass::{Dispatch, Step};
use super::pipeline::Pipeline;
use super::{Range, Size, lock};
use crate::deviations::{Deviation, deviates};
use crate::foundation::alloc_default;
use crate::gpu::Program;
use crate::objc::{Id, Raw, Sel, This, autoreleased, class, method, new};
use crate::rules::{Rule, violation};

/// `MTLIndirectCommandTypeConcurrentDispatch`.
const CONCURRENT_DISPATCH: usize = 1 << 5;
/// Commands of an indirect command buffer at most.
pub const MAX_COMMANDS: usize = 16384;

/// `MTLIndirectCommandBufferDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    types: AtomicUsize,
    /// Both are inherited unless somebody says otherwise.
    own_pipeline: AtomicBool,
    own_buffers: AtomicBool,
    places: AtomicUsize,
}

/// `MTLIndirectCommandBuffer`.
pub struct IndirectCommands {
    types: usize,
    own_pipeline: bool,
    own_buffers: bool,
    /// Buffers that a command has at most.
    places: usize,
    commands: Mutex<Vec<Command>>,
    /// Command buffers that use it and are not through.
    pub in_flight: Arc<AtomicUsize>,
}

/// `MTLIndirectComputeCommand`.
pub struct IndirectCommand {
    owner: Id<IndirectCommands>,
    index: usize,
}

#[derive(Clone, Default)]
struct Command {
    pipeline: Option<NamedPipeline>,
    buffers: [Option<NamedBuffer>; 31],
    barrier: bool,
    dispatch: Option<(Size, Size)>,
}

#[derive(Clone)]
struct NamedPipeline {
    address: usize,
    program: Arc<Program>,
    index: usize,
    max_threads: usize,
    /// Gone with the pipeline.
    in_flight: Weak<AtomicUsize>,
}

#[derive(Clone)]
struct NamedBuffer {
    address: usize,
    memory: Arc<Memory>,
    offset: usize,
    tracked: bool,
    /// Gone with the buffer.
    in_flight: Weak<AtomicUsize>,
}

class!(
    /// MTLIndirectCommandBufferDescriptor.
    DESCRIPTOR, "MTLIndirectCommandBufferDescriptor", Descriptor,
    [
        method!(c"setCommandTypes:", c"v@:Q", set_types, fn(This<Descriptor>, Sel, usize)),
        method!(c"setInheritPipelineState:", c"v@:C", set_inherit_pipeline, fn(This<Descriptor>, Sel, bool)),
        method!(c"setInheritBuffers:", c"v@:C", set_inherit_buffers, fn(This<Descriptor>, Sel, bool)),
        method!(c"setMaxKernelBufferBindCount:", c"v@:Q", set_places, fn(This<Descriptor>, Sel, usize)),
    ],
    alloc: alloc_default::<Descriptor>
);

class!(
    /// The class of indirect command buffers.
    COMMANDS, "MillstreamIndirectCommandBuffer", IndirectCommands,
    [
        method!(c"size", c"Q@:", size, fn(This<IndirectCommands>, Sel) -> usize),
        method!(c"resetWithRange:", c"v@:{_NSRange=QQ}", reset_range, fn(This<IndirectCommands>, Sel, Range)),
        method!(c"indirectComputeCommandAtIndex:", c"@@:Q", command_at, fn(This<IndirectCommands>, Sel, usize) -> Raw),
    ]
);

class!(
    /// The class of their commands.
    COMMAND, "MillstreamIndirectComputeCommand", IndirectCommand,
    [
        method!(c"setComputePipelineState:", c"v@:@", set_pipeline, fn(This<IndirectCommand>, Sel, This<Pipeline>)),
        method!(c"setKernelBuffer:offset:atIndex:", c"v@:@QQ", set_buffer, fn(This<IndirectCommand>, Sel, This<Buffer>, usize, usize)),
        method!(c"concurrentDispatchThreadgroups:threadsPerThreadgroup:", c"v@:{?=QQQ}{?=QQQ}", dispatch, fn(This<IndirectCommand>, Sel, Size, Size)),
        method!(c"setBarrier", c"v@:", set_barrier, fn(This<IndirectCommand>, Sel)),
        method!(c"clearBarrier", c"v@:", clear_barrier, fn(This<IndirectCommand>, Sel)),
        method!(c"reset", c"v@:", reset, fn(This<IndirectCommand>, Sel)),
    ]
);

impl IndirectCommands {
    pub fn make(descriptor: This<Descriptor>, count: usize) -> Option<Self> {
        let places = descriptor.places.load(Ordering::Relaxed);
        if count == 0 || count > MAX_COMMANDS || places > 31 {
            violation(
                Rule::IndirectIndex,
                format_args!("{count} commands with {places} buffers each"),
            );
            return None;
        }
        Some(Self {
            types: descriptor.types.load(Ordering::Relaxed),
            own_pipeline: descriptor.own_pipeline.load(Ordering::Relaxed),
            own_buffers: descriptor.own_buffers.load(Ordering::Relaxed),
            places,
            commands: Mutex::new(vec![Command::default(); count]),
            in_flight: Arc::default(),
        })
    }

    /// Changes a command, unless the GPU may be reading it.
    fn change(&self, index: usize, call: &str, change: impl FnOnce(&mut Command)) {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            violation(Rule::IndirectInFlight, format_args!("{call} while it is used"));
            return;
        }
        if let Some(command) = lock(&self.commands).get_mut(index) {
            change(command);
        }
    }

    fn has(&self, range: Range) -> bool {
        let commands = lock(&self.commands).len();
        let inside = range.location.checked_add(range.length).is_some_and(|end| end <= commands);
        if !inside {
            violation(Rule::IndirectIndex, format_args!("{range:?} of {commands} commands"));
        }
        inside
    }
}

impl Drop for IndirectCommands {
    fn drop(&mut self) {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            violation(Rule::IndirectInFlight, "an indirect command buffer goes while it is used");
        }
    }
}

impl Encoder {
    /// What `executeCommandsInBuffer` does.
    pub fn execute(&self, call: &str, indirect: This<IndirectCommands>, range: Range) {
        let Some((_entered, mut state)) = self.enter(call) else { return };
        if !indirect.has(range) {
            return;
        }
        self.commands.use_object(indirect.address(), &indirect.in_flight, || {
            crate::foundation::Any::from(indirect.retain())
        });
        let state = &mut *state;
        let commands = lock(&indirect.commands);
        for command in &commands[range.location..][..range.length] {
            let Some(size) = command.dispatch else { continue };
            let Some(dispatch) = self.named(&mut state.pass, &state.declared, command, size) else {
                return;
            };
            if command.barrier && !deviates(Deviation::NoBarriers) {
                state.pass.steps.push(Step::Barrier);
            }
            state.pass.steps.push(Step::Dispatch(Box::new(dispatch)));
        }
    }

    /// A command as a dispatch, with what it names noted as used.
    fn named(
        &self,
        pass: &mut super::pass::Pass,
        declared: &[usize],
        command: &Command,
        (groups, threads): (Size, Size),
    ) -> Option<Dispatch> {
        let Some(pipeline) = &command.pipeline else {
            violation(Rule::NoPipeline, "an indirect command without a pipeline");
            return None;
        };
        let Some(in_flight) = pipeline.in_flight.upgrade() else {
            violation(Rule::PipelineReleasedInFlight, "an indirect command has its pipeline");
            return None;
        };
        self.commands.note_use(pipeline.address, &in_flight);
        let kernel = &pipeline.program.kernels[pipeline.index];
        let (groups, threads) = check_dispatch(kernel, pipeline.max_threads, groups, threads)?;
        let mut own = Dispatch {
            groups,
            threads,
            buffers: [0; 31],
            bytes: Vec::new(),
            memory: Vec::new(),
            program: Arc::clone(&pipeline.program),
            kernel: pipeline.index,
        };
        for (index, named) in command.buffers.iter().enumerate() {
            let Some(buffer) = named else {
                if kernel.buffers >> index & 1 == 1 {
                    violation(
                        Rule::NothingBound,
                        format_args!("{}: nothing is bound at index {index}", kernel.name),
                    );
                    return None;
                }
                continue;
            };
            let Some(in_flight) = buffer.in_flight.upgrade() else {
                violation(Rule::BufferReleasedInFlight, "an indirect command names the buffer");
                return None;
            };
            if !declared.contains(&buffer.address) && !self.commands.has_residency() {
                violation(
                    Rule::IndirectNotDeclared,
                    format_args!("{}: the buffer at index {index}", kernel.name),
                );
                return None;
            }
            self.commands.note_buffer(buffer.address, &in_flight);
            let address = buffer.memory.address();
            if buffer.tracked && !pass.tracked.contains(&address) {
                pass.tracked.push(address);
            }
            own.buffers[index] = (address + buffer.offset) as u64;
            own.memory.push(Arc::clone(&buffer.memory));
        }
        Some(own)
    }
}

unsafe extern "C" fn set_types(this: This<Descriptor>, _: Sel, types: usize) {
    this.types.store(types, Ordering::Relaxed);
}

unsafe extern "C" fn set_inherit_pipeline(this: This<Descriptor>, _: Sel, inherit: bool) {
    this.own_pipeline.store(!inherit, Ordering::Relaxed);
}

unsafe extern "C" fn set_inherit_buffers(this: This<Descriptor>, _: Sel, inherit: bool) {
    this.own_buffers.store(!inherit, Ordering::Relaxed);
}

unsafe extern "C" fn set_places(this: This<Descriptor>, _: Sel, places: usize) {
    this.places.store(places, Ordering::Relaxed);
}

unsafe extern "C" fn size(this: This<IndirectCommands>, _: Sel) -> usize {
    lock(&this.commands).len()
}

unsafe extern "C" fn reset_range(this: This<IndirectCommands>, sel: Sel, range: Range) {
    if this.has(range) {
        for index in range.location..range.location + range.length {
            this.change(index, sel.name(), |command| *command = Command::default());
        }
    }
}

unsafe extern "C" fn command_at(this: This<IndirectCommands>, _: Sel, index: usize) -> Raw {
    this.has(Range { location: index, length: 1 });
    autoreleased(Some(new(IndirectCommand { owner: this.retain(), index })))
}

unsafe extern "C" fn set_pipeline(this: This<IndirectCommand>, sel: Sel, pipeline: This<Pipeline>) {
    if !this.owner.own_pipeline {
        violation(Rule::IndirectKind, "a pipeline, where the encoder's is inherited");
        return;
    }
    if !pipeline.indirect {
        violation(Rule::IndirectPipeline, format_args!("{}", pipeline.kernel().name));
        return;
    }
    let named = NamedPipeline {
        address: pipeline.address(),
        program: Arc::clone(&pipeline.program),
        index: pipeline.index,
        max_threads: pipeline.max_threads,
        in_flight: Arc::downgrade(&pipeline.in_flight),
    };
    this.owner.change(this.index, sel.name(), |command| command.pipeline = Some(named));
}

unsafe extern "C" fn set_buffer(
    this: This<IndirectCommand>,
    sel: Sel,
    buffer: This<Buffer>,
    offset: usize,
    index: usize,
) {
    if !this.owner.own_buffers {
        violation(Rule::IndirectKind, "a buffer, where the encoder's are inherited");
        return;
    }
    if index >= this.owner.places {
        violation(
            Rule::IndirectIndex,
            format_args!("buffer index {index} of {}", this.owner.places),
        );
        return;
    }
    if is_offset(offset, buffer.memory.len()) {
        let named = NamedBuffer {
            address: buffer.address(),
            memory: Arc::clone(&buffer.memory),
            offset,
            tracked: buffer.tracked,
            in_flight: Arc::downgrade(&buffer.in_flight),
        };
        this.owner.change(this.index, sel.name(), |command| command.buffers[index] = Some(named));
    }
}

unsafe extern "C" fn dispatch(this: This<IndirectCommand>, sel: Sel, groups: Size, threads: Size) {
    if this.owner.types & CONCURRENT_DISPATCH == 0 {
        violation(Rule::IndirectKind, "a dispatch, which it was not made for");
        return;
    }
    this.owner.change(this.index, sel.name(), |command| command.dispatch = Some((groups, threads)));
}

unsafe extern "C" fn set_barrier(this: This<IndirectCommand>, sel: Sel) {
    this.owner.change(this.index, sel.name(), |command| command.barrier = true);
}

unsafe extern "C" fn clear_barrier(this: This<IndirectCommand>, sel: Sel) {
    this.owner.change(this.index, sel.name(), |command| command.barrier = false);
}

unsafe extern "C" fn reset(this: This<IndirectCommand>, sel: Sel) {
    this.owner.change(this.index, sel.name(), |command| *command = Command::default());
}

//! Encoders: what compute and blit encoders have in common, and the compute encoder.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use super::buffer::{Buffer, Memory};
use super::commands::{Commands, Entered};
use super::counters::SampleBuffer;
use super::event::Fence;
use super::indirect::IndirectCommands;
use super::pass::{Dispatch, Pass, Step};
use super::pipeline::{Pipeline, SIMD_WIDTH};
use super::{Range, Size, blit, lock};
use crate::deviations::{Deviation, deviates};
use crate::gpu::Kernel;
use crate::objc::{Id, Sel, This, class, method};
use crate::rules::{Rule, violation};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Serial,
    Concurrent,
    Blit,
}

/// `MTLComputeCommandEncoder` and `MTLBlitCommandEncoder`.
pub struct Encoder {
    pub commands: Id<Commands>,
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    ended: bool,
    pub pass: Pass,
    /// Buffers that were declared, by address.
    pub declared: Vec<usize>,
    pipeline: Option<Id<Pipeline>>,
    slots: [Slot; 31],
}

#[derive(Clone, Default)]
enum Slot {
    #[default]
    Empty,
    Buffer(Arc<Memory>, usize),
    Bytes(Arc<[u64]>),
}

class!(
    /// The class of encoders.
    ENCODER, "MillstreamEncoder", Encoder,
    [
        method!(c"setComputePipelineState:", c"v@:@", set_pipeline, fn(This<Encoder>, Sel, This<Pipeline>)),
        method!(c"setBuffer:offset:atIndex:", c"v@:@QQ", set_buffer, fn(This<Encoder>, Sel, Option<This<Buffer>>, usize, usize)),
        method!(c"setBufferOffset:atIndex:", c"v@:QQ", set_offset, fn(This<Encoder>, Sel, usize, usize)),
        method!(c"setBytes:length:atIndex:", c"v@:^vQQ", set_bytes, fn(This<Encoder>, Sel, *const c_void, usize, usize)),
        method!(c"dispatchThreadgroups:threadsPerThreadgroup:", c"v@:{?=QQQ}{?=QQQ}", dispatch, fn(This<Encoder>, Sel, Size, Size)),
        method!(c"memoryBarrierWithScope:", c"v@:Q", barrier, fn(This<Encoder>, Sel, usize)),
        method!(c"memoryBarrierWithResources:count:", c"v@:^@Q", barrier_of, fn(This<Encoder>, Sel, *const c_void, usize)),
        method!(c"updateFence:", c"v@:@", update_fence, fn(This<Encoder>, Sel, This<Fence>)),
        method!(c"waitForFence:", c"v@:@", wait_fence, fn(This<Encoder>, Sel, This<Fence>)),
        method!(c"useResource:usage:", c"v@:@Q", use_resource, fn(This<Encoder>, Sel, This<Buffer>, usize)),
        method!(c"useResources:count:usage:", c"v@:^@QQ", use_resources, fn(This<Encoder>, Sel, *const This<Buffer>, usize, usize)),
        method!(c"executeCommandsInBuffer:withRange:", c"v@:@{_NSRange=QQ}", execute, fn(This<Encoder>, Sel, This<IndirectCommands>, Range)),
        method!(c"sampleCountersInBuffer:atSampleIndex:withBarrier:", c"v@:@QC", sample, fn(This<Encoder>, Sel, This<SampleBuffer>, usize, bool)),
        method!(c"dispatchType", c"Q@:", dispatch_type, fn(This<Encoder>, Sel) -> usize),
        method!(c"endEncoding", c"v@:", end, fn(This<Encoder>, Sel)),
        blit::COPY,
        blit::FILL,
        blit::RESOLVE,
    ]
);

impl Encoder {
    pub fn new(
        commands: Id<Commands>,
        kind: Kind,
        samples: Option<(Id<SampleBuffer>, [usize; 2])>,
    ) -> Self {
        let concurrent = kind == Kind::Concurrent;
        let pass = Pass { concurrent, samples, ..Pass::default() };
        let state = State { pass, ..State::default() };
        Self { commands, kind, state: Mutex::new(state) }
    }

    /// Whether it may encode now.
    pub fn enter(&self, call: &str) -> Option<(Entered<'_>, MutexGuard<'_, State>)> {
        let entered = self.commands.enter(call)?;
        let state = lock(&self.state);
        if state.ended {
            violation(Rule::AfterEndEncoding, format_args!("{call} after endEncoding"));
            return None;
        }
        Some((entered, state))
    }

    /// Notes that the pass uses a buffer.
    pub fn uses(&self, state: &mut State, buffer: This<Buffer>) {
        self.commands.use_buffer(buffer);
        let address = buffer.memory.address();
        if buffer.tracked && !state.pass.tracked.contains(&address) {
            state.pass.tracked.push(address);
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if !lock(&self.state).ended {
            violation(
                Rule::EncoderNotEnded,
                format_args!("a {:?} encoder goes without endEncoding", self.kind),
            );
            self.commands.abandon_encoder();
        }
    }
}

unsafe extern "C" fn set_pipeline(this: This<Encoder>, sel: Sel, pipeline: This<Pipeline>) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    state.pipeline = Some(pipeline.retain());
}

impl Encoder {
    fn declare(&self, sel: Sel, buffers: &[This<Buffer>]) {
        let Some((_entered, mut state)) = self.enter(sel.name()) else { return };
        for buffer in buffers {
            self.uses(&mut state, *buffer);
            state.declared.push(buffer.address());
        }
    }

    fn barrier(&self, sel: Sel) {
        let Some((_entered, mut state)) = self.enter(sel.name()) else { return };
        if !deviates(Deviation::NoBarriers) {
            state.pass.steps.push(Step::Barrier);
        }
    }
}

fn is_index(index: usize) -> bool {
    if index >= 31 {
        violation(Rule::BufferIndex, format_args!("buffer index {index}"));
    }
    index < 31
}

pub fn is_offset(offset: usize, bytes: usize) -> bool {
    if offset >= bytes {
        violation(
            Rule::OffsetOutside,
            format_args!("offset {offset} in a buffer of {bytes} bytes"),
        );
        return false;
    }
    if !offset.is_multiple_of(4) {
        violation(Rule::OffsetAlignment, format_args!("offset {offset} is no multiple of 4"));
        return false;
    }
    true
}

unsafe extern "C" fn set_buffer(
    this: This<Encoder>,
    sel: Sel,
    buffer: Option<This<Buffer>>,
    offset: usize,
    index: usize,
) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if !is_index(index) {
        return;
    }
    let Some(buffer) = buffer else {
        state.slots[index] = Slot::Empty;
        return;
    };
    if is_offset(offset, buffer.memory.len()) {
        this.uses(&mut state, buffer);
        state.slots[index] = Slot::Buffer(Arc::clone(&buffer.memory), offset);
    }
}

unsafe extern "C" fn set_offset(this: This<Encoder>, sel: Sel, offset: usize, index: usize) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if !is_index(index) {
        return;
    }
    match &mut state.slots[index] {
        Slot::Buffer(memory, own) if is_offset(offset, memory.len()) => *own = offset,
        Slot::Buffer(..) => {}
        _ => violation(
            Rule::NothingBound,
            format_args!("an offset for index {index}, where no buffer is"),
        ),
    }
}

unsafe extern "C" fn set_bytes(
    this: This<Encoder>,
    sel: Sel,
    bytes: *const c_void,
    length: usize,
    index: usize,
) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if !is_index(index) {
        return;
    }
    if length == 0 || length > 4096 {
        violation(Rule::BytesLength, format_args!("setBytes of {length} bytes"));
        return;
    }
    let mut words = vec![0u64; length.div_ceil(8)];
    // SAFETY: the caller passes so many bytes, and the words have room for them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.cast::<u8>(), words.as_mut_ptr().cast(), length) };
    state.slots[index] = Slot::Bytes(words.into());
}

/// Groups and threads of a dispatch, unless a rule is against them.
pub fn check_dispatch(
    kernel: &Kernel,
    max_threads: usize,
    groups: Size,
    threads: Size,
) -> Option<([u32; 3], u32)> {
    let count = |size: Size| size.width.saturating_mul(size.height).saturating_mul(size.depth);
    let per_group = count(threads);
    if per_group == 0 || count(groups) == 0 {
        violation(
            Rule::EmptyDispatch,
            format_args!("{}: groups {groups:?} of {threads:?}", kernel.name),
        );
        return None;
    }
    if per_group > max_threads {
        violation(
            Rule::TooManyThreads,
            format_args!("{}: {per_group} threads, {max_threads} at most", kernel.name),
        );
        return None;
    }
    if !per_group.is_multiple_of(SIMD_WIDTH) {
        violation(Rule::GroupNotMultiple, format_args!("{}: {per_group} threads", kernel.name));
        return None;
    }
    let groups = [groups.width, groups.height, groups.depth].map(|size| size as u32);
    Some((groups, per_group as u32))
}

unsafe extern "C" fn dispatch(this: This<Encoder>, sel: Sel, groups: Size, threads: Size) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    let Some(pipeline) = state.pipeline.clone() else {
        violation(Rule::NoPipeline, "a dispatch without a pipeline");
        return;
    };
    let kernel = pipeline.kernel();
    let Some((groups, threads)) = check_dispatch(kernel, pipeline.max_threads, groups, threads)
    else {
        return;
    };
    let mut own = Dispatch {
        groups,
        threads,
        buffers: [0; 31],
        bytes: Vec::new(),
        memory: Vec::new(),
        program: Arc::clone(&pipeline.program),
        kernel: pipeline.index,
    };
    this.commands.use_object(pipeline.this().address(), &pipeline.in_flight, || {
        crate::foundation::Any::from(pipeline.clone())
    });
    for (index, slot) in state.slots.iter().enumerate() {
        match slot {
            Slot::Empty if kernel.buffers >> index & 1 == 1 => {
                violation(
                    Rule::NothingBound,
                    format_args!("{}: nothing is bound at index {index}", kernel.name),
                );
                return;
            }
            Slot::Empty => {}
            Slot::Buffer(memory, offset) => {
                own.buffers[index] = (memory.address() + offset) as u64;
                own.memory.push(Arc::clone(memory));
            }
            Slot::Bytes(words) => {
                own.buffers[index] = words.as_ptr().addr() as u64;
                own.bytes.push(Arc::clone(words));
            }
        }
    }
    state.pass.steps.push(Step::Dispatch(Box::new(own)));
}

unsafe extern "C" fn barrier(this: This<Encoder>, sel: Sel, _: usize) {
    this.barrier(sel);
}

unsafe extern "C" fn barrier_of(this: This<Encoder>, sel: Sel, _: *const c_void, _: usize) {
    this.barrier(sel);
}

unsafe extern "C" fn update_fence(this: This<Encoder>, sel: Sel, fence: This<Fence>) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    state.pass.updates.push(fence.number);
}

unsafe extern "C" fn wait_fence(this: This<Encoder>, sel: Sel, fence: This<Fence>) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if state.pass.updates.contains(&fence.number) {
        violation(Rule::FenceOrder, "an encoder waits for a fence that it has updated");
        return;
    }
    state.pass.waits.push(fence.number);
}

unsafe extern "C" fn use_resource(this: This<Encoder>, sel: Sel, buffer: This<Buffer>, _: usize) {
    this.declare(sel, &[buffer]);
}

unsafe extern "C" fn use_resources(
    this: This<Encoder>,
    sel: Sel,
    buffers: *const This<Buffer>,
    count: usize,
    _: usize,
) {
    // SAFETY: the caller passes so many.
    this.declare(sel, unsafe { std::slice::from_raw_parts(buffers, count) });
}

unsafe extern "C" fn execute(
    this: This<Encoder>,
    sel: Sel,
    indirect: This<IndirectCommands>,
    range: Range,
) {
    this.execute(sel.name(), indirect, range);
}

/// Apple's GPUs sample where encoders begin and end, and nowhere else.
unsafe extern "C" fn sample(_: This<Encoder>, sel: Sel, _: This<SampleBuffer>, _: usize, _: bool) {
    violation(Rule::NoSuchFeature, format_args!("{} inside of an encoder", sel.name()));
}

unsafe extern "C" fn dispatch_type(this: This<Encoder>, _: Sel) -> usize {
    usize::from(this.kind == Kind::Concurrent)
}

unsafe extern "C" fn end(this: This<Encoder>, sel: Sel) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    state.ended = true;
    let pass = std::mem::take(&mut state.pass);
    drop(state);
    this.commands.end_pass(pass);
}

//! The device.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::buffer::{self, Buffer, Memory, Options, PAGE};
use super::event::{Fence, SharedEvent};
use super::heap::{self, Heap};
use super::indirect::{self, IndirectCommands};
use super::library::{self, CompileOptions, Function};
use super::pipeline;
use super::queue::Queue;
use super::residency::{self, ResidencySet};
use super::{Size, archive, counters, lock};
use crate::control::{self, Refusal};
use crate::deviations::{Deviation, deviates};
use crate::foundation::{Error, Text, write_error};
use crate::objc::{Block, BlockRef, Header, Id, Raw, Sel, This, autoreleased, class, method, new};
use crate::rules::{Rule, violation};

/// `MTLDevice`.
pub struct Device {
    paravirtual: bool,
    /// Whether it is the one that programs get.
    is_default: bool,
    concurrent_compilation: AtomicBool,
}

/// `MTLArchitecture`.
pub struct Architecture(());

/// Larger ones are refused.
const MAX_BUFFER: usize = 1 << 30;

class!(
    /// The class of the device.
    DEVICE, "MillstreamDevice", Device,
    [
        method!(c"name", c"@@:", name, fn(This<Device>, Sel) -> Raw),
        method!(c"registryID", c"Q@:", registry_id, fn(This<Device>, Sel) -> u64),
        method!(c"architecture", c"@@:", architecture, fn(This<Device>, Sel) -> Raw),
        method!(c"hasUnifiedMemory", c"C@:", unified, fn(This<Device>, Sel) -> bool),
        method!(c"isLowPower", c"C@:", no, fn(This<Device>, Sel) -> bool),
        method!(c"isHeadless", c"C@:", no, fn(This<Device>, Sel) -> bool),
        method!(c"isRemovable", c"C@:", no, fn(This<Device>, Sel) -> bool),
        method!(c"supportsFamily:", c"C@:q", supports_family, fn(This<Device>, Sel, isize) -> bool),
        method!(c"maxThreadsPerThreadgroup", c"{?=QQQ}@:", max_threads, fn(This<Device>, Sel) -> Size),
        method!(c"maxThreadgroupMemoryLength", c"Q@:", group_bytes, fn(This<Device>, Sel) -> usize),
        method!(c"maxBufferLength", c"Q@:", max_buffer, fn(This<Device>, Sel) -> usize),
        method!(c"recommendedMaxWorkingSetSize", c"Q@:", working_set, fn(This<Device>, Sel) -> u64),
        method!(c"currentAllocatedSize", c"Q@:", allocated, fn(This<Device>, Sel) -> usize),
        method!(c"respondsToSelector:", c"C@::", responds, fn(This<Device>, Sel, Sel) -> bool),
        method!(c"shouldMaximizeConcurrentCompilation", c"C@:", concurrent, fn(This<Device>, Sel) -> bool),
        method!(c"setShouldMaximizeConcurrentCompilation:", c"v@:C", set_concurrent, fn(This<Device>, Sel, bool)),
        method!(c"newCommandQueue", c"@@:", queue, fn(This<Device>, Sel) -> Raw),
        method!(c"newCommandQueueWithMaxCommandBufferCount:", c"@@:Q", queue_of, fn(This<Device>, Sel, usize) -> Raw),
        method!(c"newBufferWithLength:options:", c"@@:QQ", new_buffer, fn(This<Device>, Sel, usize, usize) -> Raw),
        method!(c"newBufferWithBytes:length:options:", c"@@:^vQQ", buffer_of_bytes, fn(This<Device>, Sel, *const c_void, usize, usize) -> Raw),
        method!(c"newBufferWithBytesNoCopy:length:options:deallocator:", c"@@:^vQQ@?", wrapped, fn(This<Device>, Sel, *mut c_void, usize, usize, *mut Block) -> Raw),
        method!(c"newHeapWithDescriptor:", c"@@:@", new_heap, fn(This<Device>, Sel, This<heap::Descriptor>) -> Raw),
        method!(c"newSharedEvent", c"@@:", event, fn(This<Device>, Sel) -> Raw),
        method!(c"newFence", c"@@:", fence, fn(This<Device>, Sel) -> Raw),
        method!(c"newLibraryWithSource:options:error:", c"@@:@@^@", new_library, fn(This<Device>, Sel, Option<This<Text>>, Option<This<CompileOptions>>, *mut Raw) -> Raw),
        method!(c"newLibraryWithSource:options:completionHandler:", c"v@:@@@?", begin_library, fn(This<Device>, Sel, Option<This<Text>>, Option<This<CompileOptions>>, *mut Block)),
        method!(c"newComputePipelineStateWithFunction:error:", c"@@:@^@", new_pipeline, fn(This<Device>, Sel, This<Function>, *mut Raw) -> Raw),
        method!(c"newComputePipelineStateWithDescriptor:options:reflection:error:", c"@@:@Q^@^@", pipeline_of, fn(This<Device>, Sel, This<pipeline::Descriptor>, usize, *mut Raw, *mut Raw) -> Raw),
        method!(c"newComputePipelineStateWithDescriptor:options:completionHandler:", c"v@:@Q@?", begin_pipeline, fn(This<Device>, Sel, This<pipeline::Descriptor>, usize, *mut Block)),
        method!(c"newBinaryArchiveWithDescriptor:error:", c"@@:@^@", new_archive, fn(This<Device>, Sel, This<archive::Descriptor>, *mut Raw) -> Raw),
        method!(c"newResidencySetWithDescriptor:error:", c"@@:@^@", residency_set, fn(This<Device>, Sel, This<residency::Descriptor>, *mut Raw) -> Raw),
        method!(c"newIndirectCommandBufferWithDescriptor:maxCommandCount:options:", c"@@:@QQ", indirect_commands, fn(This<Device>, Sel, This<indirect::Descriptor>, usize, usize) -> Raw),
        method!(c"counterSets", c"@@:", counter_sets, fn(This<Device>, Sel) -> Raw),
        method!(c"supportsCounterSampling:", c"C@:Q", supports_sampling, fn(This<Device>, Sel, usize) -> bool),
        method!(c"newCounterSampleBufferWithDescriptor:error:", c"@@:@^@", sample_buffer, fn(This<Device>, Sel, This<counters::Descriptor>, *mut Raw) -> Raw),
        method!(c"sampleTimestamps:gpuTimestamp:", c"v@:^Q^Q", timestamps, fn(This<Device>, Sel, *mut u64, *mut u64)),
    ]
);

class!(
    /// MTLArchitecture.
    ARCHITECTURE, "MTLArchitecture", Architecture,
    [method!(c"name", c"@@:", architecture_name, fn(This<Architecture>, Sel) -> Raw)]
);

/// The one device, as long as somebody holds it.
static CURRENT: Mutex<usize> = Mutex::new(0);

#[unsafe(no_mangle)]
extern "C" fn MTLCreateSystemDefaultDevice() -> Raw {
    if control::absent() {
        return ptr::null_mut();
    }
    let mut current = lock(&CURRENT);
    if *current != 0 {
        // SAFETY: the address of the device, which takes itself out when it goes.
        return unsafe { crate::objc::objc_retain(*current as *mut Header) };
    }
    let device = make(true);
    *current = device.addr();
    device
}

/// A device of its own.
pub fn another_device() -> Raw {
    make(false)
}

fn make(is_default: bool) -> Raw {
    let (paravirtual, concurrent_compilation) = (control::paravirtual(), AtomicBool::new(false));
    new(Device { paravirtual, is_default, concurrent_compilation }).into_raw()
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_default {
            *lock(&CURRENT) = 0;
        }
    }
}

impl Device {
    /// Breaks a rule where a newer feature is used that this device does not have.
    fn has(&self, feature: &str) -> bool {
        if self.paravirtual {
            violation(Rule::NoSuchFeature, format_args!("{feature} on a paravirtual device"));
        }
        !self.paravirtual
    }

    /// Whether a message is one of those that this device or this system does not know. (`shouldMaximizeConcurrentCompilation` came
    /// with macOS 13.3.)
    fn lacks(&self, asked: Sel) -> bool {
        let names =
            ["shouldMaximizeConcurrentCompilation", "setShouldMaximizeConcurrentCompilation:"];
        (self.paravirtual || control::system_version() < (13, 3)) && names.contains(&asked.name())
    }

    /// Breaks a rule where a message is one of those: it would end the process.
    fn knows(&self, asked: Sel) -> bool {
        let lacks = self.lacks(asked);
        if lacks {
            violation(Rule::UnknownMessage, format_args!("-[{} {}]", DEVICE.name(), asked.name()));
        }
        !lacks
    }
}

unsafe extern "C" fn name(this: This<Device>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(if this.paravirtual {
        "Apple Paravirtual device"
    } else {
        "Metal driver on Linux"
    })))
}

unsafe extern "C" fn registry_id(_: This<Device>, _: Sel) -> u64 {
    0x1_0000_0abc
}

/// A device of a virtual machine has none here: nothing says that it has.
unsafe extern "C" fn architecture(this: This<Device>, _: Sel) -> Raw {
    autoreleased((!this.paravirtual).then(|| new(Architecture(()))))
}

unsafe extern "C" fn architecture_name(_: This<Architecture>, _: Sel) -> Raw {
    autoreleased(Some(Text::make("applegpu_g16s")))
}

unsafe extern "C" fn unified(_: This<Device>, _: Sel) -> bool {
    !control::intel()
}

unsafe extern "C" fn no(_: This<Device>, _: Sel) -> bool {
    false
}

/// Apple1 is 1001, Mac2 is 2002, Common3 is 3003, Metal3 is 5001.
unsafe extern "C" fn supports_family(this: This<Device>, _: Sel, family: isize) -> bool {
    if control::intel() {
        return matches!(family, 2002 | 3001..=3003 | 5001);
    }
    let apple = if this.paravirtual { 1005 } else { 1009 };
    (1001..=apple).contains(&family)
        || matches!(family, 2002 | 3001..=3003)
        || family == 5001 && !this.paravirtual
}

unsafe extern "C" fn max_threads(_: This<Device>, _: Sel) -> Size {
    Size { width: 1024, height: 1024, depth: 1024 }
}

unsafe extern "C" fn group_bytes(_: This<Device>, _: Sel) -> usize {
    pipeline::GROUP_BYTES
}

unsafe extern "C" fn max_buffer(_: This<Device>, _: Sel) -> usize {
    MAX_BUFFER
}

unsafe extern "C" fn working_set(_: This<Device>, _: Sel) -> u64 {
    control::working_set() as u64
}

unsafe extern "C" fn allocated(_: This<Device>, _: Sel) -> usize {
    buffer::allocated()
}

unsafe extern "C" fn responds(this: This<Device>, _: Sel, asked: Sel) -> bool {
    DEVICE.find(asked).is_some() && !this.lacks(asked)
}

unsafe extern "C" fn concurrent(this: This<Device>, sel: Sel) -> bool {
    this.knows(sel) && this.concurrent_compilation.load(Ordering::Relaxed)
}

unsafe extern "C" fn set_concurrent(this: This<Device>, sel: Sel, concurrent: bool) {
    if this.knows(sel) {
        this.concurrent_compilation.store(concurrent, Ordering::Relaxed);
    }
}

unsafe extern "C" fn queue(_: This<Device>, _: Sel) -> Raw {
    // Metal's own cap.
    make_queue(64)
}

unsafe extern "C" fn queue_of(_: This<Device>, _: Sel, cap: usize) -> Raw {
    make_queue(cap.max(1))
}

fn make_queue(cap: usize) -> Raw {
    if control::refused(Refusal::Queue) {
        ptr::null_mut()
    } else {
        new(Queue::make(cap)).into_raw()
    }
}

/// A buffer, or null where there is no memory.
fn make_buffer(length: usize, options: usize) -> Option<Id<Buffer>> {
    if length == 0 || length > MAX_BUFFER {
        violation(Rule::BufferLength, format_args!("a buffer of {length} bytes"));
        return None;
    }
    if control::refused(Refusal::Buffer)
        || buffer::allocated() + length > 2 * control::working_set()
    {
        return None;
    }
    Some(new(Buffer::new(Memory::map(length)?, Options(options), None, 0)))
}

unsafe extern "C" fn new_buffer(_: This<Device>, _: Sel, length: usize, options: usize) -> Raw {
    make_buffer(length, options).map_or(ptr::null_mut(), Id::into_raw)
}

unsafe extern "C" fn buffer_of_bytes(
    _: This<Device>,
    _: Sel,
    bytes: *const c_void,
    length: usize,
    options: usize,
) -> Raw {
    let Some(buffer) = make_buffer(length, options) else { return ptr::null_mut() };
    // SAFETY: the caller passes so many bytes, and the buffer has room for them.
    unsafe {
        ptr::copy_nonoverlapping(bytes.cast::<u8>(), buffer.memory.address() as *mut u8, length)
    };
    buffer.into_raw()
}

unsafe extern "C" fn wrapped(
    _: This<Device>,
    _: Sel,
    bytes: *mut c_void,
    length: usize,
    options: usize,
    block: *mut Block,
) -> Raw {
    // Linux has smaller pages than Apple silicon, and a caller gets those of this machine.
    // SAFETY: asks the system for a number.
    let page =
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE).min(PAGE);
    if length == 0 || !bytes.addr().is_multiple_of(page) || !length.is_multiple_of(page) {
        violation(Rule::NoCopyAlignment, format_args!("{length} bytes at {bytes:?}"));
        return ptr::null_mut();
    }
    if control::refused(Refusal::Buffer) {
        return ptr::null_mut();
    }
    // SAFETY: the caller passes null or a block.
    let deallocator = unsafe { BlockRef::copy(block) };
    let memory = Memory::of_caller(bytes.addr(), length, deallocator);
    new(Buffer::new(memory, Options(options), None, 0)).into_raw()
}

unsafe extern "C" fn new_heap(_: This<Device>, _: Sel, descriptor: This<heap::Descriptor>) -> Raw {
    if control::refused(Refusal::Buffer) {
        return ptr::null_mut();
    }
    Heap::make(&descriptor).map_or(ptr::null_mut(), |heap| new(heap).into_raw())
}

unsafe extern "C" fn event(_: This<Device>, _: Sel) -> Raw {
    if control::refused(Refusal::Event) {
        ptr::null_mut()
    } else {
        new(SharedEvent::default()).into_raw()
    }
}

unsafe extern "C" fn fence(_: This<Device>, _: Sel) -> Raw {
    if control::refused(Refusal::Fence) {
        return ptr::null_mut();
    }
    new(Fence::default()).into_raw()
}

unsafe extern "C" fn new_library(
    _: This<Device>,
    _: Sel,
    source: Option<This<Text>>,
    _: Option<This<CompileOptions>>,
    error: *mut Raw,
) -> Raw {
    // SAFETY: the caller passes null or a place.
    unsafe { library::make(source, error) }
}

unsafe extern "C" fn begin_library(
    _: This<Device>,
    _: Sel,
    source: Option<This<Text>>,
    _: Option<This<CompileOptions>>,
    block: *mut Block,
) {
    // SAFETY: the caller passes a block.
    let Some(block) = (unsafe { BlockRef::copy(block) }) else { return };
    library::begin(source, block);
}

unsafe extern "C" fn new_pipeline(
    this: This<Device>,
    _: Sel,
    function: This<Function>,
    error: *mut Raw,
) -> Raw {
    let can = !function.uses_matrices() || this.has("simdgroup matrices");
    // SAFETY: the caller passes null or a place.
    unsafe { pipeline::make(can.then(|| function.retain()), 0, false, error) }
}

unsafe extern "C" fn pipeline_of(
    this: This<Device>,
    _: Sel,
    descriptor: This<pipeline::Descriptor>,
    _: usize,
    _: *mut Raw,
    error: *mut Raw,
) -> Raw {
    // SAFETY: the caller passes null or a place.
    unsafe { pipeline::make_from(descriptor, |feature| this.has(feature), error) }
}

unsafe extern "C" fn begin_pipeline(
    this: This<Device>,
    _: Sel,
    descriptor: This<pipeline::Descriptor>,
    _: usize,
    block: *mut Block,
) {
    // SAFETY: the caller passes a block.
    let Some(block) = (unsafe { BlockRef::copy(block) }) else { return };
    let device = this.retain();
    pipeline::begin(descriptor, move |feature| device.has(feature), block);
}

unsafe extern "C" fn new_archive(
    this: This<Device>,
    _: Sel,
    descriptor: This<archive::Descriptor>,
    error: *mut Raw,
) -> Raw {
    if !this.has("a binary archive") {
        return ptr::null_mut();
    }
    // SAFETY: the caller passes null or a place.
    unsafe { archive::make(descriptor, error) }
}

unsafe extern "C" fn residency_set(
    this: This<Device>,
    _: Sel,
    _: This<residency::Descriptor>,
    error: *mut Raw,
) -> Raw {
    if !this.has("a residency set") || control::refused(Refusal::ResidencySet) {
        let refusal =
            Error::make("MTLResidencySetErrorDomain", 1, "no residency set can be had", None);
        // SAFETY: the caller passes null or a place.
        unsafe { write_error(error, refusal) };
        return ptr::null_mut();
    }
    new(ResidencySet::default()).into_raw()
}

unsafe extern "C" fn indirect_commands(
    this: This<Device>,
    _: Sel,
    descriptor: This<indirect::Descriptor>,
    count: usize,
    _: usize,
) -> Raw {
    if !this.has("an indirect command buffer") || control::refused(Refusal::IndirectCommandBuffer) {
        return ptr::null_mut();
    }
    IndirectCommands::make(descriptor, count)
        .map_or(ptr::null_mut(), |commands| new(commands).into_raw())
}

unsafe extern "C" fn counter_sets(this: This<Device>, _: Sel) -> Raw {
    if this.paravirtual { autoreleased::<Text>(None) } else { counters::sets() }
}

/// At the boundaries of encoders (0), as on Apple's GPUs.
unsafe extern "C" fn supports_sampling(this: This<Device>, _: Sel, point: usize) -> bool {
    point == 0 && !this.paravirtual
}

unsafe extern "C" fn sample_buffer(
    this: This<Device>,
    _: Sel,
    descriptor: This<counters::Descriptor>,
    error: *mut Raw,
) -> Raw {
    let can = this.has("a counter sample buffer") && !control::refused(Refusal::SampleBuffer);
    if can && let Some(made) = counters::SampleBuffer::make(&descriptor) {
        return new(made).into_raw();
    }
    let refusal = Error::make("MTLCounterErrorDomain", 0, "no sample buffer can be had", None);
    // SAFETY: the caller passes null or a place.
    unsafe { write_error(error, refusal) };
    ptr::null_mut()
}

unsafe extern "C" fn timestamps(_: This<Device>, _: Sel, cpu: *mut u64, gpu: *mut u64) {
    let time = (super::now() * 1e9) as u64;
    let ticks = deviates(Deviation::CountsTicks);
    // SAFETY: the caller passes places for both.
    unsafe {
        *cpu = time;
        *gpu = if ticks { time / 1000 * 24 } else { time };
    }
}

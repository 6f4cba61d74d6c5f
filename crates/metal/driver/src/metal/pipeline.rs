//! Compute pipelines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::archive::Archive;
use super::library::Function;
use super::lock;
use crate::control::{self, Refusal};
use crate::foundation::{Array, Error, alloc_default, write_error};
use crate::gpu::{Kernel, Program};
use crate::objc::{Block, BlockRef, Id, Raw, Sel, This, class, method, new, retained};
use crate::rules::{Rule, violation};

/// Group memory of every Apple GPU that the project supports.
pub const GROUP_BYTES: usize = 32 << 10;
/// Threads of a SIMD group.
pub const SIMD_WIDTH: usize = 32;

/// `MTLComputePipelineState`.
pub struct Pipeline {
    pub program: Arc<Program>,
    /// The place of its kernel among the program's. The function itself may go.
    pub index: usize,
    pub max_threads: usize,
    /// Indirect commands may use it.
    pub indirect: bool,
    /// Command buffers that use it and are not through.
    pub in_flight: Arc<AtomicUsize>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            violation(Rule::PipelineReleasedInFlight, format_args!("{}", self.kernel().name));
        }
    }
}

/// `MTLComputePipelineDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    function: Mutex<Option<Id<Function>>>,
    archives: Mutex<Vec<Id<Archive>>>,
    max_threads: AtomicUsize,
    indirect: AtomicBool,
}

impl Descriptor {
    pub fn function(&self) -> Option<Id<Function>> {
        lock(&self.function).clone()
    }
}

class!(
    /// The class of pipelines.
    PIPELINE, "MillstreamComputePipelineState", Pipeline,
    [
        method!(c"maxTotalThreadsPerThreadgroup", c"Q@:", max_threads, fn(This<Pipeline>, Sel) -> usize),
        method!(c"threadExecutionWidth", c"Q@:", width, fn(This<Pipeline>, Sel) -> usize),
        method!(c"staticThreadgroupMemoryLength", c"Q@:", group_bytes, fn(This<Pipeline>, Sel) -> usize),
    ]
);

class!(
    /// MTLComputePipelineDescriptor.
    DESCRIPTOR, "MTLComputePipelineDescriptor", Descriptor,
    [
        method!(c"setComputeFunction:", c"v@:@", set_function, fn(This<Descriptor>, Sel, Option<This<Function>>)),
        method!(c"setMaxTotalThreadsPerThreadgroup:", c"v@:Q", set_max_threads, fn(This<Descriptor>, Sel, usize)),
        method!(c"setThreadGroupSizeIsMultipleOfThreadExecutionWidth:", c"v@:C", set_multiple, fn(This<Descriptor>, Sel, bool)),
        method!(c"setBinaryArchives:", c"v@:@", set_archives, fn(This<Descriptor>, Sel, Option<This<Array>>)),
        method!(c"setSupportIndirectCommandBuffers:", c"v@:C", set_indirect, fn(This<Descriptor>, Sel, bool)),
    ],
    alloc: alloc_default::<Descriptor>
);

impl Pipeline {
    pub fn kernel(&self) -> &Kernel {
        &self.program.kernels[self.index]
    }
}

/// What `newComputePipelineStateWithFunction` does.
///
/// # Safety
///
/// `error` is null or can be written.
pub unsafe fn make(
    function: Option<Id<Function>>,
    wanted_threads: usize,
    indirect: bool,
    error: *mut Raw,
) -> Raw {
    let refuse = |message: &str| {
        // SAFETY: as the caller says.
        unsafe { write_error(error, Error::make("CompilerError", 2, message, None)) };
        std::ptr::null_mut()
    };
    let Some(function) = function else {
        return refuse("a pipeline needs a function that the device can run");
    };
    if control::refused(Refusal::Pipeline) {
        return refuse("the compiler could not allocate memory");
    }
    let kernel = &function.program.kernels[function.kernel];
    let (bytes, own_max) = (kernel.shared_bytes, kernel.max_threads as usize);
    if bytes > GROUP_BYTES {
        violation(
            Rule::GroupMemory,
            format_args!("{} has {bytes} bytes of group memory", kernel.name),
        );
        return refuse("group memory exceeds the limit of the device");
    }
    let max_threads = if wanted_threads == 0 { own_max } else { own_max.min(wanted_threads) };
    let max_threads = max_threads.min(control::max_threads());
    let (program, index) = (Arc::clone(&function.program), function.kernel);
    new(Pipeline { program, index, max_threads, indirect, in_flight: Arc::default() }).into_raw()
}

/// As above, from a descriptor, on a device that has a feature or says that it has not.
///
/// # Safety
///
/// `error` is null or can be written.
pub unsafe fn make_from(
    descriptor: This<Descriptor>,
    has: impl Fn(&str) -> bool,
    error: *mut Raw,
) -> Raw {
    control::wait_for_pipeline();
    let function = descriptor.function();
    let can = |function: &Id<Function>| !function.uses_matrices() || has("simdgroup matrices");
    let function = function.filter(can);
    if let Some(function) = &function
        && lock(&descriptor.archives).iter().any(|archive| archive.has(function))
    {
        control::count_archive_hit();
    }
    let indirect = descriptor.indirect.load(Ordering::Relaxed);
    // SAFETY: as the caller says.
    unsafe { make(function, descriptor.max_threads.load(Ordering::Relaxed), indirect, error) }
}

/// What the call with a handler does: several pipelines are made at once. Says whether the device has a feature as above.
pub fn begin(
    descriptor: This<Descriptor>,
    has: impl Fn(&str) -> bool + Send + 'static,
    handler: BlockRef,
) {
    let descriptor = descriptor.retain();
    std::thread::spawn(move || {
        type Handler = unsafe extern "C" fn(*mut Block, Raw, Raw, Raw);
        crate::objc::with_pool(|| {
            let mut error = std::ptr::null_mut();
            // SAFETY: a place for the error.
            let made = unsafe { make_from(descriptor.this(), has, &mut error) };
            // SAFETY: what was made, or null, with one reference that the pool gives back.
            let pipeline = crate::objc::autorelease(made);
            // SAFETY: a block of this signature, as the method takes it; there is no reflection.
            unsafe {
                let call = std::mem::transmute::<*const (), Handler>(handler.invoke());
                call(handler.as_ptr(), pipeline, std::ptr::null_mut(), error);
            }
        });
    });
}

unsafe extern "C" fn max_threads(this: This<Pipeline>, _: Sel) -> usize {
    this.max_threads
}

unsafe extern "C" fn width(_: This<Pipeline>, _: Sel) -> usize {
    control::simd_width()
}

unsafe extern "C" fn group_bytes(this: This<Pipeline>, _: Sel) -> usize {
    this.kernel().shared_bytes
}

unsafe extern "C" fn set_function(
    this: This<Descriptor>,
    _: Sel,
    function: Option<This<Function>>,
) {
    *lock(&this.function) = retained(function);
}

unsafe extern "C" fn set_max_threads(this: This<Descriptor>, _: Sel, threads: usize) {
    this.max_threads.store(threads, Ordering::Relaxed);
}

/// Every group here is a multiple of the SIMD width, whatever a pipeline says.
unsafe extern "C" fn set_multiple(_: This<Descriptor>, _: Sel, _: bool) {}

unsafe extern "C" fn set_archives(this: This<Descriptor>, _: Sel, archives: Option<This<Array>>) {
    *lock(&this.archives) = archives.map_or_else(Vec::new, |archives| archives.of_class());
}

unsafe extern "C" fn set_indirect(this: This<Descriptor>, _: Sel, indirect: bool) {
    this.indirect.store(indirect, Ordering::Relaxed);
}

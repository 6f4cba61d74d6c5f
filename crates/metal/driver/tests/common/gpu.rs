//! Metal as a program uses it, through objc2-metal: nothing here knows that a driver of our own answers.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use block2::RcBlock;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::*;

pub type Obj<T> = Retained<ProtocolObject<T>>;
pub type Ref<T> = ProtocolObject<T>;

pub const COUNT: usize = 1000;

pub struct Gpu {
    pub device: Obj<dyn MTLDevice>,
    pub library: Obj<dyn MTLLibrary>,
}

// SAFETY: Metal lets any thread use devices and libraries.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

#[repr(C)]
pub struct Params {
    pub count: u32,
    pub factor: f32,
}

pub fn params(factor: f32) -> Params {
    Params { count: COUNT as u32, factor }
}

pub fn size(width: usize) -> MTLSize {
    MTLSize { width, height: 1, depth: 1 }
}

pub fn compile(device: &Ref<dyn MTLDevice>, text: &str) -> Result<Obj<dyn MTLLibrary>, String> {
    let options = MTLCompileOptions::new();
    options.setMathMode(MTLMathMode::Safe);
    device
        .newLibraryWithSource_options_error(&NSString::from_str(text), Some(&options))
        .map_err(|error| error.localizedDescription().to_string())
}

impl Gpu {
    pub fn open() -> Self {
        autoreleasepool(|_| {
            let device = MTLCreateSystemDefaultDevice().expect("a device");
            let library =
                compile(&device, include_str!("kernels.metal")).expect("a text that compiles");
            Self { device, library }
        })
    }

    pub fn pipeline(&self, name: &str) -> Result<Obj<dyn MTLComputePipelineState>, String> {
        autoreleasepool(|_| {
            let function = self
                .library
                .newFunctionWithName(&NSString::from_str(name))
                .ok_or("no such kernel")?;
            self.device
                .newComputePipelineStateWithFunction_error(&function)
                .map_err(|error| error.localizedDescription().to_string())
        })
    }

    pub fn buffer(&self, bytes: usize) -> Obj<dyn MTLBuffer> {
        let options =
            MTLResourceOptions::StorageModeShared | MTLResourceOptions::HazardTrackingModeUntracked;
        self.device.newBufferWithLength_options(bytes, options).expect("a buffer")
    }

    pub fn floats(&self) -> Obj<dyn MTLBuffer> {
        self.buffer(4 * COUNT)
    }
}

pub fn write(buffer: &Ref<dyn MTLBuffer>, seed: usize) -> Vec<f32> {
    let values: Vec<f32> = (0..COUNT).map(|i| ((i * 7 + seed * 13) % 101) as f32).collect();
    // SAFETY: the buffer has room for so many, and the GPU does not use it now.
    unsafe {
        buffer.contents().cast::<f32>().as_ptr().copy_from_nonoverlapping(values.as_ptr(), COUNT)
    };
    values
}

pub fn read(buffer: &Ref<dyn MTLBuffer>) -> Vec<f32> {
    // SAFETY: the GPU is through with it.
    unsafe { std::slice::from_raw_parts(buffer.contents().cast::<f32>().as_ptr(), COUNT) }.to_vec()
}

/// A queue, its timeline, and the fence that orders its encoders.
pub struct Stream {
    pub queue: Obj<dyn MTLCommandQueue>,
    pub event: Obj<dyn MTLSharedEvent>,
    fence: Obj<dyn MTLFence>,
    pub submitted: AtomicU64,
    handled: Arc<AtomicU64>,
    pub error: Arc<AtomicI64>,
}

// SAFETY: Metal lets any thread use queues, events and fences.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub fn new(gpu: &Gpu) -> Self {
        Self {
            queue: gpu.device.newCommandQueueWithMaxCommandBufferCount(64).expect("a queue"),
            event: gpu.device.newSharedEvent().expect("an event"),
            fence: gpu.device.newFence().expect("a fence"),
            submitted: AtomicU64::new(0),
            handled: Arc::default(),
            error: Arc::default(),
        }
    }

    /// Commits what `encode` encodes, after what `waits` names. Gives the value that the event will have.
    pub fn submit(
        &self,
        waits: &[(&Stream, u64)],
        encode: impl FnOnce(&Ref<dyn MTLComputeCommandEncoder>),
    ) -> u64 {
        self.submit_fenced(true, waits, encode)
    }

    /// As above, and without the fence if it says so, which is a mistake.
    pub fn submit_fenced(
        &self,
        fenced: bool,
        waits: &[(&Stream, u64)],
        encode: impl FnOnce(&Ref<dyn MTLComputeCommandEncoder>),
    ) -> u64 {
        let value = self.submitted.fetch_add(1, Ordering::Relaxed) + 1;
        autoreleasepool(|_| {
            let commands =
                self.queue.commandBufferWithUnretainedReferences().expect("a command buffer");
            for (other, value) in waits {
                commands.encodeWaitForEvent_value(ProtocolObject::from_ref(&*other.event), *value);
            }
            let encoder = commands
                .computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent)
                .expect("an encoder");
            if fenced {
                encoder.waitForFence(&self.fence);
            }
            encode(&encoder);
            encoder.updateFence(&self.fence);
            encoder.endEncoding();
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*self.event), value);
            let (handled, error, event) =
                (Arc::clone(&self.handled), Arc::clone(&self.error), self.event.clone());
            let handler = RcBlock::new(move |commands: NonNull<Ref<dyn MTLCommandBuffer>>| {
                // SAFETY: Metal passes a command buffer that lives.
                let commands = unsafe { commands.as_ref() };
                autoreleasepool(|_| {
                    if commands.status() == MTLCommandBufferStatus::Error {
                        error.store(
                            commands.error().map_or(-1, |error| error.code() as i64),
                            Ordering::Release,
                        );
                        event.setSignaledValue(value);
                    }
                });
                handled.fetch_add(1, Ordering::AcqRel);
            });
            // SAFETY: Metal copies the block, and what it holds may go to any thread.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            commands.commit();
        });
        value
    }

    pub fn wait(&self, value: u64) {
        assert!(comes(&self.event, value, 60_000), "the event does not come");
    }

    /// Until all handlers have run. Only then may buffers go.
    pub fn drain(&self) {
        while self.handled.load(Ordering::Acquire) < self.submitted.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}

/// One dispatch of 128 threads a group over all numbers.
pub fn dispatch(
    encoder: &Ref<dyn MTLComputeCommandEncoder>,
    pipeline: &Ref<dyn MTLComputePipelineState>,
    [from, to]: [&Ref<dyn MTLBuffer>; 2],
    params: Params,
    groups: usize,
) {
    encoder.setComputePipelineState(pipeline);
    // SAFETY: the indices are the kernel's, and the caller keeps the buffers.
    unsafe {
        encoder.setBuffer_offset_atIndex(Some(from), 0, 0);
        encoder.setBuffer_offset_atIndex(Some(to), 0, 1);
        encoder.setBytes_length_atIndex(
            NonNull::from(&params).cast::<c_void>(),
            size_of::<Params>(),
            2,
        );
    }
    encoder.dispatchThreadgroups_threadsPerThreadgroup(size(groups), size(128));
}

/// Whether an event comes to a value in time.
pub fn comes(event: &Ref<dyn MTLSharedEvent>, value: u64, milliseconds: u64) -> bool {
    autoreleasepool(|_| event.waitUntilSignaledValue_timeoutMS(value, milliseconds))
}

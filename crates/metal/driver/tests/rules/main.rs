//! Every rule, broken on purpose. A mistake must be noticed by the rule that it breaks.

#[path = "../common/mod.rs"]
mod common;

use std::ptr::NonNull;
use std::time::Duration;

use millstream_metal_driver::control;
use millstream_metal_driver::rules::{self, Rule};
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{AnyObject, ProtocolObject};
use objc2::{class, msg_send};
use objc2_foundation::{NSRange, NSString};
use objc2_metal::*;

use common::alone;
use common::gpu::*;

/// What mistakes are made with.
struct Bench {
    gpu: Gpu,
    queue: Obj<dyn MTLCommandQueue>,
    buffer: Obj<dyn MTLBuffer>,
    scale: Obj<dyn MTLComputePipelineState>,
}

type Mistake = fn(&Bench);

/// Pages that are there as long as this.
struct Pages(NonNull<u8>, usize);

impl Pages {
    fn map(bytes: usize) -> Self {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new pages.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(address, libc::MAP_FAILED);
        Self(NonNull::new(address.cast()).expect("pages"), bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped above with this size.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) };
    }
}

/// What two threads use at once, which is the mistake.
struct Shared<'a>(&'a Ref<dyn MTLResidencySet>);
// SAFETY: the driver is there to notice it.
unsafe impl Sync for Shared<'_> {}

impl Bench {
    fn commands(&self) -> Obj<dyn MTLCommandBuffer> {
        self.queue.commandBuffer().expect("a command buffer")
    }

    /// Encodes and ends, without a commit.
    fn encode(&self, encode: impl FnOnce(&Ref<dyn MTLComputeCommandEncoder>)) {
        let commands = self.commands();
        let encoder = commands.computeCommandEncoder().expect("an encoder");
        encode(&encoder);
        encoder.endEncoding();
    }

    fn set_buffer(&self, encoder: &Ref<dyn MTLComputeCommandEncoder>, offset: usize, index: usize) {
        // SAFETY: the mistake is what is tested, and the driver is there to notice it.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&self.buffer), offset, index) };
    }

    fn set_bytes(&self, encoder: &Ref<dyn MTLComputeCommandEncoder>, bytes: usize, index: usize) {
        let words = [0u8; 8192];
        // SAFETY: as above; there are as many bytes as it says.
        unsafe { encoder.setBytes_length_atIndex(NonNull::from(&words).cast(), bytes, index) };
    }

    /// A dispatch of `scale` with everything bound.
    fn dispatch(&self, groups: usize, threads: usize) {
        self.encode(|encoder| {
            encoder.setComputePipelineState(&self.scale);
            self.set_buffer(encoder, 0, 0);
            self.set_buffer(encoder, 0, 1);
            self.set_bytes(encoder, 8, 2);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(groups), size(threads));
        });
    }

    fn heap(&self, kind: MTLHeapType) -> Obj<dyn MTLHeap> {
        let descriptor = MTLHeapDescriptor::new();
        descriptor.setSize(1 << 16);
        descriptor.setType(kind);
        self.gpu.device.newHeapWithDescriptor(&descriptor).expect("a heap")
    }

    fn residency_set(&self) -> Obj<dyn MTLResidencySet> {
        let descriptor = MTLResidencySetDescriptor::new();
        self.gpu.device.newResidencySetWithDescriptor_error(&descriptor).expect("a residency set")
    }

    /// An indirect command buffer of four dispatches with three buffers each.
    fn indirect(
        &self,
        types: MTLIndirectCommandType,
        inherits: bool,
    ) -> Obj<dyn MTLIndirectCommandBuffer> {
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(types);
        descriptor.setInheritPipelineState(inherits);
        descriptor.setInheritBuffers(inherits);
        descriptor.setMaxKernelBufferBindCount(3);
        let options = MTLResourceOptions::StorageModeShared;
        // SAFETY: a small number.
        let made = unsafe {
            self.gpu.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(
                &descriptor,
                4,
                options,
            )
        };
        made.expect("an indirect command buffer")
    }

    /// One whose first command is a dispatch of `scale`.
    fn indirect_scale(&self) -> Obj<dyn MTLIndirectCommandBuffer> {
        let made = self.indirect(MTLIndirectCommandType::ConcurrentDispatch, false);
        // SAFETY: a command and indices that there are.
        unsafe {
            let command = made.indirectComputeCommandAtIndex(0);
            command.setComputePipelineState(&self.indirect_pipeline(true));
            (0..3).for_each(|index| command.setKernelBuffer_offset_atIndex(&self.buffer, 0, index));
            command.concurrentDispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
        }
        made
    }

    /// A pipeline that lives as long as the process, for indirect commands or not.
    fn indirect_pipeline(&self, indirect: bool) -> Obj<dyn MTLComputePipelineState> {
        let descriptor = MTLComputePipelineDescriptor::new();
        let name = NSString::from_str("scale");
        descriptor.setComputeFunction(self.gpu.library.newFunctionWithName(&name).as_deref());
        descriptor.setSupportIndirectCommandBuffers(indirect);
        let made = self.gpu.device.newComputePipelineStateWithDescriptor_options_reflection_error(
            &descriptor,
            MTLPipelineOption::empty(),
            None,
        );
        let made = made.expect("a pipeline");
        std::mem::forget(made.clone());
        made
    }

    /// Runs commands of an indirect command buffer, after the buffer was declared or without.
    fn execute(&self, indirect: &Ref<dyn MTLIndirectCommandBuffer>, declared: bool, count: usize) {
        self.encode(|encoder| {
            if declared {
                let buffer = ProtocolObject::from_ref(&*self.buffer);
                encoder.useResource_usage(buffer, MTLResourceUsage::Read | MTLResourceUsage::Write);
            }
            let range = NSRange { location: 0, length: count };
            // SAFETY: what is wrong with it is what is tested.
            unsafe { encoder.executeCommandsInBuffer_withRange(indirect, range) };
        });
    }

    fn event(&self) -> Obj<dyn MTLSharedEvent> {
        self.gpu.device.newSharedEvent().expect("an event")
    }

    /// A committed command buffer that uses the buffer, on a queue with a residency set.
    fn use_with_set(&self, add: bool) {
        let queue = self.gpu.device.newCommandQueue().expect("a queue");
        let set = self.residency_set();
        if add {
            set.addAllocation(ProtocolObject::from_ref(&*self.buffer));
        }
        queue.addResidencySet(&set);
        let commands = queue.commandBuffer().expect("a command buffer");
        let encoder = commands.computeCommandEncoder().expect("an encoder");
        self.set_buffer(&encoder, 0, 0);
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
    }
}

/// A mistake for every rule.
fn mistakes() -> Vec<(Rule, Mistake)> {
    vec![
        (Rule::UnknownMessage, |bench| {
            // objc2 checks messages itself in debug builds, so this asks the runtime. Nothing is called.
            let receiver = std::ptr::from_ref(as_any(&bench.buffer)).cast_mut();
            // SAFETY: a living object; the mistake is that it has no such method.
            unsafe { objc2::ffi::objc_msg_lookup(receiver.cast(), objc2::sel!(count)) };
        }),
        (Rule::DeallocatedReceiver, |bench| {
            let gone = bench.gpu.floats();
            let pointer = Retained::as_ptr(&gone);
            drop(gone);
            // SAFETY: it is not, which is the mistake. The driver keeps headers to notice it.
            let _: usize = unsafe { msg_send![&*pointer.cast::<AnyObject>(), length] };
        }),
        (Rule::OverRelease, |bench| {
            let buffer = bench.gpu.floats();
            // SAFETY: a reference too many is given back, which is the mistake.
            unsafe {
                let pointer = Retained::into_raw(buffer).cast::<AnyObject>();
                objc2::ffi::objc_release(pointer.cast());
                objc2::ffi::objc_release(pointer.cast());
            }
        }),
        (Rule::AutoreleaseWithoutPool, |bench| {
            struct Sent(Obj<dyn MTLDevice>);
            // SAFETY: Metal lets any thread use devices.
            unsafe impl Send for Sent {}
            let sent = Sent(bench.gpu.device.clone());
            let thread = std::thread::spawn(move || {
                let sent = sent;
                let _ = sent.0.name();
            });
            thread.join().unwrap();
        }),
        (Rule::ForeignPool, |_| {
            // SAFETY: no pool has this name, which is the mistake.
            std::thread::spawn(|| unsafe {
                objc2::ffi::objc_autoreleasePoolPop(std::ptr::dangling_mut())
            })
            .join()
            .unwrap();
        }),
        (Rule::ObjectsLeft, |_| control::expect_nothing_left(Duration::ZERO)),
        (Rule::SecondEncoder, |bench| {
            let commands = bench.commands();
            let first = commands.computeCommandEncoder().expect("an encoder");
            assert!(commands.computeCommandEncoder().is_none());
            first.endEncoding();
        }),
        (Rule::CommandBufferShared, |bench| {
            struct Both<'a>(Obj<dyn MTLComputeCommandEncoder>, &'a Bench);
            // SAFETY: it is not, which is the mistake.
            unsafe impl Sync for Both<'_> {}
            let commands = bench.commands();
            let both = Both(commands.computeCommandEncoder().expect("an encoder"), bench);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let both = &both;
                    scope.spawn(move || {
                        while rules::count() == 0 {
                            both.0.setComputePipelineState(&both.1.scale);
                        }
                    });
                }
            });
            both.0.endEncoding();
        }),
        (Rule::AfterCommit, |bench| {
            let commands = bench.commands();
            commands.commit();
            commands.commit();
        }),
        (Rule::CommitWithEncoder, |bench| {
            let commands = bench.commands();
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            commands.commit();
            // It cannot be ended any more, which is a second mistake.
            drop(encoder);
        }),
        (Rule::EncoderNotEnded, |bench| drop(bench.commands().computeCommandEncoder())),
        (Rule::AfterEndEncoding, |bench| {
            let commands = bench.commands();
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            encoder.endEncoding();
            encoder.setComputePipelineState(&bench.scale);
        }),
        (Rule::EventInsideEncoder, |bench| {
            let (commands, event) = (bench.commands(), bench.event());
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), 1);
            encoder.endEncoding();
        }),
        (Rule::NothingBound, |bench| {
            bench.encode(|encoder| {
                encoder.setComputePipelineState(&bench.scale);
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
            });
        }),
        (Rule::OffsetOutside, |bench| {
            bench.encode(|encoder| bench.set_buffer(encoder, 4 * COUNT, 0))
        }),
        (Rule::OffsetAlignment, |bench| bench.encode(|encoder| bench.set_buffer(encoder, 2, 0))),
        (Rule::BufferIndex, |bench| bench.encode(|encoder| bench.set_buffer(encoder, 0, 31))),
        (Rule::BytesLength, |bench| bench.encode(|encoder| bench.set_bytes(encoder, 5000, 0))),
        (Rule::NoPipeline, |bench| {
            bench.encode(|encoder| {
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(32))
            });
        }),
        (Rule::TooManyThreads, |bench| bench.dispatch(1, 2048)),
        (Rule::GroupNotMultiple, |bench| bench.dispatch(1, 48)),
        (Rule::EmptyDispatch, |bench| bench.dispatch(0, 32)),
        (Rule::GroupMemory, |bench| assert!(bench.gpu.pipeline("large").is_err())),
        (Rule::BufferReleasedInFlight, |bench| {
            let gone = bench.gpu.floats();
            let commands =
                bench.queue.commandBufferWithUnretainedReferences().expect("a command buffer");
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            // SAFETY: nothing keeps it, which is the mistake.
            unsafe { encoder.setBuffer_offset_atIndex(Some(&gone), 0, 0) };
            encoder.endEncoding();
            drop(gone);
        }),
        (Rule::PipelineReleasedInFlight, |bench| {
            let gone = bench.gpu.pipeline("scale").unwrap();
            let commands =
                bench.queue.commandBufferWithUnretainedReferences().expect("a command buffer");
            // The encoder holds it as long as it lives, and goes with the pool.
            autoreleasepool(|_| {
                let encoder = commands.computeCommandEncoder().expect("an encoder");
                encoder.setComputePipelineState(&gone);
                bench.set_buffer(&encoder, 0, 0);
                bench.set_buffer(&encoder, 0, 1);
                bench.set_bytes(&encoder, 8, 2);
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
                encoder.endEncoding();
            });
            drop(gone);
        }),
        (Rule::PrivateContents, |bench| {
            let private = bench
                .gpu
                .device
                .newBufferWithLength_options(64, MTLResourceOptions::StorageModePrivate)
                .expect("a buffer");
            // SAFETY: asks for an address, and reads nothing there.
            let address: *mut std::ffi::c_void = unsafe { msg_send![as_any(&private), contents] };
            assert!(address.is_null());
        }),
        (Rule::BufferLength, |bench| {
            assert!(
                bench
                    .gpu
                    .device
                    .newBufferWithLength_options(0, MTLResourceOptions::StorageModeShared)
                    .is_none()
            );
        }),
        (Rule::NoCopyAlignment, |bench| {
            let mut bytes = [0u8; 64];
            let (pointer, options) =
                (NonNull::from(&mut bytes[1..]).cast(), MTLResourceOptions::StorageModeShared);
            // SAFETY: not aligned, which is the mistake; nothing is made of it.
            let made = unsafe {
                bench
                    .gpu
                    .device
                    .newBufferWithBytesNoCopy_length_options_deallocator(pointer, 32, options, None)
            };
            assert!(made.is_none());
        }),
        (Rule::NoCopyPagesGone, |bench| {
            let (length, options) = (1 << 14, MTLResourceOptions::StorageModeShared);
            let pages = Pages::map(4 * length);
            let aligned = pages.0.addr().get().next_multiple_of(length) - pages.0.addr().get();
            // SAFETY: they lie in the pages, and the mistake is that these go first.
            let wrapped = unsafe {
                bench.gpu.device.newBufferWithBytesNoCopy_length_options_deallocator(
                    pages.0.add(aligned).cast(),
                    length,
                    options,
                    None,
                )
            };
            drop(pages);
            drop(wrapped.expect("a buffer"));
        }),
        (Rule::NotResident, |bench| bench.use_with_set(false)),
        (Rule::TooManyResidencySets, |bench| {
            let queue = bench.gpu.device.newCommandQueue().expect("a queue");
            for _ in 0..33 {
                queue.addResidencySet(&bench.residency_set());
            }
        }),
        (Rule::ResidencyNotCommitted, |bench| bench.use_with_set(true)),
        (Rule::ResidencySetShared, |bench| {
            let (set, asked) = (bench.residency_set(), std::sync::Barrier::new(2));
            control::set_residency_time(Duration::from_millis(200));
            let shared = Shared(&set);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let shared = &shared;
                    asked.wait();
                    autoreleasepool(|_| shared.0.requestResidency());
                });
                asked.wait();
                std::thread::sleep(Duration::from_millis(50));
                set.commit();
            });
            control::set_residency_time(Duration::ZERO);
        }),
        (Rule::QueueFull, |bench| {
            control::set_queue_timeout(Duration::from_millis(50));
            let small =
                bench.gpu.device.newCommandQueueWithMaxCommandBufferCount(2).expect("a queue");
            let open = [(); 3].map(|()| small.commandBuffer());
            assert!(open[1].is_some() && open[2].is_none());
            control::set_queue_timeout(Duration::from_secs(5));
        }),
        (Rule::WaitBeforeCommit, |bench| bench.commands().waitUntilCompleted()),
        (Rule::EventGoesBack, |bench| {
            let event = bench.event();
            event.setSignaledValue(2);
            event.setSignaledValue(1);
        }),
        (Rule::DivergentBarrier, |bench| {
            let commands = bench.commands();
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            encoder.setComputePipelineState(&bench.gpu.pipeline("divergent").unwrap());
            bench.set_buffer(&encoder, 0, 0);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(64));
            encoder.endEncoding();
            commands.commit();
            commands.waitUntilCompleted();
        }),
        (Rule::CopyOutside, |bench| {
            let commands = bench.commands();
            let encoder = commands.blitCommandEncoder().expect("an encoder");
            let range = NSRange { location: 4 * COUNT - 8, length: 16 };
            encoder.fillBuffer_range_value(&bench.buffer, range, 1);
            encoder.endEncoding();
        }),
        (Rule::FenceOrder, |bench| {
            let fence = bench.gpu.device.newFence().expect("a fence");
            bench.encode(|encoder| {
                encoder.updateFence(&fence);
                encoder.waitForFence(&fence);
            });
        }),
        (Rule::HeapPlacement, |bench| {
            let heap = bench.heap(MTLHeapType::Placement);
            // SAFETY: the offset is not aligned, which is the mistake; nothing is made of it.
            let made = unsafe {
                heap.newBufferWithLength_options_offset(
                    64,
                    MTLResourceOptions::StorageModeShared,
                    3,
                )
            };
            assert!(made.is_none());
        }),
        (Rule::SampleIndex, |bench| {
            let descriptor = MTLCounterSampleBufferDescriptor::new();
            // SAFETY: a small number.
            unsafe { descriptor.setSampleCount(4) };
            let buffer = bench
                .gpu
                .device
                .newCounterSampleBufferWithDescriptor_error(&descriptor)
                .expect("a sample buffer");
            // SAFETY: beyond the end, which is the mistake.
            let _ = unsafe { buffer.resolveCounterRange(NSRange { location: 2, length: 3 }) };
        }),
        (Rule::IndirectIndex, |bench| {
            bench.execute(&bench.indirect_scale(), true, 5);
            let many = bench.indirect(MTLIndirectCommandType::ConcurrentDispatch, false);
            rules::take();
            // SAFETY: beyond the last one, which is the mistake.
            unsafe {
                many.indirectComputeCommandAtIndex(0).setKernelBuffer_offset_atIndex(
                    &bench.buffer,
                    0,
                    3,
                )
            };
        }),
        (Rule::IndirectKind, |bench| {
            let drawing = bench.indirect(MTLIndirectCommandType::Draw, false);
            let inherits = bench.indirect(MTLIndirectCommandType::ConcurrentDispatch, true);
            // SAFETY: a command that there is.
            let [draw, inherits] =
                unsafe { [&drawing, &inherits].map(|made| made.indirectComputeCommandAtIndex(0)) };
            draw.concurrentDispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
            assert_eq!(rules::take().len(), 1);
            inherits.setComputePipelineState(&bench.indirect_pipeline(true));
            assert_eq!(rules::take().len(), 1);
            // SAFETY: an index that there is, where nothing can be set.
            unsafe { inherits.setKernelBuffer_offset_atIndex(&bench.buffer, 0, 0) };
        }),
        (Rule::IndirectPipeline, |bench| {
            let made = bench.indirect(MTLIndirectCommandType::ConcurrentDispatch, false);
            // SAFETY: a command that there is.
            let command = unsafe { made.indirectComputeCommandAtIndex(0) };
            command.setComputePipelineState(&bench.indirect_pipeline(false));
        }),
        (Rule::IndirectNotDeclared, |bench| bench.execute(&bench.indirect_scale(), false, 4)),
        (Rule::IndirectInFlight, |bench| {
            let (made, commands) = (bench.indirect_scale(), bench.commands());
            let encoder = commands.computeCommandEncoder().expect("an encoder");
            let range = NSRange { location: 1, length: 1 };
            // SAFETY: commands that there are; that one is changed while it is used is the mistake.
            unsafe {
                encoder.executeCommandsInBuffer_withRange(&made, range);
                made.indirectComputeCommandAtIndex(1).setBarrier();
            }
            encoder.endEncoding();
        }),
        (Rule::NoSuchFeature, |_| {
            control::set_paravirtual(true);
            let hosted = control::another_device();
            // SAFETY: a device that was just made, with one reference.
            let hosted: Obj<dyn MTLDevice> =
                unsafe { Retained::from_raw(hosted.cast()) }.expect("a device");
            control::set_paravirtual(false);
            assert!(!hosted.supportsFamily(MTLGPUFamily::Apple7));
            assert!(
                hosted
                    .newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new())
                    .is_err()
            );
        }),
        (Rule::StringEncoding, |_| {
            let bytes = [0xff_u8, 0xfe];
            // SAFETY: two bytes that are no UTF-8, which is the mistake.
            let _: Retained<NSString> = unsafe {
                let empty: objc2::rc::Allocated<NSString> = msg_send![class!(NSString), alloc];
                msg_send![empty, initWithBytes: bytes.as_ptr().cast::<std::ffi::c_void>(), length: 2usize, encoding: 4i32]
            };
        }),
    ]
}

fn as_any(object: &Ref<dyn MTLBuffer>) -> &AnyObject {
    // SAFETY: every object is one of any class.
    unsafe { NonNull::from(object).cast().as_ref() }
}

#[test]
fn every_rule_notices_its_mistake() {
    let _alone = alone();
    let gpu = Gpu::open();
    let bench = Bench {
        queue: gpu.device.newCommandQueue().expect("a queue"),
        buffer: gpu.floats(),
        scale: gpu.pipeline("scale").unwrap(),
        gpu,
    };
    let mistakes = mistakes();
    for rule in Rule::ALL {
        let found = mistakes.iter().filter(|(other, _)| other == rule).count();
        assert_eq!(found, 1, "{rule:?} has a mistake of its own");
    }
    for (rule, mistake) in mistakes {
        rules::take();
        autoreleasepool(|_| mistake(&bench));
        let broken = rules::take();
        assert!(broken.iter().any(|violation| violation.rule == rule), "{rule:?}: {broken:?}");
    }
}

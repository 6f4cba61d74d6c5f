//! Work: order, faults, memory.

#[path = "../common/mod.rs"]
mod common;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block2::RcBlock;
use millstream_metal_driver::control::{self, CommandBufferError, Fault, Refusal};
use millstream_metal_driver::rules;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::*;

use common::alone;
use common::gpu::*;

/// No rule was broken, and nothing lives.
fn nothing_is_left() {
    control::expect_nothing_left(Duration::from_secs(20));
    let broken = rules::take();
    assert!(broken.is_empty(), "{broken:?}");
}

const GROUPS: usize = COUNT.div_ceil(128);

/// Streams of several threads, two dispatches with a barrier between them.
fn threads(gpu: &Gpu, threads: usize, calls: usize) {
    let (scale, total) = (gpu.pipeline("scale").unwrap(), gpu.pipeline("total").unwrap());
    struct Pipelines(Obj<dyn MTLComputePipelineState>, Obj<dyn MTLComputePipelineState>);
    // SAFETY: Metal lets any thread use pipelines.
    unsafe impl Sync for Pipelines {}
    let pipelines = &Pipelines(scale, total);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let stream = Stream::new(gpu);
                let [a, b, c] = [(); 3].map(|()| gpu.floats());
                for call in 0..calls {
                    let values = write(&a, thread * 1000 + call);
                    let done = stream.submit(&[], |encoder| {
                        dispatch(encoder, &pipelines.0, [&a, &b], params(2.0), GROUPS);
                        encoder.memoryBarrierWithScope(MTLBarrierScope::Buffers);
                        dispatch(encoder, &pipelines.1, [&b, &c], params(0.0), 1);
                    });
                    stream.wait(done);
                    let sum: f32 = values.iter().map(|x| 2.0 * x).sum();
                    assert_eq!(read(&c)[0], sum, "thread {thread}, call {call}");
                }
                stream.drain();
            });
        }
    });
}

/// Passes numbers from queue to queue. Gives how many rounds were wrong.
fn relay(gpu: &Gpu, rounds: usize, ordered: bool) -> usize {
    let scale = gpu.pipeline("scale").unwrap();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(gpu)).collect();
    let buffers: Vec<_> = (0..4).map(|_| gpu.floats()).collect();
    let mut wrong = 0;
    for round in 0..rounds {
        let values = write(&buffers[0], round);
        let mut last = 0;
        for step in 0..3 {
            let waits = [(&streams[(step + 2) % 3], last)];
            let waits = if ordered && step > 0 { &waits[..] } else { &[] };
            last = streams[step].submit(waits, |encoder| {
                dispatch(
                    encoder,
                    &scale,
                    [&buffers[step], &buffers[step + 1]],
                    params(1.5),
                    GROUPS,
                );
            });
        }
        streams.iter().for_each(|stream| stream.wait(stream.submitted.load(Ordering::Relaxed)));
        let found = read(&buffers[3]);
        wrong += usize::from(values.iter().zip(&found).any(|(x, y)| x * 1.5 * 1.5 * 1.5 != *y));
    }
    streams.iter().for_each(Stream::drain);
    wrong
}

#[test]
fn threads_get_their_own_answers_with_any_seed() {
    let _alone = alone();
    let gpu = Gpu::open();
    for seed in 0..4 {
        control::set_seed(seed);
        threads(&gpu, 4, 6);
        assert_eq!(relay(&gpu, 10, true), 0, "seed {seed}");
    }
    control::set_seed(0);
    drop(gpu);
    nothing_is_left();
}

#[test]
fn queues_that_nobody_orders_give_wrong_answers() {
    let _alone = alone();
    let gpu = Gpu::open();
    control::set_seed(5);
    assert!(
        relay(&gpu, 20, false) > 0,
        "three queues ran one after the other by chance, twenty times"
    );
    control::set_seed(0);
    drop(gpu);
    nothing_is_left();
}

/// Two dispatches of one encoder, the second of which reads what the first writes.
fn dependent_dispatches(gpu: &Gpu, barrier: bool) -> usize {
    let scale = gpu.pipeline("scale").unwrap();
    let stream = Stream::new(gpu);
    let [a, b, c] = [(); 3].map(|()| gpu.floats());
    let mut wrong = 0;
    for round in 0..30 {
        let values = write(&a, round);
        let done = stream.submit(&[], |encoder| {
            dispatch(encoder, &scale, [&a, &b], params(3.0), GROUPS);
            if barrier {
                encoder.memoryBarrierWithScope(MTLBarrierScope::Buffers);
            }
            dispatch(encoder, &scale, [&b, &c], params(2.0), GROUPS);
        });
        stream.wait(done);
        wrong += usize::from(values.iter().zip(&read(&c)).any(|(x, y)| x * 6.0 != *y));
    }
    stream.drain();
    wrong
}

#[test]
fn dispatches_between_barriers_run_in_any_order() {
    let _alone = alone();
    let gpu = Gpu::open();
    control::set_seed(9);
    assert_eq!(dependent_dispatches(&gpu, true), 0);
    assert!(dependent_dispatches(&gpu, false) > 0, "no order was other than that of the text");
    control::set_seed(0);
    drop(gpu);
    nothing_is_left();
}

#[test]
fn a_failed_command_buffer_tells_its_handler_and_signals_nothing() {
    let _alone = alone();
    let gpu = Gpu::open();
    let scale = gpu.pipeline("scale").unwrap();
    let stream = Stream::new(&gpu);
    let [a, b] = [(); 2].map(|()| gpu.floats());
    write(&a, 1);
    for (fault, code) in [
        (Fault::Fail(CommandBufferError::Timeout, Some(2)), 2),
        (Fault::FailHalfway(CommandBufferError::PageFault), 3),
        (Fault::Fail(CommandBufferError::OutOfMemory, None), 8),
    ] {
        control::fault_next(fault.clone());
        let submit = || {
            stream.submit(&[], |encoder| dispatch(encoder, &scale, [&a, &b], params(1.0), GROUPS))
        };
        stream.wait(submit());
        assert_eq!(stream.error.swap(0, Ordering::AcqRel), code, "{fault:?}");
        stream.wait(submit());
        assert_eq!(
            (stream.error.load(Ordering::Acquire), read(&a)),
            (0, read(&b)),
            "later work runs"
        );
    }
    control::fault_next(Fault::Hang(Duration::from_millis(20)));
    let late =
        stream.submit(&[], |encoder| dispatch(encoder, &scale, [&a, &b], params(1.0), GROUPS));
    assert!(!comes(&stream.event, late, 0));
    stream.wait(late);
    control::set_lost(true);
    stream.wait(
        stream.submit(&[], |encoder| dispatch(encoder, &scale, [&a, &b], params(1.0), GROUPS)),
    );
    assert_eq!(stream.error.load(Ordering::Acquire), 11);
    control::set_lost(false);
    stream.drain();
    drop((a, b, stream, scale, gpu));
    nothing_is_left();
}

#[test]
fn what_cannot_be_had_is_none_or_an_error() {
    let _alone = alone();
    let gpu = Gpu::open();
    control::refuse_next(Refusal::Queue);
    assert!(gpu.device.newCommandQueue().is_none());
    control::refuse_next(Refusal::Buffer);
    assert!(
        gpu.device.newBufferWithLength_options(64, MTLResourceOptions::StorageModeShared).is_none()
    );
    control::refuse_next(Refusal::Event);
    assert!(gpu.device.newSharedEvent().is_none());
    control::refuse_next(Refusal::Pipeline);
    assert!(gpu.pipeline("scale").unwrap_err().contains("memory"));
    autoreleasepool(|_| {
        control::refuse_next(Refusal::Library);
        assert!(compile(&gpu.device, "").unwrap_err().contains("interrupted"));
        let error = compile(
            &gpu.device,
            "kernel void bad(device float* x [[buffer(0)]]) { x[0] = nonsense(1); }",
        )
        .unwrap_err();
        assert!(error.contains("nonsense"), "{error}");
        let error = compile(
            &gpu.device,
            "#include <metal_stdlib>\nkernel void bad(device double* x [[buffer(0)]]) {}",
        )
        .unwrap_err();
        assert!(error.contains("double_is_not_a_type_of_metal"), "{error}");
    });
    control::set_absent(true);
    assert!(MTLCreateSystemDefaultDevice().is_none());
    control::set_absent(false);
    drop(gpu);
    nothing_is_left();
}

#[test]
fn memory_begins_as_garbage_and_subnormal_numbers_are_flushed() {
    let _alone = alone();
    let gpu = Gpu::open();
    let stream = Stream::new(&gpu);
    let [a, b] = [(); 2].map(|()| gpu.floats());
    assert!(read(&a).iter().all(|x| *x != 0.0));
    let scale = gpu.pipeline("scale").unwrap();
    // SAFETY: the buffer has room, and the GPU does not use it.
    unsafe { a.contents().cast::<f32>().as_ptr().write_bytes(0, COUNT) };
    // SAFETY: as above. A subnormal number, and one whose product is.
    unsafe {
        a.contents().cast::<f32>().as_ptr().write(f32::from_bits(1 << 20));
        a.contents().cast::<f32>().as_ptr().add(1).write(f32::MIN_POSITIVE);
    }
    stream.wait(
        stream.submit(&[], |encoder| dispatch(encoder, &scale, [&a, &b], params(0.5), GROUPS)),
    );
    assert_eq!(read(&b)[..2], [0.0, 0.0]);
    // Group memory that nobody wrote is garbage in every run.
    let unwritten = gpu.pipeline("unwritten").unwrap();
    for _ in 0..3 {
        let done = stream.submit(&[], |encoder| {
            encoder.setComputePipelineState(&unwritten);
            // SAFETY: the kernel's index, and a buffer that outlives the work.
            unsafe { encoder.setBuffer_offset_atIndex(Some(&b), 0, 0) };
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
        });
        stream.wait(done);
        assert!(read(&b)[..32].iter().all(|x| x.to_bits() != 0), "{:?}", &read(&b)[..32]);
    }
    stream.drain();
    drop((a, b, stream, scale, unwritten, gpu));
    nothing_is_left();
}

/// An archive of a file, or an empty one.
fn archive(gpu: &Gpu, path: Option<&std::path::Path>) -> Result<Obj<dyn MTLBinaryArchive>, String> {
    let descriptor = MTLBinaryArchiveDescriptor::new();
    let url = |path: &std::path::Path| {
        NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()))
    };
    descriptor.setUrl(path.map(url).as_deref());
    gpu.device
        .newBinaryArchiveWithDescriptor_error(&descriptor)
        .map_err(|error| error.localizedDescription().to_string())
}

#[test]
fn an_archive_has_the_kernels_that_were_added_and_is_for_one_system() {
    let _alone = alone();
    let gpu = Gpu::open();
    let path = std::env::temp_dir().join(format!("driver-archive-{}", std::process::id()));
    autoreleasepool(|_| {
        let describe = |name: &str| {
            let function = gpu.library.newFunctionWithName(&NSString::from_str(name)).unwrap();
            let descriptor = MTLComputePipelineDescriptor::new();
            descriptor.setComputeFunction(Some(&function));
            descriptor
        };
        let new = archive(&gpu, None).unwrap();
        new.addComputePipelineFunctionsWithDescriptor_error(&describe("scale")).unwrap();
        let empty = MTLComputePipelineDescriptor::new();
        assert!(new.addComputePipelineFunctionsWithDescriptor_error(&empty).is_err());
        let url = NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()));
        new.serializeToURL_error(&url).unwrap();
        let stored = archive(&gpu, Some(&path)).unwrap();
        let hits = |name: &str, archive: &Obj<dyn MTLBinaryArchive>| {
            let (before, descriptor) = (control::archive_hits(), describe(name));
            descriptor.setBinaryArchives(Some(&NSArray::from_slice(&[&**archive])));
            let made = gpu.device.newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                MTLPipelineOption::empty(),
                None,
            );
            made.unwrap();
            control::archive_hits() - before
        };
        assert_eq!((hits("scale", &stored), hits("total", &stored)), (1, 0));
        control::set_system_version(14, 0);
        let foreign = archive(&gpu, Some(&path)).unwrap_err();
        control::set_system_version(15, 0);
        assert!(foreign.contains("another system"), "{foreign}");
        std::fs::write(&path, [0xff; 100]).unwrap();
        assert!(archive(&gpu, Some(&path)).is_err());
        std::fs::write(&path, "something else").unwrap();
        assert!(archive(&gpu, Some(&path)).unwrap_err().contains("not an archive"));
        std::fs::remove_file(&path).unwrap();
        assert!(archive(&gpu, Some(&path)).is_err());
        control::refuse_next(Refusal::Archive);
        assert!(archive(&gpu, None).is_err());
        control::refuse_next(Refusal::ArchiveFile);
        assert!(new.serializeToURL_error(&url).is_err());
    });
    drop(gpu);
    nothing_is_left();
}

/// The event comes before the command buffer is through, and the handler may come after `waitUntilCompleted` has returned. Both are seen
/// sooner or later.
#[test]
fn events_come_early_and_handlers_come_late() {
    let _alone = alone();
    let gpu = Gpu::open();
    control::set_seed(11);
    let queue = gpu.device.newCommandQueue().expect("a queue");
    let event = gpu.device.newSharedEvent().expect("an event");
    let handled = Arc::<AtomicU64>::default();
    let (mut early, mut late, mut round) = (false, false, 0);
    while !(early && late) {
        round += 1;
        autoreleasepool(|_| {
            let commands = queue.commandBuffer().expect("a command buffer");
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&*event), round);
            let own = Arc::clone(&handled);
            let handler = RcBlock::new(move |_: NonNull<Ref<dyn MTLCommandBuffer>>| {
                own.store(round, Ordering::Release);
            });
            // SAFETY: Metal copies the block, and what it holds may go to any thread.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            commands.commit();
            assert!(comes(&event, round, 60_000));
            early |= commands.status() < MTLCommandBufferStatus::Completed;
            commands.waitUntilCompleted();
            late |= handled.load(Ordering::Acquire) < round;
        });
    }
    while handled.load(Ordering::Acquire) < round {
        std::thread::yield_now();
    }
    control::set_seed(0);
    drop((queue, event, gpu));
    nothing_is_left();
}

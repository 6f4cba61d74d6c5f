//! A deadline bounds what a waiting thread executes, on devices whose workers start when a test says so.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::profiler::{Activity, ThreadLabel};
use millstream_core::{
    Activation, BinaryOp, Buffer, Command, Config, DType, Device, Error, Layout, Scalar, Stream,
};

use crate::backend::CpuBackend;
use crate::engine::Engine;

/// Far too short for [`LARGE`] elements, whatever the machine.
const SHORT: Duration = Duration::from_millis(2);

/// Elements that take longer at the speed that is counted on, and milliseconds in truth.
const LARGE: usize = 4 << 20;

fn device_without_workers() -> (Device, Arc<Engine>, Stream) {
    let engine = Engine::new(2, false, false);
    let backend = Box::new(CpuBackend::without_workers(Arc::clone(&engine)));
    let device = Device::with_backend(backend, Config::default()).unwrap();
    (device, engine, Stream::new(&device).unwrap())
}

fn filled(stream: &Stream, elements: usize, value: f32) -> (Buffer, Layout) {
    let layout = Layout::contiguous(DType::F32, &[elements]).unwrap();
    let buffer = stream.allocate(layout.dense_bytes()).unwrap();
    let command = Command::fill(buffer.operand(layout), Scalar::from(value)).unwrap();
    stream.record(command).unwrap();
    (buffer, layout)
}

fn add_one(stream: &Stream, buffer: &Buffer, layout: Layout, ones: &Buffer) {
    let (to, ones) = (buffer.operand(layout), ones.operand(layout));
    stream.record(Command::binary(BinaryOp::Add, to, to, ones).unwrap()).unwrap();
}

/// Waits until the stream is through, without executing anything.
fn poll_until_through(stream: &Stream) {
    while !stream.query().unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn usual_work_is_executed_by_the_caller() {
    let (_, _, stream) = device_without_workers();
    let (buffer, layout) = filled(&stream, LARGE, 3.0);
    add_one(&stream, &buffer, layout, &buffer);
    // There is nobody else who could.
    let values = stream.download(buffer.operand(layout)).unwrap().read::<f32>().unwrap();
    assert!(values.iter().all(|&value| value == 6.0));
}

#[test]
fn a_caller_that_has_no_time_leaves_large_work_to_a_worker() {
    let (device, engine, stream) = device_without_workers();
    device.profiler().start();
    let (buffer, layout) = filled(&stream, LARGE, 3.0);
    let error = stream.synchronize_within(SHORT).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(!stream.query().unwrap(), "nobody has executed it");
    // It was handed over: a worker that comes now finds it, though nobody asks for it any more.
    let workers = engine.start_workers(1).unwrap();
    poll_until_through(&stream);
    let traces = device.profiler().take();
    let batches: Vec<_> = traces.iter().flat_map(|trace| &trace.batches).collect();
    let executed: Vec<_> =
        batches.iter().filter(|batch| batch.activity == Activity::Execute).collect();
    assert_eq!(executed.len(), 1);
    assert!(executed[0].thread != ThreadLabel::current());
    let values = stream.download(buffer.operand(layout)).unwrap().read::<f32>().unwrap();
    assert!(values.iter().all(|&value| value == 3.0));
    engine.stop_workers(workers);
}

/// The first Commands of the batch are executed once, by the caller, and the rest by a worker.
#[test]
fn a_batch_is_taken_up_where_it_was_left() {
    let (_, engine, stream) = device_without_workers();
    let (small, layout) = filled(&stream, 16, 1.0);
    let (ones, _) = filled(&stream, 16, 1.0);
    stream.synchronize().unwrap();
    add_one(&stream, &small, layout, &ones);
    let (large, large_layout) = filled(&stream, LARGE, 5.0);
    add_one(&stream, &small, layout, &ones);
    for _ in 0..3 {
        // Ever again somebody asks who has no time.
        let error = stream.synchronize_within(SHORT).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
    let workers = engine.start_workers(1).unwrap();
    poll_until_through(&stream);
    let read = |buffer: &Buffer, layout| {
        stream.download(buffer.operand(layout)).unwrap().read::<f32>().unwrap()
    };
    assert_eq!(read(&small, layout), [3.0; 16]);
    assert!(read(&large, large_layout).iter().all(|&value| value == 5.0));
    engine.stop_workers(workers);
}

/// Bound: the work of one Command.
#[test]
fn a_command_of_more_work_than_anybody_waits_for_is_refused() {
    let (_, _, stream) = device_without_workers();
    let (ones, _) = filled(&stream, 1, 1.0);
    let (out, cell) =
        (stream.allocate(4).unwrap(), Layout::contiguous(DType::F32, &[1, 1]).unwrap());
    let product = |k: usize| {
        // One number, as often as it takes.
        let repeated = |shape: [usize; 2]| Layout::strided(DType::F32, &shape, &[0, 0], 0).unwrap();
        let (a, b) = (ones.operand(repeated([1, k])), ones.operand(repeated([k, 1])));
        let to = out.operand(cell);
        stream.record(Command::matmul(to, a, b, None, None, 1.0, Activation::None).unwrap())
    };
    product(1 << 10).unwrap();
    let error = product(1 << 45).unwrap_err();
    assert!(matches!(error, Error::Invalid { op: "matmul", .. }), "{error}");
    let read = stream.download(out.operand(cell)).unwrap().read::<f32>().unwrap();
    assert_eq!(read, [1024.0]);
}

#[test]
fn a_worker_that_cannot_be_started_leaves_none_behind() {
    let engine = Engine::new(4, false, false);
    let start = |worker: usize| {
        if worker == 2 {
            return Err(std::io::Error::other("no more threads"));
        }
        let engine = Arc::clone(&engine);
        std::thread::Builder::new().spawn(move || engine.work(worker))
    };
    let error = engine.start_workers_by(4, start).unwrap_err();
    assert!(error.to_string().contains("no more threads"), "{error}");
    assert_eq!(Arc::strong_count(&engine), 1, "the threads that were started have ended");
}

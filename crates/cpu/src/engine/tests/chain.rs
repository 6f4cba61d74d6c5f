//! Streams that wait for each other, on devices whose workers start when a test says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::{BinaryOp, Buffer, Command, Config, DType, Device, Error, Layout, Stream};

use crate::backend::CpuBackend;
use crate::engine::Engine;

/// A guard against a hang, far above what any machine takes.
const LONG: Duration = Duration::from_secs(20);

fn device_without_workers() -> (Device, Arc<Engine>) {
    let engine = Engine::new(2, false, false);
    let backend = Box::new(CpuBackend::without_workers(Arc::clone(&engine)));
    (Device::with_backend(backend, Config::default()).unwrap(), engine)
}

fn row(dtype: DType) -> Layout {
    Layout::contiguous(dtype, &[4]).unwrap()
}

fn double(stream: &Stream, from: &Buffer) -> Buffer {
    let to = stream.allocate(16).unwrap();
    let [to_all, from] = [&to, from].map(|buffer| buffer.operand(row(DType::F32)));
    stream.record(Command::binary(BinaryOp::Add, to_all, from, from).unwrap()).unwrap();
    to
}

fn read(stream: &Stream, buffer: &Buffer) -> Result<Vec<f32>, Error> {
    stream.download(buffer.operand(row(DType::F32)))?.read()
}

/// Each stream waits for the next, and the only worker comes to the first of them first: it has to come back to
/// each when the one behind it is through. Nobody waits, so nobody else executes anything.
#[test]
fn a_chain_that_nobody_waits_for_is_executed_in_order() {
    let (device, engine) = device_without_workers();
    let streams = [(); 3].map(|()| Stream::new(&device).unwrap());
    let mut value = streams[2].allocate(16).unwrap();
    let fill = Command::fill(value.operand(row(DType::F32)), 1.0f32).unwrap();
    streams[2].record(fill).unwrap();
    for stream in streams.iter().rev() {
        value = double(stream, &value);
        stream.flush().unwrap();
    }
    // They became ready from the last to the first.
    while engine.idle_workers.take_ready().is_some() {}
    streams.iter().for_each(|stream| engine.idle_workers.notify(stream.id()));
    let workers = engine.start_workers(1).unwrap();
    let started = Instant::now();
    while !streams[0].query().unwrap() && started.elapsed() < LONG {
        std::thread::yield_now();
    }
    assert!(streams[0].query().unwrap(), "nobody came back to a stream that was blocked");
    assert_eq!(read(&streams[0], &value).unwrap(), [8.0; 4]);
    engine.stop_workers(workers);
}

#[test]
fn what_reads_a_failed_value_fails_with_it_and_nothing_else_does() {
    let (device, _) = device_without_workers();
    let (here, there) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let matrix = |rows| Layout::contiguous(DType::F32, &[rows, 4]).unwrap();
    let table = here.allocate(48).unwrap();
    here.record(Command::fill(table.operand(matrix(3)), 2.0f32).unwrap()).unwrap();
    let (found, at) = (here.allocate(16).unwrap(), here.allocate(8).unwrap());
    let one = Layout::contiguous(DType::I64, &[1]).unwrap();
    here.upload(at.operand(one), &[3i64]).unwrap();
    let (to, index) = (found.operand(matrix(1)), at.operand(one));
    here.record(Command::embedding(to, table.operand(matrix(3)), index).unwrap()).unwrap();
    let good = double(&here, &table);
    let bad = double(&there, &double(&here, &found));
    for (stream, value) in [(&here, &found), (&there, &bad)] {
        let error = read(stream, value).unwrap_err();
        assert!(matches!(error, Error::Fault { command: "embedding", .. }), "{error}");
    }
    assert_eq!(read(&here, &good).unwrap(), [4.0; 4]);
}

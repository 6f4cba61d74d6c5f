//! Long calls that would have to wait are executed by workers, one after the other. The test is the worker.

use std::sync::Arc;
use std::thread::scope;
use std::time::Duration;

use millstream_core::{Buffer, Command, Config, DType, Device, Error, Layout, Scalar, Stream};

use crate::admission::Permit;
use crate::backend::CpuBackend;
use crate::engine::Engine;

/// A device of one core whose workers are the test.
fn device(has_spare: bool) -> (Device, Arc<Engine>) {
    let engine = Engine::new(1, has_spare, false);
    let backend = Box::new(CpuBackend::without_workers(Arc::clone(&engine)));
    (Device::with_backend(backend, Config::default()).unwrap(), engine)
}

/// A value of a new stream that is computed when somebody asks for it. The calls of the stream have been long.
fn long_call(device: &Device, engine: &Engine, value: f32) -> (Stream, Buffer) {
    let stream = Stream::new(device).unwrap();
    let buffer = stream.allocate(16).unwrap();
    stream.record(Command::fill(buffer.operand(row()), Scalar::from(value)).unwrap()).unwrap();
    (0..8).for_each(|_| engine.admission.note(stream.id(), u64::MAX));
    (stream, buffer)
}

fn row() -> Layout {
    Layout::contiguous(DType::F32, &[4]).unwrap()
}

fn read(stream: &Stream, buffer: &Buffer) -> Vec<f32> {
    stream.download(buffer.operand(row())).unwrap().read().unwrap()
}

/// The only permit, in the hands of a stream that nobody has.
fn the_permit(engine: &Engine) -> Permit {
    engine.admission.enter_now(63).unwrap()
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn a_long_call_that_would_wait_is_left_to_a_worker() {
    let (device, engine) = device(false);
    let (stream, buffer) = long_call(&device, &engine, 3.0);
    let permit = the_permit(&engine);
    scope(|scope| {
        let caller = scope.spawn(|| read(&stream, &buffer));
        until(|| engine.idle_workers.any_ready());
        assert!(!engine.admission.has_waiters(), "it stands in line as well");
        engine.admission.give_back(permit);
        let ready = engine.idle_workers.take_ready().unwrap();
        engine.run_streams(ready);
        assert_eq!(caller.join().unwrap(), [3.0; 4]);
    });
    assert_eq!(engine.free_cores(), 1);
}

#[test]
fn a_short_call_stands_in_line() {
    let (device, engine) = device(false);
    let (stream, buffer) = long_call(&device, &engine, 3.0);
    (0..8).for_each(|_| engine.admission.note(stream.id(), 0));
    let permit = the_permit(&engine);
    scope(|scope| {
        let caller = scope.spawn(|| read(&stream, &buffer));
        until(|| engine.admission.has_waiters());
        assert!(!engine.idle_workers.any_ready());
        engine.admission.give_back(permit);
        assert_eq!(caller.join().unwrap(), [3.0; 4]);
    });
}

#[test]
fn a_long_call_that_need_not_wait_is_executed_by_its_caller() {
    let (device, engine) = device(false);
    let (stream, buffer) = long_call(&device, &engine, 3.0);
    // There is nobody else who could.
    assert_eq!(read(&stream, &buffer), [3.0; 4]);
    assert!(!engine.idle_workers.any_ready());
}

#[test]
fn the_spare_permit_is_for_a_long_call_only_if_nobody_waits() {
    let (device, engine) = device(true);
    let (first, value) = long_call(&device, &engine, 3.0);
    let (second, other) = long_call(&device, &engine, 4.0);
    let permit = the_permit(&engine);
    assert_eq!(read(&first, &value), [3.0; 4], "by its caller, who is the only one");
    engine.idle_workers.notify(60);
    scope(|scope| {
        let caller = scope.spawn(|| read(&second, &other));
        until(|| engine.idle_workers.is_ready(second.id()));
        assert_eq!(engine.idle_workers.take_ready(), Some(60));
        engine.admission.give_back(permit);
        engine.run_streams(engine.idle_workers.take_ready().unwrap());
        assert_eq!(caller.join().unwrap(), [4.0; 4]);
    });
    assert_eq!(engine.free_cores(), 1);
}

/// It keeps its permit: none of the callers has to be handed one.
#[test]
fn a_worker_goes_on_with_the_next_long_call() {
    let (device, engine) = device(false);
    let calls = [1.0, 2.0, 3.0].map(|value| long_call(&device, &engine, value));
    let permit = the_permit(&engine);
    scope(|scope| {
        let callers = calls.each_ref().map(|(stream, buffer)| {
            let caller = scope.spawn(|| read(stream, buffer));
            until(|| engine.idle_workers.is_ready(stream.id()));
            caller
        });
        engine.admission.give_back(permit);
        let first = engine.idle_workers.take_ready().unwrap();
        engine.run_streams(first);
        let answers = callers.map(|caller| caller.join().unwrap()[0]);
        assert_eq!(answers, [1.0, 2.0, 3.0]);
    });
}

/// Who stands in line came first.
#[test]
fn a_worker_gives_its_permit_to_who_stands_in_line() {
    let (device, engine) = device(false);
    let calls = [1.0, 2.0].map(|value| long_call(&device, &engine, value));
    for (stream, _) in &calls {
        stream.flush().unwrap();
    }
    let permit = the_permit(&engine);
    scope(|scope| {
        let worker = scope.spawn(|| {
            engine.run_streams(engine.idle_workers.take_ready().unwrap());
        });
        until(|| engine.admission.has_waiters());
        let waiter = scope.spawn(|| {
            let permit = engine.admission.enter_worker().unwrap();
            let still_ready = engine.idle_workers.any_ready();
            engine.admission.give_back(permit);
            still_ready
        });
        until(|| engine.admission.waiters() == 2);
        engine.admission.give_back(permit);
        worker.join().unwrap();
        assert!(waiter.join().unwrap(), "the worker went on though somebody stood in line");
    });
    engine.run_streams(engine.idle_workers.take_ready().unwrap());
    for ((stream, buffer), value) in calls.iter().zip([1.0, 2.0]) {
        assert_eq!(read(stream, buffer), [value; 4]);
    }
}

#[test]
fn a_long_call_whose_time_is_over_is_not_lost() {
    let (device, engine) = device(false);
    let (stream, buffer) = long_call(&device, &engine, 3.0);
    let permit = the_permit(&engine);
    let error = stream.synchronize_within(Duration::from_millis(2)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    engine.admission.give_back(permit);
    engine.run_streams(engine.idle_workers.take_ready().unwrap());
    assert!(stream.query().unwrap());
    assert_eq!(read(&stream, &buffer), [3.0; 4]);
}

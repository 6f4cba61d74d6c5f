//! Tasks: the watcher wakes them, and nobody waits for them.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

use millstream_core::{Error, HealthState};

use crate::kit::{BAD, Gpu, Layer, Table, deadly, filled, read};

/// The thread that runs a task, and how often the task was woken.
struct Executor {
    thread: Thread,
    wakes: AtomicUsize,
}

impl Wake for Executor {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Polls a task until it is ready, and sleeps between wakes. `asleep` is called after the first poll.
fn run<F: IntoFuture>(future: F, asleep: impl FnOnce()) -> (F::Output, usize) {
    let thread = std::thread::current();
    let executor = Arc::new(Executor { thread, wakes: AtomicUsize::new(0) });
    let waker = Arc::clone(&executor).into();
    let mut future = pin!(future.into_future());
    let mut asleep = Some(asleep);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (output, executor.wakes.load(Ordering::Relaxed));
        }
        if let Some(asleep) = asleep.take() {
            asleep();
        }
        std::thread::park();
    }
}

#[test]
fn a_task_sleeps_until_its_batch_is_through() {
    for seed in 1..=10 {
        let gpu = Gpu::with_seed(seed);
        let stream = gpu.stream();
        let layer = Layer::new(&stream);
        stream.synchronize().unwrap();
        for call in 0..5 {
            gpu.hold();
            let input = Layer::input(call);
            let download = layer.start(&stream, &input).unwrap();
            let (output, wakes) = run(download, || gpu.release());
            let values: Vec<f32> = output.unwrap().read().unwrap();
            assert_eq!(values, Layer::expected(&input), "seed {seed}, call {call}");
            assert!(wakes >= 1, "nobody else waits for it");
        }
    }
}

#[test]
fn a_task_gets_the_fault_of_what_it_waits_for() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let table = Table::new(&stream);
    gpu.hold();
    let failed = read(&stream, &table.look_up(&stream, BAD));
    let (output, _) = run(failed, || gpu.release());
    let error = output.and_then(|download| download.read::<f32>()).unwrap_err();
    assert!(matches!(error, Error::Fault { command: "embedding", .. }), "{error}");
}

#[test]
fn hardware_that_breaks_releases_a_task() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let buffer = filled(&stream, 1.0);
    stream.synchronize().unwrap();
    gpu.hold();
    let waiting = read(&stream, &buffer);
    let (output, _) = run(waiting, || gpu.fail("probe", 0, 1, deadly()));
    let error = output.and_then(|download| download.read::<f32>()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert_eq!(gpu.device.health().state, HealthState::Lost);
    gpu.release();
}

//! Results that can be awaited: the watcher wakes tasks, and no thread is started for them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use millstream_core::{Error, HealthState, Stream};

use crate::layer::{Layer, ROWS, SIZE};
use crate::linux::{Test, ask, bytes, matrix, open, plant};

pub const TESTS: &[Test] = &[
    (
        "a_thousand_calls_are_in_flight_from_one_thread",
        a_thousand_calls_are_in_flight_from_one_thread,
    ),
    ("a_task_sleeps_until_its_batch_is_through", a_task_sleeps_until_its_batch_is_through),
    ("what_is_cancelled_gives_its_memory_back", what_is_cancelled_gives_its_memory_back),
    ("a_task_is_told_what_a_thread_is_told", a_task_is_told_what_a_thread_is_told),
    ("a_lost_device_releases_a_task", a_lost_device_releases_a_task),
    ("threads_and_tasks_wait_for_one_stream", threads_and_tasks_wait_for_one_stream),
];

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

struct Woken {
    flag: AtomicBool,
    executor: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.executor.unpark();
    }
}

struct Task<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    woken: Arc<Woken>,
}

impl<T> Task<T> {
    fn new<F>(future: F) -> Self
    where
        F: IntoFuture<Output = T>,
        F::IntoFuture: 'static,
    {
        let woken = Woken { flag: AtomicBool::new(true), executor: std::thread::current() };
        Self { future: Box::pin(future.into_future()), woken: Arc::new(woken) }
    }

    /// Polls if it was woken.
    fn poll(&mut self) -> Poll<T> {
        if !self.woken.flag.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn run(mut self) -> T {
        loop {
            match self.poll() {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

fn a_thousand_calls_are_in_flight_from_one_thread() {
    let device = open();
    let stream = device.stream().unwrap();
    let layer = Arc::new(Layer::new(&stream).unwrap());
    stream.synchronize().unwrap();
    let (before, blocks, in_use) = (threads(), device.counters().blocks, device.memory().in_use);
    let call = |seed: usize| {
        let (layer, stream) = (Arc::clone(&layer), stream.clone());
        async move {
            stream.ready().await?;
            let input = Layer::input(seed);
            let one = matrix(ROWS, SIZE);
            let (x, y) = (stream.allocate(one.dense_bytes())?, stream.allocate(one.dense_bytes())?);
            stream.upload(x.operand(one), &input)?;
            layer.record(&stream, &y, &x)?;
            let download = stream.download(y.operand(one))?.await?;
            assert_eq!(download.view::<f32>()?, Layer::expected(&input));
            Ok::<(), Error>(())
        }
    };
    let mut tasks: Vec<_> = (0..1000).map(|seed| Task::new(call(seed))).collect();
    let mut most = 0;
    loop {
        tasks.retain_mut(|task| task.poll().map(Result::unwrap).is_pending());
        most = most.max(threads());
        if tasks.is_empty() {
            break;
        }
        std::thread::park();
    }
    assert!(most <= before + 1, "{most} threads, {before} before");
    assert_eq!(device.counters().blocks, blocks, "the thread never waited for the device");
    assert_eq!(device.memory().in_use, in_use);
}

fn a_task_sleeps_until_its_batch_is_through() {
    let stream = open().stream().unwrap();
    plant(&stream, b"HNG").unwrap();
    let mut task = Task::new(stream.timepoint());
    assert!(task.poll().is_pending());
    assert!(!task.woken.flag.load(Ordering::Acquire));
    ask(c"fake_release");
    task.run().unwrap();
}

fn what_is_cancelled_gives_its_memory_back() {
    let device = open();
    let stream = device.stream().unwrap();
    let large = bytes(1 << 17);
    let buffer = stream.allocate(large.dense_bytes()).unwrap();
    stream.upload(buffer.operand(large), &vec![7u8; 1 << 17]).unwrap();
    stream.synchronize().unwrap();
    let in_use = device.memory().in_use;
    plant(&stream, b"HNG").unwrap();
    let download = || stream.download(buffer.operand(large)).unwrap();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::new(download())).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    let woken: Vec<_> = tasks.iter().map(|task| Arc::clone(&task.woken)).collect();
    drop(tasks);
    assert!(woken.iter().all(|woken| Arc::strong_count(woken) == 1), "no waker is kept");
    ask(c"fake_release");
    stream.synchronize().unwrap();
    assert_eq!(device.memory().in_use, in_use);
    let registered = ask(c"fake_registered");
    device.empty_cache().unwrap();
    assert!(ask(c"fake_registered") < registered, "pinned memory that nobody has goes back");
    let read = Task::new(download()).run().unwrap().read::<u8>();
    assert_eq!(read.unwrap(), vec![7u8; 1 << 17]);
}

fn a_task_is_told_what_a_thread_is_told() {
    let device = open();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(16).unwrap();
    let point = stream.upload(buffer.operand(bytes(16)), &[3u8; 16]).unwrap();
    assert_eq!(Task::new(point).run(), Ok(()));
    let misfit = stream.download(buffer.operand(bytes(16))).unwrap();
    let download = Task::new(misfit).run().unwrap();
    assert!(matches!(download.read::<f32>(), Err(Error::Invalid { .. })));
}

fn a_lost_device_releases_a_task() {
    let device = open();
    let (bad, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let buffer = other.allocate(16).unwrap();
    plant(&bad, b"DIE").unwrap();
    let error = Task::new(bad.timepoint()).run().unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(error.to_string().contains("gave CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    assert_eq!(device.health().state, HealthState::Lost);
    let refused = other.upload(buffer.operand(bytes(16)), &[0u8; 16]);
    assert!(matches!(refused, Err(Error::DeviceLost { .. })));
    assert!(matches!(Task::new(other.ready()).run(), Err(Error::DeviceLost { .. })));
}

fn threads_and_tasks_wait_for_one_stream() {
    let device = open();
    let stream = Stream::new(&device).unwrap();
    let layer = Layer::new(&stream).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (layer, stream) = (&layer, &stream);
            scope.spawn(move || {
                for call in 0..100 {
                    let input = Layer::input(thread + call);
                    let answer = layer.call_twice(stream, &input, call).unwrap();
                    assert_eq!(answer, Layer::expected(&Layer::expected(&input)));
                }
            });
        }
        for _ in 0..300 {
            Task::new(stream.ready()).run().unwrap();
            Task::new(stream.timepoint()).run().unwrap();
        }
    });
}

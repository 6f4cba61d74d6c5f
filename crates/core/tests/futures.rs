//! Results that can be awaited, on the fake device.

mod common;

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use common::{config, copy, device, device_with, fill, whole};
use millstream_core::{Command, Device, Error, HealthState, Result, Stream, fake};

/// Polls on this thread, which sleeps until it is woken: a wake that is lost hangs.
fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future.into_future());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that the test polls, and how often it was woken.
struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    woken: Arc<Woken>,
}

impl<T> Task<T> {
    fn new<F>(future: F) -> Self
    where
        F: IntoFuture<Output = T>,
        F::IntoFuture: Send + 'static,
    {
        Self { future: Box::pin(future.into_future()), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }
}

/// Has as many batches in flight on a stream that hangs.
fn hang_with(stream: &Stream, control: &fake::FakeControl, batches: usize) {
    let buffer = stream.allocate(64).unwrap();
    fill(stream, &buffer).unwrap();
    // The queue is made by the first use.
    stream.flush().unwrap();
    control.hang(stream.id(), true);
    for _ in 1..batches {
        fill(stream, &buffer).unwrap();
        stream.flush().unwrap();
    }
}

#[test]
fn awaiting_gives_what_waiting_gives() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let good = fill(&stream, &buffer).unwrap();
    assert_eq!(control.submits(), 0);
    assert_eq!(block_on(good), Ok(()));
    assert_eq!(control.submits(), 1, "awaiting submits the work");

    control.fail_command(stream.id(), good.sequence() + 1);
    let bad = fill(&stream, &buffer).unwrap();
    let download = stream.download(whole(&buffer)).unwrap();
    let error = block_on(bad).unwrap_err();
    assert!(matches!(error, Error::Fault { .. }), "{error}");
    assert_eq!(bad.wait(), Err(error.clone()));
    assert_eq!(block_on(download).unwrap_err(), error, "the values have failed");

    fill(&stream, &buffer).unwrap();
    let download = block_on(stream.download(whole(&buffer)).unwrap()).unwrap();
    assert_eq!(download.view::<f32>().unwrap().len(), 16);
    control.assert_no_violations();
}

#[test]
fn a_pending_future_is_woken_when_its_own_work_has_passed() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    hang_with(&first, &control, 1);
    let (a, b) = (first.allocate(64).unwrap(), second.allocate(64).unwrap());
    let point = fill(&first, &a).unwrap();
    let mut task = Task::new(point);
    let mut dependent = Task::new(copy(&second, &b, &a).unwrap());
    // Also for nothing, as executors may.
    for _ in 0..3 {
        assert_eq!(task.poll(), Poll::Pending);
        assert_eq!(dependent.poll(), Poll::Pending);
    }
    let other = Stream::new(&device).unwrap();
    let elsewhere = other.allocate(64).unwrap();
    assert_eq!(block_on(fill(&other, &elsewhere).unwrap()), Ok(()), "others go on");
    assert_eq!((task.woken(), dependent.woken()), (0, 0));
    control.hang(first.id(), false);
    control.run_all();
    assert_eq!((task.woken(), dependent.woken()), (1, 1), "once, whatever it was polled before");
    assert_eq!(task.poll(), Poll::Ready(Ok(())));
    assert_eq!(dependent.poll(), Poll::Ready(Ok(())));
    control.assert_no_violations();
}

#[test]
fn a_future_of_work_for_which_there_is_no_room_submits_it_when_there_is() {
    let (device, control) = device_with(|config| config.in_flight = 2);
    let stream = Stream::new(&device).unwrap();
    hang_with(&stream, &control, 2);
    let buffer = stream.allocate(64).unwrap();
    let mut task = Task::new(fill(&stream, &buffer).unwrap());
    assert_eq!(task.poll(), Poll::Pending);
    assert_eq!(control.submits(), 2);
    control.hang(stream.id(), false);
    control.run_all();
    assert_eq!(task.woken(), 1);
    // The fake device runs what it is given as soon as somebody awaits it.
    while task.poll().is_pending() {}
    assert_eq!(control.submits(), 3);
    control.assert_no_violations();
}

#[test]
fn recording_is_awaited_without_a_thread_and_in_order() {
    let (device, control) = device_with(|config| config.in_flight = 4);
    let stream = Stream::new(&device).unwrap();
    assert_eq!(block_on(stream.ready()), Ok(()));
    hang_with(&stream, &control, 3);
    let mut tasks: Vec<_> = (0..3).map(|_| Task::new(stream.ready())).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    let blocks = device.counters().blocks;
    control.hang(stream.id(), false);
    control.run_all();
    let woken = |tasks: &[Task<_>]| tasks.iter().map(Task::woken).collect::<Vec<_>>();
    assert_eq!(woken(&tasks), [1, 0, 0], "the first in line");
    assert!(tasks[2].poll().is_pending(), "nobody overtakes");
    assert_eq!(tasks[0].poll(), Poll::Ready(Ok(())));
    assert_eq!(woken(&tasks), [1, 1, 0], "it lets the next come forward");
    // One that is dropped, woken or not, does too.
    drop(tasks.remove(1));
    assert_eq!(woken(&tasks), [1, 1]);
    assert_eq!(tasks[1].poll(), Poll::Ready(Ok(())));
    assert_eq!(device.counters().blocks, blocks, "no thread was held");
    control.assert_no_violations();
}

/// What `ready` promises: a call of so many Commands is recorded without waiting.
#[test]
fn what_is_recorded_after_ready_does_not_block() {
    let (device, control) =
        device_with(|config| (config.in_flight, config.batch_commands) = (8, 4));
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    hang_with(&stream, &control, 8 / 2);
    assert_eq!(block_on(stream.ready()), Ok(()), "half of it is free");
    for _ in 0..(8 / 2) * 4 {
        fill(&stream, &buffer).unwrap();
    }
    assert_eq!(device.counters().blocks, 0);
    assert!(Task::new(stream.ready()).poll().is_pending());
    control.hang(stream.id(), false);
    stream.synchronize().unwrap();
}

#[test]
fn the_current_stream_of_the_polling_thread_counts() {
    let (device, control) = device_with(|config| config.in_flight = 2);
    let (full, free) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    hang_with(&full, &control, 2);
    let mut task = Task::new(device.ready());
    let mut next = Task::new(device.ready());
    assert!(full.scope(|| task.poll().is_pending() && next.poll().is_pending()));
    assert_eq!(free.scope(|| task.poll()), Poll::Ready(Ok(())));
    assert_eq!(next.woken(), 1, "it has left the line of the other stream");
    control.hang(full.id(), false);
    control.run_all();
    assert_eq!(full.scope(|| next.poll()), Poll::Ready(Ok(())));
}

/// A thread of an executor has many calls under way: they are not to run one after the other.
#[test]
fn a_thread_whose_stream_is_busy_goes_on_with_an_idle_one() {
    let (device, control) = device();
    let work = move || {
        let current = || device.stream().unwrap();
        let first = current();
        assert_eq!(block_on(device.ready()), Ok(()));
        assert_eq!(current().id(), first.id(), "it is idle");
        let buffer = first.allocate(64).unwrap();
        let left = fill(&first, &buffer).unwrap();
        assert_eq!(block_on(device.ready()), Ok(()));
        let second = current();
        assert_ne!(second.id(), first.id());
        assert_eq!(control.submits(), 1, "what was recorded there is with the device");
        // Nothing is lost, and the order comes by itself.
        let copied = second.allocate(64).unwrap();
        let point = copy(&second, &copied, &buffer).unwrap();
        assert_eq!((block_on(point), block_on(left)), (Ok(()), Ok(())));
        // What a user has chosen stays.
        let chosen = Stream::new(&device).unwrap();
        chosen.scope(|| {
            fill(&chosen, &chosen.allocate(64).unwrap()).unwrap();
            assert_eq!(block_on(device.ready()), Ok(()));
            assert_eq!(current().id(), chosen.id());
        });
        drop(chosen);
        control.assert_no_violations();
    };
    let free = device.free_streams();
    std::thread::spawn(work).join().unwrap();
    assert_eq!(device.free_streams(), free, "every stream was given back");
}

#[test]
fn a_lost_or_closed_device_releases_its_tasks() {
    let (device, control) = device();
    let (stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    hang_with(&stream, &control, 16);
    let mut point = Task::new(stream.timepoint());
    let mut ready = Task::new(stream.ready());
    let mut line = Task::new(stream.ready());
    assert!(point.poll().is_pending() && ready.poll().is_pending() && line.poll().is_pending());
    control.lose_after(0);
    let buffer = other.allocate(64).unwrap();
    fill(&other, &buffer).unwrap();
    let lost = other.flush().unwrap_err();
    assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
    assert_eq!((point.woken(), ready.woken()), (1, 1));
    assert_eq!(point.poll(), Poll::Ready(Err(lost.clone())));
    assert_eq!(ready.poll(), Poll::Ready(Err(lost.clone())));
    assert_eq!((line.woken(), line.poll()), (1, Poll::Ready(Err(lost))));

    let (closed, _) = fake::device(config(), 1 << 20, 1).unwrap();
    let stream = closed.stream().unwrap();
    let point = stream.timepoint();
    closed.close().unwrap();
    assert!(matches!(block_on(point), Err(Error::DeviceClosed { .. })));
    assert!(matches!(block_on(stream.ready()), Err(Error::DeviceClosed { .. })));
}

#[test]
fn a_loss_that_only_a_poll_notices_is_the_loss_of_the_device() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let point = fill(&stream, &buffer).unwrap();
    stream.flush().unwrap();
    control.lose();
    assert!(matches!(block_on(point), Err(Error::DeviceLost { .. })));
    assert_eq!(device.health().state, HealthState::Lost);
}

/// Records on the stream whose lock was held when the task was released.
struct Records(Stream, AtomicUsize);

impl Wake for Records {
    fn wake(self: Arc<Self>) {
        let buffer = self.0.allocate(64);
        // A device that is lost refuses; what counts is that nothing hangs.
        let _ = buffer.and_then(|buffer| fill(&self.0, &buffer).and_then(|_| self.0.flush()));
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

fn pending_with(waker: &Arc<Records>, future: &mut (impl Future + Unpin)) {
    let waker = Waker::from(Arc::clone(waker));
    let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
}

#[test]
fn wakers_are_called_with_no_lock_held() {
    let (device, control) = device_with(|config| config.in_flight = 2);
    let stream = Stream::new(&device).unwrap();
    let waker = Arc::new(Records(stream.clone(), AtomicUsize::new(0)));
    let called = || waker.1.load(Ordering::SeqCst);
    // By the fake device.
    hang_with(&stream, &control, 1);
    let mut future = stream.timepoint().into_future();
    pending_with(&waker, &mut future);
    control.hang(stream.id(), false);
    control.run_all();
    assert_eq!(called(), 1);
    // By a submit that looks for room with the stream's lock held.
    stream.synchronize().unwrap();
    hang_with(&stream, &control, 2);
    let buffer = stream.allocate(64).unwrap();
    fill(&stream, &buffer).unwrap();
    let mut future = stream.timepoint().into_future();
    pending_with(&waker, &mut future);
    control.hang(stream.id(), false);
    stream.flush().unwrap();
    assert_eq!(called(), 2);
    // By the loss of the device, which a submit notices.
    stream.synchronize().unwrap();
    hang_with(&stream, &control, 1);
    let mut future = stream.timepoint().into_future();
    pending_with(&waker, &mut future);
    control.lose_after(0);
    fill(&stream, &buffer).unwrap();
    stream.flush().unwrap_err();
    assert_eq!(called(), 3);
}

#[test]
fn a_future_that_is_dropped_is_not_woken_and_its_memory_comes_back() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    hang_with(&stream, &control, 1);
    let before = (device.memory().in_use, control.host_pieces().1);
    let layout =
        millstream_core::Layout::contiguous(millstream_core::DType::U8, &[1 << 16]).unwrap();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let buffer = stream.allocate(1 << 16).unwrap();
        stream.record(Command::fill(buffer.operand(layout), 1i32).unwrap()).unwrap();
        tasks.push(Task::new(stream.download(buffer.operand(layout)).unwrap()));
    }
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    assert!(control.host_pieces().1 > before.1, "the device writes there by itself");
    let woken: Vec<_> = tasks.drain(..).map(|task| Arc::clone(&task.woken)).collect();
    control.hang(stream.id(), false);
    control.run_all();
    assert!(woken.iter().all(|woken| woken.0.load(Ordering::SeqCst) == 0));
    assert!(woken.iter().all(|woken| Arc::strong_count(woken) == 1), "no waker is kept");
    assert_eq!((device.memory().in_use, control.host_pieces().1), before);
    control.assert_no_violations();
}

#[test]
fn a_thousand_calls_are_in_flight_from_one_thread() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    async fn call(stream: Stream) -> Result<usize> {
        stream.ready().await?;
        let (a, b) = (stream.allocate(64)?, stream.allocate(64)?);
        fill(&stream, &a)?;
        copy(&stream, &b, &a)?;
        let download = stream.download(whole(&b))?.await?;
        Ok(download.view::<f32>()?.len())
    }
    let mut tasks: Vec<_> = (0..1000).map(|_| Task::new(call(stream.clone()))).collect();
    control.hang(stream.id(), true);
    let mut done = 0;
    tasks.retain_mut(|task| {
        let answer = task.poll();
        done += usize::from(answer.is_ready());
        answer.is_pending()
    });
    assert_eq!(device.counters().blocks, 0);
    while !tasks.is_empty() {
        control.hang(stream.id(), false);
        control.run_all();
        tasks.retain_mut(|task| match task.woken.0.swap(0, Ordering::SeqCst) {
            0 => true,
            _ => match task.poll() {
                Poll::Ready(answer) => {
                    assert_eq!(answer, Ok(16));
                    done += 1;
                    false
                }
                Poll::Pending => true,
            },
        });
    }
    assert_eq!((done, device.counters().blocks), (1000, 0));
    control.assert_no_violations();
}

#[test]
fn futures_go_to_any_thread() {
    fn any_thread<T: Send + Sync + Unpin + 'static>() {}
    any_thread::<millstream_core::TimepointFuture>();
    any_thread::<millstream_core::DownloadFuture>();
    any_thread::<millstream_core::Ready>();
    let (device, control): (Device, _) = device();
    let stream = Stream::new(&device).unwrap();
    hang_with(&stream, &control, 1);
    let point = stream.timepoint();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(move || block_on(point))).collect();
        control.hang(stream.id(), false);
        while !waiters.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            control.run_all();
            std::thread::yield_now();
        }
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap().is_ok()));
    });
}

//! What futures cost a whole process: no thread, and no memory once they are dropped. A program of its own, so
//! that nobody else's threads and allocations are counted.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
use millstream::{Command, Config, DType, Device, Layout, Stream, Tensor, fake};

struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is the system's; counting touches nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        LIVE.fetch_add(memory.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        LIVE.fetch_sub(memory.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// An executor of one thread, the calling one.
struct Tasks {
    tasks: Vec<Option<(Task, Arc<Ready>)>>,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct Ready {
    woken: AtomicBool,
    executor: Thread,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.executor.unpark();
    }
}

impl Tasks {
    fn new(futures: impl IntoIterator<Item = Task>) -> Self {
        let ready = || Ready { woken: AtomicBool::new(true), executor: std::thread::current() };
        let tasks = futures.into_iter().map(|future| Some((future, Arc::new(ready())))).collect();
        Self { tasks }
    }

    /// Polls those that were woken; how many are left.
    fn poll(&mut self) -> usize {
        for task in &mut self.tasks {
            let Some((future, ready)) = task.as_mut() else { continue };
            if !ready.woken.swap(false, Ordering::Acquire) {
                continue;
            }
            let waker = Waker::from(Arc::clone(ready));
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *task = None;
            }
        }
        self.tasks.iter().flatten().count()
    }
}

fn model(device: &Device) -> Sequential {
    let load = |weights: &Weights| {
        Ok(Sequential::new()
            .push(Linear::new(32, 128, true, &weights.child(0))?)
            .push(ReLU)
            .push(Linear::new(128, 8, true, &weights.child(2))?))
    };
    Weights::random(1, DType::F32, device).load(load).unwrap()
}

fn input(seed: u64, device: &Device) -> Tensor {
    Tensor::randn(&[1, 32], seed, DType::F32, device).unwrap()
}

fn a_thousand_calls_in_flight_from_one_thread_need_no_thread_more() {
    let device = Device::builder("cpu").open().unwrap();
    let model = Rc::new(model(&device));
    let expected: Rc<Vec<Vec<f32>>> = Rc::new(
        (0..1000)
            .map(|seed| model.forward(&input(seed, &device)).unwrap().to_vec().unwrap())
            .collect(),
    );
    let (before, blocks) = (threads(), device.counters().blocks);
    let right = Rc::new(Cell::new(0));
    let mut tasks = Tasks::new((0..1000u64).map(|seed| {
        let (model, expected, right) = (Rc::clone(&model), Rc::clone(&expected), Rc::clone(&right));
        Box::pin(async move {
            device.ready().await.unwrap();
            let output = model.forward(&input(seed, &device)).unwrap();
            let values = output.to_vec_async::<f32>().await.unwrap();
            assert_eq!(values, expected[seed as usize]);
            right.set(right.get() + 1);
        }) as Task
    }));
    let mut most = 0;
    while tasks.poll() > 0 {
        most = most.max(threads());
        std::thread::park();
    }
    assert_eq!(right.get(), 1000);
    assert!(most <= before + 1, "{most} threads, {before} before");
    assert_eq!(device.counters().blocks, blocks, "the thread never waited for the device");
}

fn what_is_canceled_gives_its_memory_back() {
    let device = Device::builder("cpu").open().unwrap();
    let model = model(&device);
    device.synchronize().unwrap();
    let before = device.memory().in_use;
    let mut futures = Vec::new();
    for seed in 0..1000 {
        let output = model.forward(&input(seed, &device)).unwrap();
        let mut future = Box::pin(output.to_vec_async::<f32>());
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        futures.push(future);
    }
    drop(futures);
    device.synchronize().unwrap();
    assert_eq!(device.memory().in_use, before);
    device.empty_cache().unwrap();
    let cold = device.memory();
    assert!(cold.reserved <= before + (16 << 20), "{cold:?}");
}

fn polled(future: impl IntoFuture) {
    let mut future = std::pin::pin!(future.into_future());
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// Futures whose work has passed, on the CPU device, and futures that wait, on a device that hangs.
fn a_million_dropped_futures_leave_nothing() {
    let layout = Layout::contiguous(DType::F32, &[16]).unwrap();
    let cpu = Device::builder("cpu").open().unwrap();
    let (hung, control) =
        fake::device(Config { in_flight: 2, ..Config::default() }, 1 << 20, 1).unwrap();
    let streams = [Stream::new(&cpu).unwrap(), Stream::new(&hung).unwrap()];
    for (stream, batches) in streams.iter().zip([1, 2]) {
        let buffer = stream.allocate(layout.dense_bytes()).unwrap();
        control.hang(stream.id(), true);
        for _ in 0..batches {
            stream.record(Command::fill(buffer.operand(layout), 1.0f32).unwrap()).unwrap();
            stream.flush().unwrap();
            control.hang(stream.id(), true);
        }
    }
    streams[0].synchronize().unwrap();
    let drop_some = |count: usize| {
        for stream in &streams {
            for _ in 0..count {
                polled(stream.timepoint());
                polled(stream.ready());
            }
        }
    };
    // Whatever is made at the first use.
    drop_some(10);
    // A worker may still be starting, which allocates too, once. What futures leave, they leave every time.
    let rounds = [(); 4].map(|()| {
        let before = LIVE.load(Ordering::Relaxed);
        drop_some(62_500);
        LIVE.load(Ordering::Relaxed) - before
    });
    assert!(rounds.iter().any(|grown| *grown <= 0), "{rounds:?} bytes");
    let point = streams[1].timepoint();
    let mut future = Box::pin(point.into_future());
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(poll, Poll::Pending), "it hangs");
}

fn main() {
    let tests: [(&str, fn()); 3] = [
        (
            "a_thousand_calls_in_flight_from_one_thread_need_no_thread_more",
            a_thousand_calls_in_flight_from_one_thread_need_no_thread_more,
        ),
        ("what_is_canceled_gives_its_memory_back", what_is_canceled_gives_its_memory_back),
        ("a_million_dropped_futures_leave_nothing", a_million_dropped_futures_leave_nothing),
    ];
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!();
    for (name, test) in tests {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    println!("\ntest result: ok\n");
}

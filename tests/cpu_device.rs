//! The CPU device as users see it: any thread, any stream, the same bits.

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use millstream::profiler::{Activity, ThreadLabel};
use millstream::{
    Activation, Backend, BackendInfo, Batch, BinaryOp, Buffer, Command, Config, DType, Device,
    DeviceBuilder, Distribution, Error, Event, HealthState, Layout, OpKind, Operand, Progress,
    Queue, QueueContext, Result, Segment, Stream, Timepoint, UnaryOp,
};

/// After this long something hangs. No test that passes waits for it.
const HANG: Duration = Duration::from_secs(120);

/// A device of the test's own, whose waits end late: the machine may be busy with other things.
fn own() -> DeviceBuilder {
    Device::builder("cpu").wait_timeout(HANG)
}

fn square(size: usize) -> Layout {
    Layout::contiguous(DType::F32, &[size, size]).unwrap()
}

fn random(stream: &Stream, layout: Layout, seed: u64) -> Result<Buffer> {
    let buffer = stream.allocate(layout.dense_bytes())?;
    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    stream.record(Command::random(buffer.operand(layout), normal, seed, 0)?)?;
    Ok(buffer)
}

fn matmul(
    stream: &Stream,
    to: &Buffer,
    a: &Buffer,
    b: &Buffer,
    layout: Layout,
) -> Result<Timepoint> {
    let [to, a, b] = [to, a, b].map(|buffer| buffer.operand(layout));
    stream.record(Command::matmul(to, a, b, None, None, 1.0, Activation::Gelu)?)
}

/// A chain with large and small commands, so that some are split between threads.
fn chain(device: Device, seed: u64) -> Result<Vec<u32>> {
    let stream = device.stream()?;
    let layout = square(192);
    let (a, b) = (random(&stream, layout, seed)?, random(&stream, layout, seed + 1)?);
    let c = stream.allocate(layout.dense_bytes())?;
    matmul(&stream, &c, &a, &b, layout)?;
    stream.record(Command::softmax(a.operand(layout), c.operand(layout), 1, false)?)?;
    let (to, b) = (a.operand(layout), b.operand(layout));
    stream.record(Command::binary(BinaryOp::Mul, to, to, b)?)?;
    let values = stream.download(to)?.read::<f32>()?;
    Ok(values.into_iter().map(f32::to_bits).collect())
}

#[test]
fn results_have_the_same_bits_for_any_number_of_threads_and_streams() {
    let open = |threads, intra_op| own().threads(threads).intra_op(intra_op).open().unwrap();
    let expected: Vec<_> = (0..4).map(|seed| chain(open(1, false), seed).unwrap()).collect();
    let mut settings = vec![(2, true), (8, false)];
    // A sanitizer with unoptimized kernels takes minutes for all of them.
    if std::env::var_os("MILLSTREAM_FEW_SETTINGS").is_none() {
        settings.extend([(1, true), (3, true), (8, true)]);
    }
    for (threads, intra_op) in settings {
        let device = open(threads, intra_op);
        for callers in [1, 2, 3, 4, 31] {
            std::thread::scope(|scope| {
                for caller in 0..callers {
                    let expected = &expected;
                    scope.spawn(move || {
                        let seed = caller % 4;
                        let got = chain(device, seed as u64).unwrap();
                        assert!(got == expected[seed], "{threads} threads, {callers} callers");
                    });
                }
            });
        }
        device.close().unwrap();
    }
}

/// Invariant 2: no lock is shared between streams on the hot path. While one stream's submit is stuck
/// in its backend, with that stream's lock held, every other stream records, submits and finishes.
#[test]
fn invariant_02_a_stream_stuck_in_submit_disturbs_no_other() {
    struct Sticky(Arc<(Mutex<bool>, Condvar)>);
    struct StickyQueue {
        stream: u32,
        progress: Arc<Progress>,
        released: Arc<(Mutex<bool>, Condvar)>,
    }
    impl Backend for Sticky {
        fn info(&self) -> BackendInfo {
            BackendInfo {
                name: "sticky".into(),
                description: String::new(),
                memory_bytes: 1 << 30,
                parallelism: 1,
                queue_capacity: 64,
                alignment: 64,
                streams: 32,
                f64: true,
            }
        }
        fn supports(&self, kind: OpKind) -> bool {
            kind == OpKind::Fill
        }
        fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
            Ok(Some(Segment { address: 4096, bytes, host: None, owner: Box::new(()) }))
        }
        fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
            let (stream, progress) = (context.stream, context.progress);
            Ok(Arc::new(StickyQueue { stream, progress, released: Arc::clone(&self.0) }))
        }
    }
    impl Queue for StickyQueue {
        fn submit(&self, batch: Batch) -> Result<()> {
            if self.stream == 1 {
                let guard = self.released.0.lock().unwrap();
                drop(self.released.1.wait_while(guard, |released| !*released).unwrap());
            }
            self.progress.advance(batch.last);
            Ok(())
        }
        fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
            self.progress.wait(sequence, Some(deadline));
            Ok(())
        }
    }

    let released = Arc::new((Mutex::new(false), Condvar::new()));
    let backend = Box::new(Sticky(Arc::clone(&released)));
    let device =
        Device::with_backend(backend, Config { wait_timeout: Some(HANG), ..Config::default() })
            .unwrap();
    let layout = Layout::contiguous(DType::F32, &[16]).unwrap();
    let work = move |stream: &Stream| {
        for _ in 0..100 {
            let buffer = stream.allocate(layout.dense_bytes()).unwrap();
            stream.record(Command::fill(buffer.operand(layout), 1.0f32).unwrap()).unwrap();
            stream.synchronize().unwrap();
        }
    };
    let stuck = Stream::new(&device).unwrap();
    assert_eq!(stuck.id(), 1);
    std::thread::scope(|scope| {
        let stuck = scope.spawn(move || work(&stuck));
        let others: Vec<_> =
            (0..30).map(|_| scope.spawn(move || work(&Stream::new(&device).unwrap()))).collect();
        for other in others {
            other.join().unwrap();
        }
        assert!(!stuck.is_finished(), "the stuck stream is still in its first submit");
        *released.0.lock().unwrap() = true;
        released.1.notify_all();
        stuck.join().unwrap();
    });

    // An operation that a backend does not have is refused, and named.
    let stream = Stream::new(&device).unwrap();
    let (a, b) = (stream.allocate(64).unwrap(), stream.allocate(64).unwrap());
    let copy = Command::copy(a.operand(layout), b.operand(layout)).unwrap();
    assert!(matches!(stream.record(copy), Err(Error::Unsupported { op: "copy", .. })));
}

/// Tasks that hop between threads, as in an async runtime: each step of a task may run anywhere.
#[test]
fn tasks_that_hop_between_threads_work() {
    struct Task {
        seed: u64,
        step: usize,
        value: Option<Buffer>,
    }
    let device = own().open().unwrap();
    let layout = square(32);
    let expected: Vec<Vec<f32>> = (0..40)
        .map(|seed| {
            let stream = device.stream().unwrap();
            let buffer = random(&stream, layout, seed).unwrap();
            for _ in 0..5 {
                let operand = buffer.operand(layout);
                stream.record(Command::unary(UnaryOp::Tanh, operand, operand).unwrap()).unwrap();
            }
            stream.download(buffer.operand(layout)).unwrap().read().unwrap()
        })
        .collect();
    let tasks = Mutex::new(
        (0..40).map(|seed| Task { seed, step: 0, value: None }).collect::<VecDeque<_>>(),
    );
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (tasks, expected) = (&tasks, &expected);
            scope.spawn(move || {
                loop {
                    let Some(mut task) = tasks.lock().unwrap().pop_front() else { return };
                    let stream = device.stream().unwrap();
                    match task.value.take() {
                        None => task.value = Some(random(&stream, layout, task.seed).unwrap()),
                        Some(value) if task.step <= 5 => {
                            let next = stream.allocate(layout.dense_bytes()).unwrap();
                            let (to, from) = (next.operand(layout), value.operand(layout));
                            stream
                                .record(Command::unary(UnaryOp::Tanh, to, from).unwrap())
                                .unwrap();
                            task.value = Some(next);
                        }
                        Some(value) => {
                            let got = stream.download(value.operand(layout)).unwrap();
                            assert_eq!(got.read::<f32>().unwrap(), expected[task.seed as usize]);
                            continue;
                        }
                    }
                    task.step += 1;
                    tasks.lock().unwrap().push_back(task);
                }
            });
        }
    });
}

#[test]
fn work_that_nobody_waits_for_is_done_all_the_same() {
    let device = own().open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let buffer = random(&stream, square(64), 1).unwrap();
    let point = stream.timepoint();
    stream.flush().unwrap();
    // A query does not execute anything on this device: a worker must have done it.
    let deadline = Instant::now() + HANG;
    while !point.query().unwrap() {
        assert!(Instant::now() < deadline, "no worker came");
        std::thread::yield_now();
    }
    drop(buffer);
    device.close().unwrap();
}

#[test]
fn chains_across_streams_finish_when_only_the_last_is_waited_for() {
    let device = own().open().unwrap();
    let streams: Vec<_> = (0..16).map(|_| Stream::new(&device).unwrap()).collect();
    let layout = square(32);
    for round in 0..20 {
        let mut value = random(&streams[0], layout, round).unwrap();
        for stream in &streams {
            let next = stream.allocate(layout.dense_bytes()).unwrap();
            let (to, from) = (next.operand(layout), value.operand(layout));
            stream.record(Command::unary(UnaryOp::Neg, to, from).unwrap()).unwrap();
            value = next;
        }
        let values = streams[15].download(value.operand(layout)).unwrap().read::<f32>().unwrap();
        let direct = random(&streams[0], layout, round).unwrap();
        let direct = streams[0].download(direct.operand(layout)).unwrap().read::<f32>().unwrap();
        assert_eq!(values, direct, "sixteen negations cancel out");
    }
    device.close().unwrap();
}

#[test]
fn a_wait_that_runs_out_loses_nothing() {
    let device = own().threads(1).intra_op(false).open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let layout = square(64);
    let (a, b) = (random(&stream, layout, 1).unwrap(), random(&stream, layout, 2).unwrap());
    let c = stream.allocate(layout.dense_bytes()).unwrap();
    let mut last = stream.timepoint();
    for _ in 0..50 {
        last = matmul(&stream, &c, &a, &b, layout).unwrap();
        stream.flush().unwrap();
    }
    match last.wait_within(Duration::from_micros(1)) {
        Ok(()) | Err(Error::Timeout { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    last.wait().unwrap();
    device.close().unwrap();
}

#[test]
fn timed_events_measure_the_device() {
    let device = own().open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let layout = square(256);
    let (a, b) = (random(&stream, layout, 1).unwrap(), random(&stream, layout, 2).unwrap());
    stream.synchronize().unwrap();
    let started = Instant::now();
    let before = Event::timed(&stream).unwrap();
    matmul(&stream, &a, &b, &b, layout).unwrap();
    let after = Event::timed(&stream).unwrap();
    let elapsed = before.elapsed(&after).unwrap();
    // The device's time lies within that of the host, however long that was.
    assert!(elapsed > Duration::ZERO && elapsed <= started.elapsed(), "{elapsed:?}");
    assert_eq!(after.elapsed(&before).unwrap(), Duration::ZERO);
    device.close().unwrap();
}

#[test]
fn the_profiler_has_a_row_per_stream_and_is_safe_with_many_threads() {
    let device = own().open().unwrap();
    device.profiler().start();
    // Before the others: whether a thread that has just ended still has its stream is not known.
    device.stream().unwrap();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                device.stream().unwrap();
                // Nobody's stream is used again by another thread.
                barrier.wait();
                chain(device, seed).unwrap();
                barrier.wait();
            });
        }
        while device.counters().commands < 8 {
            std::thread::yield_now();
        }
        device.profiler().to_json();
    });
    device.profiler().start();
    chain(device, 0).unwrap();
    device.profiler().stop();
    let rows = device.profiler().take();
    assert_eq!(rows.len(), 9);
    let spans: Vec<_> = rows.iter().flat_map(|row| &row.spans).collect();
    assert_eq!(spans.len(), 6);
    for pair in spans.windows(2) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "commands of a stream do not overlap");
        assert!(pair[0].sequence < pair[1].sequence);
    }
    let batches: Vec<_> = rows.iter().flat_map(|row| &row.batches).collect();
    assert!(batches.iter().any(|batch| batch.activity == Activity::Record));
    assert!(batches.iter().any(|batch| batch.activity == Activity::Execute));
    // This thread waited, so it did both itself.
    assert!(batches.iter().all(|batch| batch.thread == ThreadLabel::current()));
    device.close().unwrap();
}

/// What the device wrote is visible to whoever saw, by asking only, that it had finished: no lock is
/// taken between the last question and the read.
#[test]
fn asking_until_it_is_done_is_enough_to_read_the_result() {
    let device = own().open().unwrap();
    let stream = Stream::new(&device).unwrap();
    let layout = square(16);
    for value in 0..200 {
        let buffer = stream.allocate(layout.dense_bytes()).unwrap();
        stream.record(Command::fill(buffer.operand(layout), value).unwrap()).unwrap();
        let download = stream.download(buffer.operand(layout)).unwrap();
        stream.flush().unwrap();
        let deadline = Instant::now() + HANG;
        while !download.timepoint().query().unwrap() {
            assert!(Instant::now() < deadline, "no worker came");
            std::hint::spin_loop();
        }
        assert_eq!(download.read::<f32>().unwrap(), [value as f32; 256]);
    }
    device.close().unwrap();
}

#[test]
fn transfers_refuse_other_element_types_and_sizes() {
    let device = Device::cpu().unwrap();
    let stream = device.stream().unwrap();
    let layout = Layout::contiguous(DType::F32, &[4]).unwrap();
    let buffer = stream.allocate(16).unwrap();
    let operand: Operand<&Buffer> = buffer.operand(layout);
    assert!(matches!(stream.upload(operand, &[1i32; 4]), Err(Error::Invalid { .. })));
    assert!(matches!(stream.upload(operand, &[1f32; 3]), Err(Error::Mismatch { .. })));
    stream.upload(operand, &[1f32, 2.0, 3.0, 4.0]).unwrap();
    assert!(matches!(stream.download(operand).unwrap().read::<i32>(), Err(Error::Invalid { .. })));
    let bools = Layout::contiguous(DType::Bool, &[4]).unwrap();
    stream.upload(buffer.operand(bools), &[1u8, 0, 1, 1]).unwrap();
    assert_eq!(stream.download(buffer.operand(bools)).unwrap().read::<u8>().unwrap(), [1, 0, 1, 1]);
}

#[test]
fn a_device_opened_twice_by_name_is_one_device_and_a_closed_one_is_opened_anew() {
    let (first, second) = (Device::cpu().unwrap(), Device::open("cpu:0").unwrap());
    assert_eq!(first, second);
    assert_eq!(Device::best().unwrap(), first);
    let another = own().open().unwrap();
    assert_ne!(another, first);
    another.close().unwrap();
    assert_eq!(another.health().state, HealthState::Closed);
    assert_eq!(Device::open("cpu").unwrap().health().state, HealthState::Healthy);
}

#[test]
fn names_that_do_not_exist_say_what_does() {
    for name in ["gpu", "cpu:1", "cpu:x", ""] {
        let error = Device::open(name).unwrap_err();
        assert!(
            matches!(&error, Error::UnknownDevice { known, .. } if known.contains("cpu")),
            "{error}"
        );
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    assert!(matches!(Device::builder("cpu").streams(0).open(), Err(Error::InvalidConfig { .. })));
    assert!(matches!(Device::builder("cpu").streams(65).open(), Err(Error::InvalidConfig { .. })));
    assert!(matches!(Device::builder("cpu").threads(0).open(), Err(Error::InvalidConfig { .. })));
    assert!(matches!(
        Device::builder("cpu").wait_timeout(Duration::ZERO).open(),
        Err(Error::InvalidConfig { .. })
    ));
}

#[test]
fn closing_joins_the_workers_and_gives_memory_back() {
    for _ in 0..20 {
        let device = own().threads(4).open().unwrap();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let stream = Stream::new(&device).unwrap();
                    random(&stream, square(64), seed).unwrap();
                    stream.flush().unwrap();
                });
            }
        });
        device.close().unwrap();
        let memory = device.memory();
        assert_eq!((memory.in_use, memory.reserved), (0, 0), "{memory:?}");
    }
}

/// An index that no kernel may follow fails the call that needs its result, and no other.
#[test]
fn an_index_out_of_range_is_a_fault_of_its_command_alone() {
    let device = own().threads(2).open().unwrap();
    let (stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let layout = |dtype, shape: &[usize]| Layout::contiguous(dtype, shape).unwrap();
    let upload = |ids: &[i64]| {
        let buffer = stream.allocate(8 * ids.len()).unwrap();
        stream.upload(buffer.operand(layout(DType::I64, &[ids.len()])), ids).unwrap();
        buffer
    };
    // Enough rows that the fault happens in one of several chunks.
    let mut ids = vec![1i64; 5000];
    ids[4321] = 77;
    let (good, bad) = (upload(&[2, -1]), upload(&ids));
    let table = stream.allocate(4 * 3 * 8).unwrap();
    stream.upload(table.operand(layout(DType::F32, &[3, 8])), &[1.5f32; 24]).unwrap();
    let gather = |stream: &Stream, ids: &Buffer, rows: usize| {
        let dst = stream.allocate(4 * 8 * rows)?;
        let to = dst.operand(layout(DType::F32, &[rows, 8]));
        let ids = ids.operand(layout(DType::I64, &[rows]));
        stream.record(Command::embedding(to, table.operand(layout(DType::F32, &[3, 8])), ids)?)?;
        stream.download(dst.operand(layout(DType::F32, &[rows, 8])))?.read::<f32>()
    };
    assert_eq!(gather(&other, &good, 2).unwrap(), [1.5; 16]);
    match gather(&stream, &bad, 5000) {
        Err(Error::Fault { command: "embedding", message, .. }) => {
            assert_eq!(&*message, "index 77 is outside an axis of size 3");
        }
        found => panic!("{found:?}"),
    }
    assert_eq!(gather(&other, &good, 2).unwrap(), [1.5; 16]);
}

//! The whole backend on a driver that runs on the host: submitting, completion, graphs, transfers, order
//! between streams, faults and a lost device, from many threads. What a real GPU adds is the real kernels
//! and the real driver's mind; the tests of the root crate run there.
//!
//! A program of its own: it builds the driver with `cc`, and starts itself once per test with the driver
//! in the loader's path.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
mod bounds;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod futures;
#[cfg(target_os = "linux")]
mod kernels;
#[cfg(target_os = "linux")]
mod layer;
#[cfg(target_os = "linux")]
mod library;
#[cfg(target_os = "linux")]
mod transfers;

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;
    use std::process::{Command as Process, ExitCode};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use millstream_core::{
        DType, Device, Error, Event, HealthState, Layout, Operand, Plan, Result, Stream,
    };
    use millstream_cuda as _;

    use super::layer::{Layer, ROWS, SIZE};
    use super::library;

    pub type Test = (&'static str, fn());

    const OWN_TESTS: &[Test] = &[
        ("both_devices_are_listed", both_devices_are_listed),
        ("transfers_of_any_size_arrive", transfers_of_any_size_arrive),
        ("replayed_batches_give_new_answers", replayed_batches_give_new_answers),
        ("one_batch_may_be_in_flight_many_times", one_batch_may_be_in_flight_many_times),
        ("many_threads_get_their_own_answers", many_threads_get_their_own_answers),
        ("threads_that_share_a_stream_are_replayed", threads_that_share_a_stream_are_replayed),
        ("plans_are_replayed_by_their_numbers", plans_are_replayed_by_their_numbers),
        ("streams_come_in_order", streams_come_in_order),
        (
            "a_stream_that_waits_for_two_comes_after_both",
            a_stream_that_waits_for_two_comes_after_both,
        ),
        ("waits_end_at_their_deadline", waits_end_at_their_deadline),
        ("a_lack_of_memory_is_no_fault", a_lack_of_memory_is_no_fault),
        ("the_profiler_has_spans_of_the_device", the_profiler_has_spans_of_the_device),
        ("a_closed_device_gives_its_memory_back", a_closed_device_gives_its_memory_back),
        ("a_lost_device_fails_closed", a_lost_device_fails_closed),
        ("a_forked_child_is_told", a_forked_child_is_told),
        ("main_may_return_while_threads_work", main_may_return_while_threads_work),
    ];

    fn tests() -> impl Iterator<Item = &'static Test> {
        let others = [
            crate::transfers::TESTS,
            crate::faults::TESTS,
            crate::bounds::TESTS,
            crate::futures::TESTS,
            crate::kernels::TESTS,
        ];
        OWN_TESTS.iter().chain(others.into_iter().flatten())
    }

    pub fn main() -> ExitCode {
        if let Ok(name) = std::env::var("MILLSTREAM_FAKE_DRIVER_TEST") {
            let test = tests().find(|test| test.0 == name).expect("a test of that name");
            test.1();
            return ExitCode::SUCCESS;
        }
        let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
        let Some(folder) = library::build("fake-driver") else {
            println!("SKIPPED: there is no C compiler (cc)");
            return ExitCode::SUCCESS;
        };
        let mut failed = 0;
        println!();
        for (name, _) in tests() {
            if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
                continue;
            }
            let passed = run_alone(name, &folder);
            println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
            failed += usize::from(!passed);
        }
        println!("\ntest result: {failed} failed\n");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn run_alone(name: &str, folder: &Path) -> bool {
        let mut child = Process::new(std::env::current_exe().expect("this program"))
            .env("MILLSTREAM_FAKE_DRIVER_TEST", name)
            .env("LD_LIBRARY_PATH", folder)
            .env("MILLSTREAM_CACHE_DIR", "off")
            .spawn()
            .expect("this program starts again");
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match child.try_wait().expect("its own child") {
                Some(status) => return status.success(),
                None if Instant::now() > deadline => {
                    println!("{name} hangs");
                    let _ = child.kill();
                    let _ = child.wait();
                    return false;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    pub fn open() -> Device {
        Device::builder("cuda").open().expect("the driver is in the path")
    }

    pub fn row(count: usize) -> Layout {
        Layout::contiguous(DType::F32, &[count]).unwrap()
    }

    pub fn bytes(count: usize) -> Layout {
        Layout::contiguous(DType::U8, &[count]).unwrap()
    }

    pub fn matrix(rows: usize, columns: usize) -> Layout {
        Layout::contiguous(DType::F32, &[rows, columns]).unwrap()
    }

    pub fn plant(stream: &Stream, trouble: &[u8; 3]) -> Result<()> {
        let buffer = stream.allocate(3)?;
        stream.upload(buffer.operand(bytes(3)), trouble).map(drop)
    }

    fn both_devices_are_listed() {
        let list = Device::list();
        let (_, list) = list.iter().find(|(name, _)| *name == "cuda").unwrap();
        let names: Vec<_> = list.as_ref().unwrap().iter().map(|info| &info.name[..]).collect();
        assert_eq!(names, ["cuda:0", "cuda:1"]);
        assert!(Device::open("cuda:1").unwrap().info().description.contains("Fake GPU 1"));
        let error = Device::open("cuda:2").unwrap_err().to_string();
        assert!(error.contains("cuda:0, cuda:1"), "{error}");
    }

    fn transfers_of_any_size_arrive() {
        let stream = open().stream().unwrap();
        for count in [0, 1, 2, 4, 1000, 64 << 10, (64 << 10) + 1, 5 << 20] {
            let values: Vec<u8> = (0..count).map(|i| (i * 7 % 251) as u8).collect();
            let buffer = stream.allocate(count).unwrap();
            stream.upload(buffer.operand(bytes(count)), &values).unwrap();
            let got = stream.download(buffer.operand(bytes(count))).unwrap();
            assert!(got.bytes().unwrap() == values, "{count} bytes");
        }
    }

    fn replayed_batches_give_new_answers() {
        let device = open();
        let stream = device.stream().unwrap();
        let layers = [Layer::new(&stream).unwrap(), Layer::new(&stream).unwrap()];
        for call in 0..100 {
            for layer in &layers {
                let input = Layer::input(call);
                assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input), "{call}");
            }
        }
        // Two plans, each launched directly once.
        assert_eq!(graph_launches(), 2 * 99);
    }

    pub fn graph_launches() -> u64 {
        ask(c"fake_graph_launches")
    }

    /// Asks the driver for a number.
    pub fn ask(name: &std::ffi::CStr) -> u64 {
        // SAFETY: the library is loaded, and its functions of such names take nothing.
        unsafe {
            let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
            let function = libc::dlsym(library, name.as_ptr());
            assert!(!function.is_null());
            std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(function)()
        }
    }

    fn one_batch_may_be_in_flight_many_times() {
        let stream = open().stream().unwrap();
        let buffers = [(); 2].map(|()| stream.allocate(row(100).dense_bytes()).unwrap());
        let mut downloads = Vec::new();
        for call in 0..300 {
            for (index, buffer) in buffers.iter().enumerate() {
                let value = (call * 2 + index) as f32;
                stream.upload(buffer.operand(row(100)), &[value; 100]).unwrap();
            }
            for buffer in &buffers {
                downloads.push(stream.download(buffer.operand(row(100))).unwrap());
            }
            stream.flush().unwrap();
        }
        for (index, download) in downloads.into_iter().enumerate() {
            let values = download.read::<f32>().unwrap();
            assert!(values.iter().all(|&value| value == index as f32), "{index}: {}", values[0]);
        }
        assert!(graph_launches() > 0);
    }

    fn many_threads_get_their_own_answers() {
        const THREADS: usize = 40;
        let device = open();
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let stream = device.stream().unwrap();
                    let layer = Layer::new(&stream).unwrap();
                    for call in 0..200 {
                        let input = Layer::input(thread * 1000 + call);
                        let got = layer.call(&stream, &input).unwrap();
                        assert_eq!(got, Layer::expected(&input), "thread {thread}, call {call}");
                    }
                });
            }
        });
        assert_eq!(device.health().faults, 0);
    }

    /// Several threads per stream, each allocating what a call needs: their batches do not mix, and each
    /// thread gets the same blocks again, so that nearly every batch is one that came before.
    ///
    /// Of a hundred calls 99 are replayed where the machine has nothing else to do, about 40 where its cores
    /// are busy with something else, and 2 to 17 if batches were mixed. There are rounds until 30 were in one.
    fn threads_that_share_a_stream_are_replayed() {
        const THREADS: usize = 12;
        const CALLS: usize = 100;
        const ROUNDS: usize = 40;
        let device = Device::builder("cuda").streams(3).open().unwrap();
        let layer = Layer::new(&device.stream().unwrap()).unwrap();
        let (barrier, enough) = (Barrier::new(THREADS), AtomicBool::new(false));
        // No thread stops while others wait for it.
        let wrong = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (barrier, layer, enough, wrong) = (&barrier, &layer, &enough, &wrong);
                scope.spawn(move || {
                    let stream = device.stream();
                    for _ in 0..ROUNDS {
                        barrier.wait();
                        let before = device.counters().replays;
                        // Nobody calls before all have looked.
                        barrier.wait();
                        for call in 0..CALLS {
                            let input = Layer::input(thread * 1000 + call);
                            let got = stream
                                .as_ref()
                                .ok()
                                .map(|stream| layer.call_twice(stream, &input, thread + call).ok());
                            let expected = Layer::expected(&Layer::expected(&input));
                            if got.flatten() != Some(expected) {
                                wrong.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        barrier.wait();
                        if device.counters().replays - before > (THREADS * CALLS * 3 / 10) as u64 {
                            enough.store(true, Ordering::Relaxed);
                        }
                        barrier.wait();
                        if enough.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
        });
        let counters = device.counters();
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "answers");
        assert!(counters.shares >= THREADS as u64 - 2);
        assert!(enough.load(Ordering::Relaxed), "in none of {ROUNDS} rounds: {counters:?}");
    }

    /// Two plans with the same buffers in turn: a graph is of one plan, and of one set of buffers.
    fn plans_are_replayed_by_their_numbers() {
        const CALLS: u64 = 60;
        let device = open();
        let stream = device.stream().unwrap();
        let layer = Layer::new(&stream).unwrap();
        let one = matrix(ROWS, SIZE);
        let layers = |count: usize| {
            Plan::trace(&device, &[one], |inputs| {
                let mut value = inputs[0].clone();
                for _ in 0..count {
                    let next = stream.allocate(one.dense_bytes())?;
                    layer.record(&stream, &next, &value)?;
                    value = next;
                }
                Ok::<_, Error>(vec![Operand::new(value, one)])
            })
        };
        let plans = [layers(2).unwrap(), layers(3).unwrap()];
        let other = stream.allocate(one.dense_bytes()).unwrap();
        let before = device.counters().replays;
        for call in 0..CALLS as usize {
            let input = Layer::input(call);
            stream.upload(layer.x.operand(one), &input).unwrap();
            stream.flush().unwrap();
            let output = if call % 4 < 2 { &layer.y } else { &other };
            stream.run(&plans[call % 2], &[&layer.x], &[output]).unwrap();
            // A batch of its own: a download in it would tell it from one with another output.
            stream.flush().unwrap();
            let got = stream.download(output.operand(one)).unwrap().read::<f32>().unwrap();
            let twice = Layer::expected(&Layer::expected(&input));
            let expected = if call % 2 == 0 { twice } else { Layer::expected(&twice) };
            assert_eq!(got, expected, "call {call}");
        }
        let replays = device.counters().replays - before;
        assert!(replays >= CALLS - 4 * 3, "{replays} of {CALLS} runs were replayed");
    }

    fn streams_come_in_order() {
        let device = open();
        let streams: Vec<Stream> = (0..8).map(|_| Stream::new(&device).unwrap()).collect();
        let layer = Layer::new(&streams[0]).unwrap();
        for round in 0..200 {
            // Each value is written by one stream, used by a second and read by a third.
            let input = Layer::input(round);
            let one = matrix(ROWS, SIZE);
            let pick = |step: usize| &streams[(round * 3 + step * 5) % 8];
            pick(0).upload(layer.x.operand(one), &input).unwrap();
            layer.record(pick(1), &layer.y, &layer.x).unwrap();
            let got = pick(2).download(layer.y.operand(one)).unwrap().read::<f32>().unwrap();
            assert_eq!(got, Layer::expected(&input), "round {round}");
        }
    }

    /// The second is through long before the first.
    fn a_stream_that_waits_for_two_comes_after_both() {
        let device = open();
        let [first, second, last] = [(); 3].map(|()| Stream::new(&device).unwrap());
        let [x, y] = [(); 2].map(|()| last.allocate(row(4).dense_bytes()).unwrap());
        for buffer in [&x, &y] {
            last.upload(buffer.operand(row(4)), &[0f32; 4]).unwrap();
        }
        last.synchronize().unwrap();
        plant(&first, b"ZZZ").unwrap();
        plant(&second, b"HNG").unwrap();
        first.upload(x.operand(row(4)), &[1f32; 4]).unwrap();
        second.upload(y.operand(row(4)), &[2f32; 4]).unwrap();
        let downloads = [&x, &y].map(|buffer| last.download(buffer.operand(row(4))).unwrap());
        last.flush().unwrap();
        ask(c"fake_release");
        let values = downloads.map(|download| download.read::<f32>().unwrap());
        assert_eq!(values, [vec![1.0; 4], vec![2.0; 4]]);
    }

    fn waits_end_at_their_deadline() {
        let stream = open().stream().unwrap();
        plant(&stream, b"ZZZ").unwrap();
        let point = stream.timepoint();
        let started = Instant::now();
        let error = point.wait_within(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::Timeout { command: "upload", .. }), "{error}");
        assert!(started.elapsed() < Duration::from_millis(150), "{:?}", started.elapsed());
        point.wait().unwrap();
        assert!(started.elapsed() > Duration::from_millis(150));
    }

    fn a_lack_of_memory_is_no_fault() {
        let device = open();
        let mut held = Vec::new();
        let error = loop {
            match device.allocate(20 << 20) {
                Ok(buffer) => held.push(buffer),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory { .. }) && held.len() > 5, "{error}");
        drop(held);
        let stream = device.stream().unwrap();
        let layer = Layer::new(&stream).unwrap();
        let input = Layer::input(1);
        assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
        assert_eq!(device.health().state, HealthState::Healthy);
    }

    fn the_profiler_has_spans_of_the_device() {
        let device = open();
        let stream = Stream::new(&device).unwrap();
        let layer = Layer::new(&stream).unwrap();
        stream.synchronize().unwrap();
        device.profiler().start();
        let begun = millstream_core::profiler::now_ns();
        for call in 0..10 {
            let input = Layer::input(call);
            assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
        }
        let ended = millstream_core::profiler::now_ns();
        let traces = device.profiler().take();
        let spans: Vec<_> = traces.into_iter().flat_map(|trace| trace.spans).collect();
        let names: Vec<_> = spans.iter().map(|span| span.kind.name()).collect();
        assert_eq!(names, ["upload", "matmul", "download"].repeat(10));
        let slack = 5_000_000;
        for span in &spans {
            assert!(span.start_ns <= span.end_ns);
            assert!(span.start_ns + slack > begun && span.end_ns < ended + slack, "{span:?}");
        }
        let (before, after) = (Event::timed(&stream).unwrap(), Event::timed(&stream).unwrap());
        assert!(before.elapsed(&after).unwrap() < Duration::from_secs(10));
    }

    fn a_closed_device_gives_its_memory_back() {
        for _ in 0..20 {
            let device = open();
            let stream = device.stream().unwrap();
            let layer = Layer::new(&stream).unwrap();
            for call in 0..5 {
                let input = Layer::input(call);
                assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
            }
            // Far more than there is, if the devices before had kept theirs.
            let large = device.allocate(300 << 20).unwrap();
            drop((large, layer));
            device.close().unwrap();
            assert!(matches!(device.stream(), Err(Error::DeviceClosed { .. })));
        }
    }

    fn a_lost_device_fails_closed() {
        let device = open();
        let (bad, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let buffer = other.allocate(16).unwrap();
        plant(&bad, b"DIE").unwrap();
        let started = Instant::now();
        let error = bad.synchronize().unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("gave CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
        let refused = other.upload(buffer.operand(bytes(16)), &[0u8; 16]);
        assert!(matches!(refused, Err(Error::DeviceLost { .. })));
        assert_eq!(device.health().state, HealthState::Lost);
        let reopened = Device::builder("cuda").open();
        assert!(matches!(reopened, Err(Error::DeviceLost { .. })));
    }

    fn main_may_return_while_threads_work() {
        let device = open();
        let (started, all_started) = std::sync::mpsc::channel();
        for thread in 0..8 {
            let started = started.clone();
            std::thread::spawn(move || {
                let stream = device.stream().unwrap();
                let layer = Layer::new(&stream).unwrap();
                for call in 0.. {
                    let input = Layer::input(thread + call);
                    assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
                    let _ = started.send(());
                }
            });
        }
        for _ in 0..100 {
            all_started.recv().unwrap();
        }
    }

    fn a_forked_child_is_told() {
        let device = open();
        let stream = device.stream().unwrap();
        let buffer = stream.allocate(16).unwrap();
        // SAFETY: the child only calls what is promised to work after a fork, and leaves with `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let inherited = matches!(stream.synchronize(), Err(Error::Forked { .. }));
                let again = Device::open("cuda").err().map(|error| error.to_string());
                drop(buffer);
                let told = again.is_some_and(|text| text.contains("forked"));
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!(inherited && told))) }
            }
            child => {
                assert!(child > 0);
                let mut status = 0;
                // SAFETY: `status` is a place for the result.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0);
                stream.upload(buffer.operand(bytes(16)), &[0u8; 16]).unwrap();
                stream.synchronize().unwrap();
            }
        }
    }
}

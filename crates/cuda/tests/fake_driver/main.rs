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
mod failures;
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
mod lifetime;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod transfers;

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;
    use std::process::{Command as Process, ExitCode};
    use std::sync::Barrier;
    use std::time::{Duration, Instant};

    use millstream_core::{DType, Device, Error, Event, HealthState, Layout, Result, Stream};
    use millstream_cuda as _;

    use super::layer::{Layer, ROWS, SIZE};
    use super::library;

    pub type Test = (&'static str, fn());

    const OWN_TESTS: &[Test] = &[
        ("both_devices_are_listed", both_devices_are_listed),
        ("transfers_of_any_size_arrive", transfers_of_any_size_arrive),
        ("many_threads_get_their_own_answers", many_threads_get_their_own_answers),
        ("streams_come_in_order", streams_come_in_order),
        (
            "a_stream_that_waits_for_two_comes_after_both",
            a_stream_that_waits_for_two_comes_after_both,
        ),
        ("waits_end_at_their_deadline", waits_end_at_their_deadline),
        ("a_lack_of_memory_is_no_fault", a_lack_of_memory_is_no_fault),
        ("the_profiler_has_spans_of_the_device", the_profiler_has_spans_of_the_device),
    ];

    fn tests() -> impl Iterator<Item = &'static Test> {
        let others = [
            crate::transfers::TESTS,
            crate::replay::TESTS,
            crate::faults::TESTS,
            crate::failures::TESTS,
            crate::bounds::TESTS,
            crate::futures::TESTS,
            crate::kernels::TESTS,
            crate::lifetime::TESTS,
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
}

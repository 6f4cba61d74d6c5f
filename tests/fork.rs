//! Invariant 12, second half: after `fork` the child gets a clear error from inherited devices and can
//! open new ones, and the parent goes on. A program of its own, since a test runner has threads that a
//! fork would leave behind.

#[cfg(not(unix))]
fn main() {
    println!("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed");
}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    unix::main()
}

#[cfg(unix)]
mod unix {
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use millstream::graph::{Array, Batching, Call, Submitted, ValueType};
    use millstream::{
        Buffer, Command, DType, Device, Download, Error, Event, HealthState, Layout, Result,
        Session, Stream, Tensor, UnaryOp, nn,
    };

    const FORKS: usize = 20;
    const THREADS: usize = 8;
    /// After this long something hangs.
    const HANG: Duration = Duration::from_secs(120);

    pub fn main() -> ExitCode {
        let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
        let name = "invariant_12_a_fork_is_noticed";
        if filter.is_some_and(|filter| !name.contains(&filter)) {
            println!("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed");
            return ExitCode::SUCCESS;
        }
        let result = forks();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!("\nrunning 1 test\ntest {name} ... {outcome}");
        match result {
            Ok(()) => {
                println!("\ntest result: ok. 1 passed; 0 failed");
                ExitCode::SUCCESS
            }
            Err(reason) => {
                println!("{reason}\n\ntest result: FAILED. 0 passed; 1 failed");
                ExitCode::FAILURE
            }
        }
    }

    fn layout() -> Layout {
        Layout::contiguous(DType::F32, &[64]).expect("a small layout")
    }

    fn call(device: Device) -> Result<Vec<f32>> {
        let stream = device.stream()?;
        let buffer = stream.allocate(layout().dense_bytes())?;
        stream.record(Command::fill(buffer.operand(layout()), 4.0f32)?)?;
        let operand = buffer.operand(layout());
        stream.record(Command::unary(UnaryOp::Sqrt, operand, operand)?)?;
        stream.download(operand)?.read()
    }

    /// A session that always joins calls: one batch is in flight, so that a call finds others before it.
    fn session(device: &Device) -> nn::Result<Session> {
        let builder = Session::builder(device).batching(Batching::new().always().in_flight(1));
        let input = ("x", ValueType::Tensor(DType::F32, None));
        let code = |inputs: &[Tensor]| Ok(vec![inputs[0].exp()?]);
        let session = builder.trace(&[input], &["y"], code)?;
        session.warm_up(&[("x", &[1, 64])])?;
        Ok(session)
    }

    fn input() -> Array {
        Array::from_slice(&[1f32; 64], &[1, 64]).expect("a small array")
    }

    fn forks() -> Result<(), String> {
        let device = Device::cpu().map_err(|error| error.to_string())?;
        let session = session(&device).map_err(|error| error.to_string())?;
        let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
        // On, so that the threads take its locks all the time.
        device.profiler().start();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        call(device).expect("the parent goes on");
                        session.run([input()]).expect("the parent goes on");
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // A fork in the middle of this finds the list of streams locked.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    device.profiler().take();
                }
            });
            let result = (0..FORKS).try_for_each(|_| one_fork(device, &session, &calls));
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    /// What the child finds of its parent.
    struct Inherited {
        buffer: Buffer,
        stream: Stream,
        tensor: Tensor,
        event: Event,
        download: Download,
        /// Calls of which most wait for others.
        calls: [Submitted; 4],
    }

    impl Inherited {
        fn new(device: Device, session: &Session) -> nn::Result<Self> {
            let stream = Stream::new(&device)?;
            let buffer = device.allocate(layout().dense_bytes())?;
            stream.record(Command::fill(buffer.operand(layout()), 1.0f32)?)?;
            let download = stream.download(buffer.operand(layout()))?;
            let event = Event::timed(&stream)?;
            let tensor = Tensor::ones(&[8, 8], DType::F32, &device)?;
            let calls = [0; 4].map(|_| session.submit([input()], &Call::new()));
            Ok(Self { buffer, stream, tensor, event, download, calls })
        }
    }

    fn one_fork(device: Device, session: &Session, calls: &AtomicUsize) -> Result<(), String> {
        let inherited = Inherited::new(device, session).map_err(|error| error.to_string())?;
        // SAFETY: the child only uses what Millstream promises to work after a fork, and leaves
        // with `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err("fork failed".into()),
            0 => {
                let code = child(device, session, inherited);
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            pid => {
                // Others wait for these calls.
                drop(inherited);
                let before = calls.load(Ordering::Relaxed);
                let code = wait_for(pid)?;
                if code != 0 {
                    return Err(format!("the child failed at step {code}"));
                }
                let deadline = Instant::now() + HANG;
                while calls.load(Ordering::Relaxed) == before {
                    if Instant::now() > deadline {
                        return Err("the parent stands still".into());
                    }
                    std::thread::yield_now();
                }
                Ok(())
            }
        }
    }

    fn is_forked<T>(result: Result<T>) -> bool {
        matches!(result, Err(Error::Forked { .. }))
    }

    fn is_forked_nn<T>(result: nn::Result<T>) -> bool {
        matches!(result, Err(Error::Forked { .. }))
    }

    /// What must hold in the child; the number of the first step that does not.
    fn child(device: Device, session: &Session, inherited: Inherited) -> i32 {
        let Inherited { buffer, stream, tensor, event, download, calls } = inherited;
        if !is_forked(call(device)) {
            return 1;
        }
        if !is_forked(stream.synchronize())
            || !is_forked(stream.allocate(64))
            || !is_forked(device.synchronize())
            || !is_forked(buffer.settle())
            || !is_forked(device.close())
            || !is_forked(device.empty_cache())
        {
            return 2;
        }
        if device.health().state != HealthState::Forked || device.memory().in_use != 0 {
            return 3;
        }
        if !is_forked_nn(tensor.exp())
            || !is_forked_nn(tensor.to_vec::<f32>())
            || !is_forked_nn(Tensor::ones(&[4], DType::F32, &device))
        {
            return 6;
        }
        let (scoped, nested) =
            stream.scope(|| (device.stream(), stream.scope(|| call(device).map(drop))));
        stream.make_current();
        if !is_forked(scoped) || !is_forked(nested) || !is_forked(Stream::current(&device)) {
            return 7;
        }
        if !is_forked(event.query())
            || !is_forked(event.synchronize())
            || !is_forked(event.synchronize_within(Duration::from_millis(1)))
            || !is_forked(event.wait_on(&stream))
            || !is_forked(event.elapsed(&event))
            || !is_forked(Event::timed(&stream))
            || !is_forked(download.read::<f32>())
        {
            return 8;
        }
        let profiler = device.profiler();
        profiler.stop();
        profiler.start();
        if !profiler.take().is_empty()
            || profiler.to_json().contains("\"record\"")
            || !is_forked(profiler.export("/dev/null"))
        {
            return 9;
        }
        // Counting takes no lock; what was counted before the fork is there.
        if device.counters().commands == 0 || stream.counters().commands == 0 {
            return 10;
        }
        // The batch before it has a leader that is no thread of this process.
        if !is_forked_nn(session.run([input()])) {
            return 11;
        }
        let [polled @ .., dropped] = calls;
        // Some may have had their answers before.
        let ended =
            |mut call: Submitted| call.poll().is_some_and(|end| end.is_ok() || is_forked_nn(end));
        if !polled.into_iter().all(ended) {
            return 12;
        }
        drop((buffer, stream, tensor, event, dropped));
        match Device::cpu().and_then(call) {
            Ok(values) if values == [2.0; 64] => 0,
            Ok(_) => 4,
            Err(_) => 5,
        }
    }

    fn wait_for(pid: libc::pid_t) -> Result<i32, String> {
        let deadline = Instant::now() + HANG;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the result.
            match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } {
                0 if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                0 => {
                    // SAFETY: only a signal to our own child.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    return Err("the child hangs".into());
                }
                -1 => return Err("waitpid failed".into()),
                _ if libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status)),
                _ => return Err(format!("the child was killed by {}", libc::WTERMSIG(status))),
            }
        }
    }
}

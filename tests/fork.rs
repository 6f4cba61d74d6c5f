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

    use millstream::{
        Buffer, Command, DType, Device, Error, HealthState, Layout, Result, Stream, UnaryOp,
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
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("\nrunning 1 test\ntest {name} ... {verdict}");
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

    fn forks() -> Result<(), String> {
        let device = Device::cpu().map_err(|error| error.to_string())?;
        let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        call(device).expect("the parent goes on");
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let result = (0..FORKS).try_for_each(|_| one_fork(device, &calls));
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    fn one_fork(device: Device, calls: &AtomicUsize) -> Result<(), String> {
        let inherited = device.allocate(256).map_err(|error| error.to_string())?;
        let stream = Stream::new(&device).map_err(|error| error.to_string())?;
        // SAFETY: the child only uses what Millstream promises to work after a fork, and leaves
        // with `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err("fork failed".into()),
            0 => {
                let code = child(device, inherited, stream);
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            pid => {
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

    /// What must hold in the child; the number of the first step that does not.
    fn child(device: Device, inherited: Buffer, stream: Stream) -> i32 {
        let forked = |result: Result<()>| matches!(result, Err(Error::Forked { .. }));
        if !forked(call(device).map(drop)) {
            return 1;
        }
        if !forked(stream.synchronize())
            || !forked(stream.allocate(64).map(drop))
            || !forked(device.synchronize())
            || !forked(inherited.settle())
            || !forked(device.close())
        {
            return 2;
        }
        if device.health().state != HealthState::Forked || device.memory().in_use != 0 {
            return 3;
        }
        drop((inherited, stream));
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

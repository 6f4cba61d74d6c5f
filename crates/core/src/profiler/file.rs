//! The trace file of a setting. It is written when its device is closed, and when the process exits.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::{Duration, Instant};

use super::{Trace, chrome};
use crate::device::{fork, opened_devices};
use crate::{Error, Result};

/// How long a lock that another thread holds may delay the end of the process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How many closed devices one file shows; the oldest are dropped first.
const MAX_CLOSED: usize = 64;

/// The traces of devices that are already closed.
static CLOSED: Mutex<Vec<(PathBuf, Trace)>> = Mutex::new(Vec::new());

/// Checks that the file can be written before there is anything to write, and has it written when the process exits.
pub(crate) fn begin(path: &Path) -> Result<()> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| Error::write(path, error))?;
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function exists as long as the process, and no panic leaves it. If it cannot be registered,
        // there is no trace at exit, and nothing worse.
        unsafe { atexit(write_at_exit) };
    });
    Ok(())
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

/// Keeps the trace of a device that is being closed, and writes its file. Does nothing in a child of a fork: its
/// parent writes the file, and may have held the lock.
pub(crate) fn device_closed(path: &Path, trace: Trace) {
    if fork::generation() != 0 {
        return;
    }
    let Some(mut closed) = lock_within(&CLOSED, Instant::now() + LOCK_TIMEOUT) else { return };
    closed.push((path.to_owned(), trace));
    if closed.iter().filter(|(known, _)| known == path).count() > MAX_CLOSED
        && let Some(oldest) = closed.iter().position(|(known, _)| known == path)
    {
        closed.remove(oldest);
    }
    write(path, closed.iter().filter(|(known, _)| known == path).map(|(_, trace)| trace));
}

extern "C" fn write_at_exit() {
    // A panic must not leave a function that C calls, and there is nobody left to report it to.
    let _ = std::panic::catch_unwind(write_open_devices);
}

/// Writes the files of devices that are still open. Other threads may still run, and one of them may hold a lock
/// forever, so this waits for each lock only for a moment. A child of a fork writes nothing: the file belongs to its
/// parent.
fn write_open_devices() {
    if fork::generation() != 0 {
        return;
    }
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut open: Vec<(PathBuf, Trace)> = Vec::new();
    for device in opened_devices() {
        if let Some(path) = &device.config().trace
            && !device.is_closed()
            && let Some(trace) = device.profiler().take_within(deadline)
        {
            open.push((path.clone(), trace));
        }
    }
    let closed = lock_within(&CLOSED, deadline);
    let closed = closed.as_deref().map_or(&[][..], Vec::as_slice);
    // The newest device is the first of the list.
    open.reverse();
    let mut written: Vec<&Path> = Vec::new();
    for (path, _) in &open {
        if !written.contains(&path.as_path()) {
            let all = closed.iter().chain(&open).filter(|(known, _)| known == path);
            write(path, all.map(|(_, trace)| trace));
            written.push(path);
        }
    }
}

fn write<'a>(path: &Path, traces: impl Iterator<Item = &'a Trace>) {
    let traces: Vec<&Trace> = traces.collect();
    if let Err(error) = std::fs::write(path, chrome::trace(&traces)) {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{}", Error::write(path, error));
    }
}

/// Takes the lock; `None` if another thread holds it until the deadline.
pub(super) fn lock_within<T>(mutex: &Mutex<T>, deadline: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests;

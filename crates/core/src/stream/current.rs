//! The current stream of a thread, per device.

use std::cell::RefCell;

use super::lease::{Hold, Pin};
use super::submit::{Deadline, Reason};
use super::{Stream, StreamInner};
use crate::Result;
use crate::device::DeviceInner;

thread_local! {
    /// Newest last: a scope pushes, and the first entry of a device is its base.
    static CURRENT: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// A stream that is, or will be again, a thread's current one.
struct Entry {
    stream: &'static StreamInner,
    hold: Hold,
    /// Whether a scope put it there, which takes it away again.
    scoped: bool,
}

impl Entry {
    fn new(stream: &Stream, scoped: bool) -> Self {
        let hold = match &stream._lease {
            Some(lease) => Hold::Lease(lease.clone()),
            None => Pin::new(stream.inner).map_or(Hold::Nothing, |pin| Hold::Pin { _pin: pin }),
        };
        Self { stream: stream.inner, hold, scoped }
    }

    /// A handle for keeping: with its lease, where that is more than an affinity.
    fn handle(&self) -> Stream {
        let lease = match &self.hold {
            Hold::Lease(lease) => Some(lease.clone()),
            Hold::Nothing | Hold::Affinity(_) | Hold::Pin { .. } => None,
        };
        Stream { inner: self.stream, _lease: lease }
    }

    fn unleased(&self) -> Stream {
        Stream { inner: self.stream, _lease: None }
    }

    /// False for a stream that has gone to another thread.
    #[inline]
    fn is_valid(&self) -> bool {
        match &self.hold {
            Hold::Affinity(lease) => lease.is_valid(),
            Hold::Nothing | Hold::Lease(_) | Hold::Pin { .. } => true,
        }
    }
}

fn of(entries: &[Entry], device: &DeviceInner) -> Option<usize> {
    entries.iter().rposition(|entry| std::ptr::eq(entry.stream.device_inner(), device))
}

pub(super) fn stream(device: &'static DeviceInner) -> Result<Stream> {
    find(device, Entry::handle)
}

/// The current stream without a share in its lease, which the thread keeps.
pub(super) fn unleased(device: &'static DeviceInner) -> Result<Stream> {
    find(device, Entry::unleased)
}

fn find(device: &'static DeviceInner, name: impl Fn(&Entry) -> Stream) -> Result<Stream> {
    device.check()?;
    let known = CURRENT.try_with(|entries| {
        let entries = entries.borrow();
        of(&entries, device)
            .map(|index| &entries[index])
            .filter(|entry| entry.is_valid())
            .map(&name)
    });
    match known {
        Ok(Some(stream)) => Ok(stream),
        Ok(None) => lease(device, name),
        // The thread is ending and its own lease is gone.
        Err(_) => device.pool().default_stream(device),
    }
}

#[cold]
fn lease(device: &'static DeviceInner, name: impl Fn(&Entry) -> Stream) -> Result<Stream> {
    for entry in forget() {
        if std::ptr::eq(entry.stream.device_inner(), device) {
            // Commands that were recorded through an old handle would keep the stream from those who wait,
            // of whom the caller may be one. A fault is reported to those who wait for that work.
            let _ = entry.stream.flush(Reason::Flush, Deadline::usual(device));
        }
    }
    // The lease may wait for another thread, so nothing is borrowed here.
    let (stream, hold) = device.pool().lease_for_thread(device)?;
    let entry = Entry { stream, hold, scoped: false };
    let named = name(&entry);
    CURRENT.with(|entries| entries.borrow_mut().insert(0, entry));
    Ok(named)
}

/// Takes away what is of no use any more: streams that have gone to other threads, and those of devices that
/// are gone. Giving back a lease may submit work, so it is left to the caller, when the list is not borrowed.
fn forget() -> Vec<Entry> {
    let is_useless = |entry: &mut Entry| {
        !entry.scoped && (!entry.is_valid() || entry.stream.device_inner().check().is_err())
    };
    CURRENT.with(|entries| entries.borrow_mut().extract_if(.., is_useless).collect())
}

/// Gives the calling thread an idle stream where its own is busy, so that calls that nobody waits for on this
/// thread run side by side. Only where it has its stream by default: what a user chose stays. Never waits.
pub(super) fn move_to_idle(device: &'static DeviceInner) {
    let busy = |entries: &[Entry]| {
        let entry = entries.get(of(entries, device)?)?;
        let by_default = !entry.scoped && matches!(&entry.hold, Hold::Affinity(_));
        (by_default && !entry.stream.is_idle()).then_some(entry.stream)
    };
    let Ok(Some(stream)) = CURRENT.try_with(|entries| busy(&entries.borrow())) else { return };
    let Some((idle, hold)) = device.pool().lease_idle(device) else { return };
    let new = Entry { stream: idle, hold, scoped: false };
    let old = CURRENT.with(|entries| {
        let mut entries = entries.borrow_mut();
        let place =
            entries.iter().position(|entry| std::ptr::eq(entry.stream, stream) && !entry.scoped);
        match place {
            Some(index) => std::mem::replace(&mut entries[index], new),
            None => new,
        }
    });
    // Submits what was recorded there: not while the list is borrowed.
    drop(old);
}

pub(super) fn replace(stream: &Stream) {
    let device = stream.inner.device_inner();
    let old = CURRENT.with(|entries| {
        let mut entries = entries.borrow_mut();
        match of(&entries, device) {
            // A handle of what is current already adds nothing.
            Some(index)
                if stream._lease.is_none()
                    && std::ptr::eq(entries[index].stream, stream.inner)
                    && entries[index].is_valid() =>
            {
                None
            }
            Some(index) => {
                let scoped = entries[index].scoped;
                Some(std::mem::replace(&mut entries[index], Entry::new(stream, scoped)))
            }
            None => {
                entries.insert(0, Entry::new(stream, false));
                None
            }
        }
    });
    // Giving back a lease may submit work: not while the list is borrowed.
    drop(old);
}

pub(super) fn scope<R>(stream: &Stream, work: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            // Scopes nest, and bases go in at the front, so the last entry is the scope's own. It is
            // dropped after the borrow ends: giving back a lease may submit work.
            let left = CURRENT.with(|entries| entries.borrow_mut().pop());
            drop(left);
        }
    }
    let entry = Entry::new(stream, true);
    CURRENT.with(|entries| entries.borrow_mut().push(entry));
    let _leave = Leave;
    work()
}

#[cfg(all(test, not(loom)))]
mod tests;

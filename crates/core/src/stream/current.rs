//! The current stream of a thread, per device.

use std::cell::RefCell;

use super::Stream;
use crate::Result;
use crate::device::DeviceInner;

thread_local! {
    /// Newest last: a scope pushes, and the first entry of a device is its base.
    static CURRENT: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

fn of(streams: &[Stream], device: &DeviceInner) -> Option<usize> {
    streams.iter().rposition(|stream| std::ptr::eq(stream.inner().device_inner(), device))
}

pub(super) fn stream(device: &'static DeviceInner) -> Result<Stream> {
    find(device, Stream::clone)
}

/// The current stream without a share in its lease, which the thread keeps.
pub(super) fn visit(device: &'static DeviceInner) -> Result<Stream> {
    find(device, |stream| Stream { inner: stream.inner, _lease: None })
}

fn find(device: &'static DeviceInner, name: impl Fn(&Stream) -> Stream) -> Result<Stream> {
    device.check()?;
    let known = CURRENT.try_with(|streams| {
        let streams = streams.borrow();
        of(&streams, device).map(|index| name(&streams[index]))
    });
    match known {
        Ok(Some(stream)) => Ok(stream),
        Ok(None) => {
            // The lease may wait for another thread, so nothing is borrowed here.
            let stream = device.pool().lease_for_thread(device)?;
            let named = name(&stream);
            CURRENT.with(|streams| streams.borrow_mut().insert(0, stream));
            Ok(named)
        }
        // The thread is ending and its own lease is gone.
        Err(_) => device.pool().default_stream(device),
    }
}

pub(super) fn replace(stream: &Stream) {
    let device = stream.inner().device_inner();
    let old = CURRENT.with(|streams| {
        let mut streams = streams.borrow_mut();
        match of(&streams, device) {
            Some(index) => Some(std::mem::replace(&mut streams[index], stream.clone())),
            None => {
                streams.insert(0, stream.clone());
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
            let left = CURRENT.with(|streams| streams.borrow_mut().pop());
            drop(left);
        }
    }
    CURRENT.with(|streams| streams.borrow_mut().push(stream.clone()));
    let _leave = Leave;
    work()
}

//! The capture manager. A trace here is a file that says how many command buffers were committed while it was taken.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use super::lock;
use crate::control;
use crate::foundation::{Error, Url, alloc_default, write_error};
use crate::objc::{Header, Raw, Sel, This, autoreleased, class, method, new};

/// `MTLCaptureManager`.
#[derive(Default)]
pub struct CaptureManager(());

/// `MTLCaptureDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    object: AtomicUsize,
    destination: AtomicIsize,
    path: Mutex<Option<PathBuf>>,
}

/// A capture that goes on: where it goes, and how many command buffers there were before it.
static CURRENT: Mutex<Option<(PathBuf, u64)>> = Mutex::new(None);

/// `MTLCaptureDestinationGPUTraceDocument`.
const DOCUMENT: isize = 2;

class!(
    /// MTLCaptureManager.
    MANAGER, "MTLCaptureManager", CaptureManager,
    [
        method!(c"supportsDestination:", c"C@:q", supports, fn(This<CaptureManager>, Sel, isize) -> bool),
        method!(c"startCaptureWithDescriptor:error:", c"C@:@^@", start, fn(This<CaptureManager>, Sel, This<Descriptor>, *mut Raw) -> bool),
        method!(c"stopCapture", c"v@:", stop, fn(This<CaptureManager>, Sel)),
        method!(c"isCapturing", c"C@:", is_capturing, fn(This<CaptureManager>, Sel) -> bool),
    ],
    statics: [method!(c"sharedCaptureManager", c"@@:", shared, fn(Raw, Sel) -> Raw)]
);

class!(
    /// MTLCaptureDescriptor.
    DESCRIPTOR, "MTLCaptureDescriptor", Descriptor,
    [
        method!(c"setCaptureObject:", c"v@:@", set_object, fn(This<Descriptor>, Sel, *const Header)),
        method!(c"setDestination:", c"v@:q", set_destination, fn(This<Descriptor>, Sel, isize)),
        method!(c"setOutputURL:", c"v@:@", set_url, fn(This<Descriptor>, Sel, Option<This<Url>>)),
    ],
    alloc: alloc_default::<Descriptor>
);

unsafe extern "C" fn shared(_: Raw, _: Sel) -> Raw {
    autoreleased(Some(new(CaptureManager(()))))
}

/// Programs that Xcode has not started may capture if the environment says so, and only to a file.
unsafe extern "C" fn supports(_: This<CaptureManager>, _: Sel, destination: isize) -> bool {
    destination == DOCUMENT && std::env::var("MTL_CAPTURE_ENABLED").as_deref() == Ok("1")
}

unsafe extern "C" fn start(
    this: This<CaptureManager>,
    sel: Sel,
    descriptor: This<Descriptor>,
    error: *mut Raw,
) -> bool {
    let destination = descriptor.destination.load(Ordering::Relaxed);
    let path = lock(&descriptor.path).clone();
    let mut current = lock(&CURRENT);
    // SAFETY: a manager, as the caller has it.
    let supported = unsafe { supports(this, sel, destination) };
    let refusal = match &path {
        _ if !supported => "capturing is not enabled: MTL_CAPTURE_ENABLED",
        _ if descriptor.object.load(Ordering::Relaxed) == 0 => "there is nothing to capture",
        None => "a document needs a place",
        Some(path) if path.exists() => "there is a file of that name",
        _ if current.is_some() => "a capture goes on already",
        Some(path) => {
            *current = Some((path.clone(), control::commits()));
            return true;
        }
    };
    let refusal = Error::make("MTLCaptureErrorDomain", 1, refusal, None);
    // SAFETY: the caller passes null or a place.
    unsafe { write_error(error, refusal) };
    false
}

unsafe extern "C" fn stop(_: This<CaptureManager>, _: Sel) {
    if let Some((path, before)) = lock(&CURRENT).take() {
        let count = control::commits() - before;
        // Whoever wants it finds it missing.
        let _ = std::fs::write(path, format!("{count} command buffers\n"));
    }
}

unsafe extern "C" fn is_capturing(_: This<CaptureManager>, _: Sel) -> bool {
    lock(&CURRENT).is_some()
}

unsafe extern "C" fn set_object(this: This<Descriptor>, _: Sel, object: *const Header) {
    this.object.store(object.addr(), Ordering::Relaxed);
}

unsafe extern "C" fn set_destination(this: This<Descriptor>, _: Sel, destination: isize) {
    this.destination.store(destination, Ordering::Relaxed);
}

unsafe extern "C" fn set_url(this: This<Descriptor>, _: Sel, url: Option<This<Url>>) {
    *lock(&this.path) = url.map(|url| url.0.clone());
}

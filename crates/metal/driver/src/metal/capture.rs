//! The capture manager: there is nobody to look at a capture, so it refuses every destination.

use crate::foundation::{Error, Url, alloc_default, write_error};
use crate::objc::{Header, Raw, Sel, This, autoreleased, class, method, new};

/// `MTLCaptureManager`.
#[derive(Default)]
pub struct CaptureManager(());

/// `MTLCaptureDescriptor`.
#[derive(Default)]
pub struct Descriptor(());

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

unsafe extern "C" fn supports(_: This<CaptureManager>, _: Sel, _: isize) -> bool {
    false
}

unsafe extern "C" fn start(
    _: This<CaptureManager>,
    _: Sel,
    _: This<Descriptor>,
    error: *mut Raw,
) -> bool {
    let refusal = Error::make("MTLCaptureErrorDomain", 1, "captures need Xcode", None);
    // SAFETY: the caller passes null or a place.
    unsafe { write_error(error, refusal) };
    false
}

unsafe extern "C" fn stop(_: This<CaptureManager>, _: Sel) {}

unsafe extern "C" fn is_capturing(_: This<CaptureManager>, _: Sel) -> bool {
    false
}

unsafe extern "C" fn set_object(_: This<Descriptor>, _: Sel, _: *const Header) {}

unsafe extern "C" fn set_destination(_: This<Descriptor>, _: Sel, _: isize) {}

unsafe extern "C" fn set_url(_: This<Descriptor>, _: Sel, _: Option<This<Url>>) {}

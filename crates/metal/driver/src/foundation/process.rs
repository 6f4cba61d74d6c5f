//! NSProcessInfo: which system this is.

use super::Text;
use crate::control;
use crate::objc::{Raw, Sel, This, autoreleased, class, method, new};

/// The one process.
#[derive(Default)]
pub struct ProcessInfo(());

/// `NSOperatingSystemVersion`.
#[repr(C)]
pub struct Version {
    major: isize,
    minor: isize,
    patch: isize,
}

class!(
    /// NSProcessInfo.
    PROCESS_INFO, "NSProcessInfo", ProcessInfo,
    [
        method!(c"operatingSystemVersion", c"{?=qqq}@:", version, fn(This<ProcessInfo>, Sel) -> Version),
        method!(c"operatingSystemVersionString", c"@@:", version_text, fn(This<ProcessInfo>, Sel) -> Raw),
    ],
    statics: [method!(c"processInfo", c"@@:", shared, fn(Raw, Sel) -> Raw)]
);

unsafe extern "C" fn shared(_: Raw, _: Sel) -> Raw {
    autoreleased(Some(new(ProcessInfo(()))))
}

unsafe extern "C" fn version_text(_: This<ProcessInfo>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(&control::system_text())))
}

unsafe extern "C" fn version(_: This<ProcessInfo>, _: Sel) -> Version {
    let (major, minor) = control::system_version();
    Version { major, minor, patch: 0 }
}

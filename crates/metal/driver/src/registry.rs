//! The I/O registry and Core Foundation, as far as it takes to learn how many cores the GPU has.

use std::ffi::{CStr, c_char, c_void};

use crate::control;

/// Objects are numbers here: what a property is, with its value behind it.
const STRING: usize = 1 << 40;
const NUMBER: usize = 2 << 40;
const ACCELERATOR: u32 = 77;

#[unsafe(no_mangle)]
unsafe extern "C" fn IOServiceMatching(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller passes a C string.
    let known = unsafe { CStr::from_ptr(name) } == c"AGXAccelerator";
    usize::from(known) as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn IOServiceGetMatchingService(_: u32, matching: *mut c_void) -> u32 {
    if matching.is_null() || control::registry_cores() == 0 { 0 } else { ACCELERATOR }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn IORegistryEntryCreateCFProperty(
    entry: u32,
    key: *const c_void,
    _: *const c_void,
    _: u32,
) -> *const c_void {
    let unknown = control::registry_cores() == u32::MAX;
    let known = entry == ACCELERATOR && key.addr() == STRING && !unknown;
    if known {
        (NUMBER + control::registry_cores() as usize) as *const c_void
    } else {
        std::ptr::null()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn IOObjectRelease(_: u32) -> i32 {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn CFStringCreateWithCString(
    _: *const c_void,
    text: *const c_char,
    _: u32,
) -> *const c_void {
    // SAFETY: the caller passes a C string.
    let known = unsafe { CStr::from_ptr(text) } == c"gpu-core-count";
    (STRING + usize::from(!known)) as *const c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn CFGetTypeID(object: *const c_void) -> usize {
    object.addr() >> 40
}

#[unsafe(no_mangle)]
extern "C" fn CFNumberGetTypeID() -> usize {
    NUMBER >> 40
}

#[unsafe(no_mangle)]
unsafe extern "C" fn CFNumberGetValue(number: *const c_void, _: isize, value: *mut c_void) -> u8 {
    // SAFETY: the caller passes a place for a number of 64 bits.
    unsafe { *value.cast::<i64>() = (number.addr() - NUMBER) as i64 };
    1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn CFRelease(_: *const c_void) {}

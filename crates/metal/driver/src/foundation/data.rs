//! NSData.

use std::ffi::c_void;

use crate::objc::{Id, Sel, This, class, method, new};

/// Bytes.
pub struct Data(Vec<u8>);

class!(
    /// NSData.
    DATA, "NSData", Data,
    [
        method!(c"length", c"Q@:", length, fn(This<Data>, Sel) -> usize),
        method!(c"bytes", c"^v@:", bytes, fn(This<Data>, Sel) -> *const c_void),
    ]
);

impl Data {
    pub fn make(bytes: Vec<u8>) -> Id<Data> {
        new(Data(bytes))
    }
}

unsafe extern "C" fn length(this: This<Data>, _: Sel) -> usize {
    this.0.len()
}

unsafe extern "C" fn bytes(this: This<Data>, _: Sel) -> *const c_void {
    this.0.as_ptr().cast()
}

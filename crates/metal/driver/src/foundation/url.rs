//! NSURL, of files.

use std::path::PathBuf;

use super::{Text, text};
use crate::objc::{Raw, Sel, This, autoreleased, class, method, new};

/// The path of a file.
pub struct Url(pub PathBuf);

class!(
    /// NSURL.
    URL, "NSURL", Url,
    [method!(c"path", c"@@:", path, fn(This<Url>, Sel) -> Raw)],
    statics: [
        method!(c"fileURLWithPath:", c"@@:@", file, fn(Raw, Sel, Option<This<Text>>) -> Raw),
    ]
);

unsafe extern "C" fn path(this: This<Url>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(&this.0.to_string_lossy())))
}

unsafe extern "C" fn file(_: Raw, _: Sel, path: Option<This<Text>>) -> Raw {
    autoreleased(Some(new(Url(PathBuf::from(text(path))))))
}

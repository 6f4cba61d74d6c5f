//! NSString, in UTF-8.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::objc::{Id, Raw, Sel, This, class, method, new};
use crate::rules::{Rule, violation};

const UTF8: c_int = 4;

/// A string: empty when it is allocated, set once by its initializer.
#[derive(Default)]
pub struct Text(OnceLock<CString>);

class!(
    /// NSString.
    STRING, "NSString", Text,
    [
        method!(c"initWithBytes:length:encoding:", c"@@:^vQi", init, fn(Raw, Sel, *const c_void, usize, c_int) -> Raw),
        method!(c"UTF8String", c"*@:", utf8, fn(This<Text>, Sel) -> *const c_char),
        method!(c"lengthOfBytesUsingEncoding:", c"Q@:i", bytes, fn(This<Text>, Sel, c_int) -> usize),
        method!(c"length", c"Q@:", length, fn(This<Text>, Sel) -> usize),
        method!(c"description", c"@@:", description, fn(This<Text>, Sel) -> Raw),
    ],
    alloc: super::alloc_default::<Text>
);

/// Leaves an object in the pool, as Metal's own code may in any call that returns none.
pub fn leave_temporary() {
    crate::objc::autoreleased(Some(Text::make("temporary")));
}

impl Text {
    pub fn make(text: &str) -> Id<Text> {
        let text = CString::new(text.replace('\0', "")).unwrap_or_default();
        new(Text(OnceLock::from(text)))
    }

    pub fn as_str(&self) -> &str {
        self.0.get().and_then(|text| text.to_str().ok()).unwrap_or("")
    }
}

/// What an argument says, if it is there.
pub fn text(argument: Option<This<Text>>) -> String {
    argument.map_or_else(String::new, |text| text.as_str().to_owned())
}

unsafe extern "C" fn init(
    raw: Raw,
    _: Sel,
    bytes: *const c_void,
    length: usize,
    encoding: c_int,
) -> Raw {
    // SAFETY: the receiver is what `alloc` made of this class.
    let this = unsafe { std::mem::transmute::<Raw, This<Text>>(raw) };
    let bytes = if length == 0 {
        &[]
    } else {
        // SAFETY: the caller passes so many bytes.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }
    };
    match CString::new(bytes) {
        Ok(text) if encoding == UTF8 && text.to_str().is_ok() => _ = this.0.set(text),
        _ => violation(Rule::StringEncoding, format_args!("{length} bytes in encoding {encoding}")),
    }
    raw
}

unsafe extern "C" fn utf8(this: This<Text>, _: Sel) -> *const c_char {
    this.0.get().map_or(c"".as_ptr(), |text| text.as_ptr())
}

unsafe extern "C" fn bytes(this: This<Text>, _: Sel, _: c_int) -> usize {
    this.as_str().len()
}

unsafe extern "C" fn length(this: This<Text>, _: Sel) -> usize {
    this.as_str().encode_utf16().count()
}

unsafe extern "C" fn description(this: This<Text>, _: Sel) -> Raw {
    crate::objc::autoreleased(Some(this.retain()))
}

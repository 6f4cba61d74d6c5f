//! NSError.

use super::Text;
use crate::objc::{Id, Raw, Sel, This, autoreleased, class, method, new};

/// A domain, a code and a text.
pub struct Error {
    domain: &'static str,
    code: isize,
    text: String,
    underlying: Option<Id<Error>>,
}

class!(
    /// NSError.
    ERROR, "NSError", Error,
    [
        method!(c"localizedDescription", c"@@:", description, fn(This<Error>, Sel) -> Raw),
        method!(c"description", c"@@:", description, fn(This<Error>, Sel) -> Raw),
        method!(c"domain", c"@@:", domain, fn(This<Error>, Sel) -> Raw),
        method!(c"code", c"q@:", code, fn(This<Error>, Sel) -> isize),
        method!(c"underlyingErrors", c"@@:", underlying, fn(This<Error>, Sel) -> Raw),
    ]
);

impl Error {
    pub fn make(
        domain: &'static str,
        code: isize,
        text: impl Into<String>,
        underlying: Option<Id<Error>>,
    ) -> Id<Error> {
        new(Error { domain, code, text: text.into(), underlying })
    }
}

/// Leaves an error where the caller wants one, as methods that end in `error:` do.
///
/// # Safety
///
/// `place` is null or can be written.
pub unsafe fn write_error(place: *mut Raw, error: Id<Error>) {
    let error = autoreleased(Some(error));
    if !place.is_null() {
        // SAFETY: as the caller says.
        unsafe { *place = error };
    }
}

unsafe extern "C" fn description(this: This<Error>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(&this.text)))
}

unsafe extern "C" fn domain(this: This<Error>, _: Sel) -> Raw {
    autoreleased(Some(Text::make(this.domain)))
}

unsafe extern "C" fn code(this: This<Error>, _: Sel) -> isize {
    this.code
}

unsafe extern "C" fn underlying(this: This<Error>, _: Sel) -> Raw {
    let all: Vec<_> = this.underlying.iter().map(|error| error.clone().into()).collect();
    autoreleased(Some(super::Array::make(all)))
}

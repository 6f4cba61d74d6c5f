//! NSArray.

use crate::objc::{Id, Payload, Raw, Sel, This, class, method, new, objc_release, objc_retain};

/// A reference to an object of any class.
pub struct Any(Raw);

// SAFETY: the driver's objects may go to any thread.
unsafe impl Send for Any {}
// SAFETY: as above.
unsafe impl Sync for Any {}

impl<T: Payload> From<Id<T>> for Any {
    fn from(id: Id<T>) -> Self {
        Any(id.into_raw())
    }
}

impl Drop for Any {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that this is.
        unsafe { objc_release(self.0) };
    }
}

/// Objects in order.
pub struct Array(Vec<Any>);

class!(
    /// NSArray.
    ARRAY, "NSArray", Array,
    [
        method!(c"count", c"Q@:", count, fn(This<Array>, Sel) -> usize),
        method!(c"objectAtIndex:", c"@@:Q", object, fn(This<Array>, Sel, usize) -> Raw),
    ],
    statics: [method!(c"arrayWithObjects:count:", c"@@:^@Q", with_objects, fn(Raw, Sel, *const Raw, usize) -> Raw)]
);

impl Array {
    pub fn make(objects: Vec<Any>) -> Id<Array> {
        new(Array(objects))
    }
}

unsafe extern "C" fn count(this: This<Array>, _: Sel) -> usize {
    this.0.len()
}

unsafe extern "C" fn object(this: This<Array>, _: Sel, index: usize) -> Raw {
    let Some(any) = this.0.get(index) else { return std::ptr::null_mut() };
    // SAFETY: the array has a reference, and the caller gets one of the pool's.
    crate::objc::autorelease(unsafe { objc_retain(any.0) })
}

unsafe extern "C" fn with_objects(_: Raw, _: Sel, objects: *const Raw, count: usize) -> Raw {
    // SAFETY: the caller passes so many objects.
    let objects =
        (0..count).map(|index| Any(unsafe { objc_retain(*objects.add(index)) })).collect();
    crate::objc::autoreleased(Some(Array::make(objects)))
}

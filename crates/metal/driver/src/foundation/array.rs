//! NSArray.

use crate::objc::{Id, Payload, Raw, Sel, This, class, method, new, objc_release, objc_retain};

/// A reference to an object of any class.
#[repr(transparent)]
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
        method!(c"countByEnumeratingWithState:objects:count:", c"Q@:^{?=Q^@^Q[5Q]}^@Q", enumerate, fn(This<Array>, Sel, *mut Enumeration, *mut Raw, usize) -> usize),
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

/// `NSFastEnumerationState`.
#[repr(C)]
pub struct Enumeration {
    state: usize,
    items: *const Any,
    mutations: *const usize,
    extra: [usize; 5],
}

/// Gives all objects at once, as they lie in the array, which nobody changes.
unsafe extern "C" fn enumerate(
    this: This<Array>,
    _: Sel,
    enumeration: *mut Enumeration,
    _: *mut Raw,
    _: usize,
) -> usize {
    static NEVER_CHANGES: usize = 0;
    // SAFETY: the caller passes a state of its own.
    let enumeration = unsafe { &mut *enumeration };
    if enumeration.state != 0 {
        return 0;
    }
    enumeration.state = 1;
    enumeration.items = this.0.as_ptr();
    enumeration.mutations = &raw const NEVER_CHANGES;
    this.0.len()
}

unsafe extern "C" fn with_objects(_: Raw, _: Sel, objects: *const Raw, count: usize) -> Raw {
    // SAFETY: the caller passes so many objects.
    let objects =
        (0..count).map(|index| Any(unsafe { objc_retain(*objects.add(index)) })).collect();
    crate::objc::autoreleased(Some(Array::make(objects)))
}

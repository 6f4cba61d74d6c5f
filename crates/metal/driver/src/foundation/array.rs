//! NSArray.

use std::sync::OnceLock;

use crate::objc::{
    Id, Payload, Raw, Sel, This, cast, class, method, new, objc_release, objc_retain,
};

/// A reference to an object of any class.
#[repr(transparent)]
pub struct Any(Raw);

// SAFETY: the driver's objects may go to any thread.
unsafe impl Send for Any {}
// SAFETY: as above.
unsafe impl Sync for Any {}

impl Any {
    /// One more reference.
    ///
    /// # Safety
    ///
    /// The object lives.
    pub unsafe fn retain(object: Raw) -> Self {
        // SAFETY: as the caller says.
        Any(unsafe { objc_retain(object) })
    }
}

impl Clone for Any {
    fn clone(&self) -> Self {
        // SAFETY: this reference keeps it.
        unsafe { Self::retain(self.0) }
    }
}

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

/// Objects in order: none when it is allocated, set once by its initializer.
#[derive(Default)]
pub struct Array(OnceLock<Vec<Any>>);

class!(
    /// NSArray.
    ARRAY, "NSArray", Array,
    [
        method!(c"initWithObjects:count:", c"@@:^@Q", init, fn(Raw, Sel, *const Raw, usize) -> Raw),
        method!(c"count", c"Q@:", count, fn(This<Array>, Sel) -> usize),
        method!(c"objectAtIndex:", c"@@:Q", object, fn(This<Array>, Sel, usize) -> Raw),
        method!(c"countByEnumeratingWithState:objects:count:", c"Q@:^{?=Q^@^Q[5Q]}^@Q", enumerate, fn(This<Array>, Sel, *mut Enumeration, *mut Raw, usize) -> usize),
    ],
    alloc: super::alloc_default::<Array>,
    statics: [method!(c"arrayWithObjects:count:", c"@@:^@Q", with_objects, fn(Raw, Sel, *const Raw, usize) -> Raw)]
);

impl Array {
    fn objects(&self) -> &[Any] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    /// Those of its objects that are of a class.
    pub fn of_class<T: Payload>(&self) -> Vec<Id<T>> {
        // SAFETY: the array has a reference to each.
        self.objects()
            .iter()
            .filter_map(|any| unsafe { cast::<T>(any.0) })
            .map(This::retain)
            .collect()
    }

    pub fn make(objects: Vec<Any>) -> Id<Array> {
        new(Array(OnceLock::from(objects)))
    }
}

unsafe extern "C" fn count(this: This<Array>, _: Sel) -> usize {
    this.objects().len()
}

unsafe extern "C" fn object(this: This<Array>, _: Sel, index: usize) -> Raw {
    let Some(any) = this.objects().get(index) else { return std::ptr::null_mut() };
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
    enumeration.items = this.objects().as_ptr();
    enumeration.mutations = &raw const NEVER_CHANGES;
    this.objects().len()
}

/// # Safety
///
/// The caller passes so many objects.
unsafe fn taken(objects: *const Raw, count: usize) -> Vec<Any> {
    // SAFETY: as the caller says.
    (0..count).map(|index| Any(unsafe { objc_retain(*objects.add(index)) })).collect()
}

unsafe extern "C" fn init(raw: Raw, _: Sel, objects: *const Raw, count: usize) -> Raw {
    // SAFETY: the receiver is what `alloc` made of this class.
    let this = unsafe { std::mem::transmute::<Raw, This<Array>>(raw) };
    // SAFETY: the caller passes so many objects.
    _ = this.0.set(unsafe { taken(objects, count) });
    raw
}

unsafe extern "C" fn with_objects(_: Raw, _: Sel, objects: *const Raw, count: usize) -> Raw {
    // SAFETY: the caller passes so many objects.
    crate::objc::autoreleased(Some(Array::make(unsafe { taken(objects, count) })))
}

//! Objects: a header that Objective-C sees, and a Rust value behind it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::Class;
use crate::own_time::OwnTime;
use crate::rules::{Rule, violation};

/// How every object begins. Headers are never freed, so that a message to an object that is gone is noticed.
#[repr(C)]
pub struct Header {
    isa: Option<&'static Class>,
    /// References. Below 1 it is gone.
    count: AtomicI32,
    /// The Rust value, until the object goes.
    value: AtomicPtr<()>,
    drop: unsafe fn(*mut ()),
}

impl Header {
    pub fn class(&self) -> Option<&'static Class> {
        self.isa
    }

    /// Only for objects: a class has no count.
    pub fn is_gone(&self) -> bool {
        self.isa.is_none_or(|class| !class.is_meta()) && self.count.load(Ordering::Acquire) < 1
    }
}

/// A Rust value that an Objective-C object holds.
pub trait Payload: Send + Sync + Sized + 'static {
    fn class() -> &'static Class;
}

/// How many objects of each class live, and blocks.
static LIVING: Mutex<BTreeMap<&'static str, i64>> = Mutex::new(BTreeMap::new());

/// Counts objects of a class.
pub fn count(class: &'static str, by: i64) {
    *LIVING.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).entry(class).or_default() += by;
}

/// The classes that have living objects, with their number.
pub fn living() -> Vec<(&'static str, i64)> {
    let living = LIVING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    living.iter().filter(|(_, count)| **count != 0).map(|(name, count)| (*name, *count)).collect()
}

/// A new object with one reference.
pub(crate) fn new<T: Payload>(value: T) -> Id<T> {
    unsafe fn drop_value<T>(value: *mut ()) {
        // SAFETY: made from a box of this type, and dropped once.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    }
    let class = T::class();
    count(class.name(), 1);
    let header = Header {
        isa: Some(class),
        count: AtomicI32::new(1),
        value: AtomicPtr::new(Box::into_raw(Box::new(value)).cast()),
        drop: drop_value::<T>,
    };
    Id { header: Box::leak(Box::new(header)), payload: PhantomData }
}

/// The receiver of a message, whose class was checked by the lookup; or an argument that is not null.
#[repr(transparent)]
pub struct This<T: Payload> {
    header: &'static Header,
    payload: PhantomData<T>,
}

impl<T: Payload> Clone for This<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Payload> Copy for This<T> {}

impl<T: Payload> This<T> {
    pub fn retain(self) -> Id<T> {
        // SAFETY: a living object, as every `This` is.
        unsafe { objc_retain(ptr::from_ref(self.header).cast_mut()) };
        Id { header: self.header, payload: PhantomData }
    }

    pub fn address(self) -> usize {
        ptr::from_ref(self.header).addr()
    }
}

impl<T: Payload> Deref for This<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.header.value.load(Ordering::Acquire).cast::<T>();
        assert!(!value.is_null(), "a message to a deallocated {}", T::class().name());
        // SAFETY: the value of a living object of this class; the caller of the message keeps it alive.
        unsafe { &*value }
    }
}

/// A reference that counts.
#[repr(transparent)]
pub struct Id<T: Payload> {
    header: &'static Header,
    payload: PhantomData<T>,
}

impl<T: Payload> Id<T> {
    pub fn this(&self) -> This<T> {
        This { header: self.header, payload: PhantomData }
    }

    /// Gives the reference to the caller of a message, as methods named `new…` do.
    pub fn into_raw(self) -> *mut Header {
        let header = ptr::from_ref(self.header).cast_mut();
        std::mem::forget(self);
        header
    }

    pub fn is(&self, other: &Self) -> bool {
        ptr::eq(self.header, other.header)
    }
}

impl<T: Payload> Clone for Id<T> {
    fn clone(&self) -> Self {
        self.this().retain()
    }
}

impl<T: Payload> Drop for Id<T> {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that this is.
        unsafe { objc_release(ptr::from_ref(self.header).cast_mut()) };
    }
}

impl<T: Payload> Deref for Id<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.header.value.load(Ordering::Acquire).cast::<T>();
        // SAFETY: this reference keeps the object.
        unsafe { &*value }
    }
}

/// Gives a reference to the innermost pool, as methods do whose names do not begin with `new`.
pub(crate) fn autoreleased<T: Payload>(id: Option<Id<T>>) -> *mut Header {
    id.map_or(ptr::null_mut(), |id| super::pool::autorelease(id.into_raw()))
}

/// An object as one of a class, if it is.
///
/// # Safety
///
/// The object lives, and whoever holds it holds it as long as the result is used.
pub unsafe fn cast<T: Payload>(object: *mut Header) -> Option<This<T>> {
    // SAFETY: as the caller says.
    let header: &'static Header = unsafe { object.as_ref() }?;
    let same = header.class().is_some_and(|class| ptr::eq(class, T::class()));
    same.then_some(This { header, payload: PhantomData })
}

/// A reference to what an argument names.
pub fn retained<T: Payload>(argument: Option<This<T>>) -> Option<Id<T>> {
    argument.map(This::retain)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn objc_retain(object: *mut Header) -> *mut Header {
    let _own = OwnTime::begin();
    // SAFETY: null, an object or a class.
    if let Some(header) = unsafe { object.as_ref() }
        && let Some(class) = header.isa
        && !class.is_meta()
        && header.count.fetch_add(1, Ordering::Relaxed) < 1
    {
        violation(Rule::DeallocatedReceiver, format_args!("-[{} retain]", class.name()));
    }
    object
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn objc_release(object: *mut Header) {
    let _own = OwnTime::begin();
    // SAFETY: null, an object or a class.
    let Some(header) = (unsafe { object.as_ref() }) else { return };
    let Some(class) = header.isa else { return };
    if class.is_meta() {
        return;
    }
    let before = header.count.fetch_sub(1, Ordering::AcqRel);
    if before < 1 {
        violation(Rule::OverRelease, class.name());
    }
    if before != 1 {
        return;
    }
    let value = header.value.swap(ptr::null_mut(), Ordering::AcqRel);
    if !value.is_null() {
        // SAFETY: the last reference is gone, and the value was taken out once.
        unsafe { (header.drop)(value) };
    }
    count(class.name(), -1);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_storeStrong(place: *mut *mut Header, object: *mut Header) {
    // SAFETY: the caller passes a place that holds a reference or null.
    unsafe {
        let old = *place;
        *place = objc_retain(object);
        objc_release(old);
    }
}

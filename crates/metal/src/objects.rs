//! Metal's objects as this crate holds them.
//!
//! The hot path passes bare pointers ([`Raw`]): whoever holds the object sees to it that it outlives them. Objects that a
//! command buffer may use are released by [`DeferredReleases`](crate::deferred::DeferredReleases), never dropped.

use std::ptr::NonNull;

use objc2::Message;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::MTLBuffer;

/// An object that is held.
pub(crate) type Obj<T> = Retained<ProtocolObject<T>>;
/// An object that is borrowed.
pub(crate) type Ref<T> = ProtocolObject<T>;

/// A pointer to an object that somebody else holds. A list of them is a list of pointers, as Metal takes it.
#[repr(transparent)]
pub(crate) struct Raw<T: ?Sized>(NonNull<Ref<T>>);

impl<T: ?Sized> Raw<T> {
    pub fn of(object: &Ref<T>) -> Self {
        Self(NonNull::from(object))
    }

    /// The object.
    ///
    /// # Safety
    ///
    /// Whoever holds it holds it as long as `'a`.
    pub unsafe fn get<'a>(self) -> &'a Ref<T> {
        // SAFETY: as the caller says.
        unsafe { self.0.as_ref() }
    }

    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }
}

impl<T: ?Sized> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Raw<T> {}

impl<T: ?Sized> PartialEq for Raw<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}
impl<T: ?Sized> Eq for Raw<T> {}

impl<T: ?Sized> std::fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.address())
    }
}

// SAFETY: a pointer; what is done with the object is up to `get`. Metal lets any thread use the objects that this crate
// passes so: buffers, pipelines, events, indirect command buffers.
unsafe impl<T: ?Sized> Send for Raw<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized> Sync for Raw<T> {}

/// An object that Metal lets any thread use, and whose binding does not say so: buffers, residency sets, sample buffers.
pub(crate) struct AnyThread<T>(pub T);

// SAFETY: Metal's documentation lets any thread use these objects; what must not happen at the same time is the
// owner's to see to.
unsafe impl<T> Send for AnyThread<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for AnyThread<T> {}

impl<T> std::ops::Deref for AnyThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A buffer as launches name it.
pub(crate) type RawBufferObject = Raw<dyn MTLBuffer>;

/// An object of any class that is only kept.
pub(crate) struct Kept(
    #[expect(dead_code, reason = "held, not read")] AnyThread<Retained<objc2::runtime::AnyObject>>,
);

impl Kept {
    pub fn new<T: Message>(object: Retained<T>) -> Self {
        // SAFETY: every object is one of any class.
        Self(AnyThread(unsafe { Retained::cast_unchecked(object) }))
    }
}

/// Calls something with an autorelease pool in place. Unlike objc2's own, also while a thread's variables are destroyed: a thread
/// that ends submits what it has recorded.
pub(crate) fn pooled<T>(call: impl FnOnce() -> T) -> T {
    struct Pool(*mut std::ffi::c_void);
    impl Drop for Pool {
        fn drop(&mut self) {
            // SAFETY: pushed below, by this thread, and popped only here.
            unsafe { objc2::ffi::objc_autoreleasePoolPop(self.0) };
        }
    }
    // SAFETY: popped when this ends.
    let _pool = Pool(unsafe { objc2::ffi::objc_autoreleasePoolPush() });
    call()
}

//! `std`'s types with a point before and after each operation.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LockResult;
pub use std::sync::PoisonError;
pub use std::sync::atomic::Ordering;
use std::sync::{TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

use super::point;

/// As [`std::sync::Mutex`].
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// As [`std::sync::MutexGuard`]. None while a condition variable has it.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized>(Option<std::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// As there.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As there.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As there.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        point();
        let locked = wrap(self.0.lock());
        point();
        locked
    }

    /// As there.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        let locked = self.0.try_lock();
        point();
        locked.map(|guard| MutexGuard(Some(guard))).map_err(|error| match error {
            TryLockError::WouldBlock => TryLockError::WouldBlock,
            TryLockError::Poisoned(error) => {
                PoisonError::new(MutexGuard(Some(error.into_inner()))).into()
            }
        })
    }

    /// As there.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

fn wrap<T: ?Sized>(
    locked: LockResult<std::sync::MutexGuard<'_, T>>,
) -> LockResult<MutexGuard<'_, T>> {
    match locked {
        Ok(guard) => Ok(MutexGuard(Some(guard))),
        Err(error) => Err(PoisonError::new(MutexGuard(Some(error.into_inner())))),
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("only a guard that is dropped has none")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("only a guard that is dropped has none")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.0.is_some() {
            point();
            self.0 = None;
            point();
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// As [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// As there.
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// As there.
    #[track_caller]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        point();
        let guard = guard.0.take().expect("only a guard that is dropped has none");
        let woken = wrap(self.0.wait(guard));
        point();
        woken
    }

    /// As there.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        point();
        let guard = guard.0.take().expect("only a guard that is dropped has none");
        let woken = self.0.wait_timeout(guard, time);
        point();
        match woken {
            Ok((guard, result)) => Ok((MutexGuard(Some(guard)), result)),
            Err(error) => {
                let (guard, result) = error.into_inner();
                Err(PoisonError::new((MutexGuard(Some(guard)), result)))
            }
        }
    }

    /// As there.
    #[track_caller]
    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
        point();
    }

    /// As there.
    #[track_caller]
    pub fn notify_all(&self) {
        point();
        self.0.notify_all();
        point();
    }
}

/// As [`std::sync::atomic::fence`].
#[track_caller]
pub fn fence(order: Ordering) {
    point();
    std::sync::atomic::fence(order);
    point();
}

/// Operations that take the value and give the one before.
macro_rules! exchanges {
    ($value:ty: $($name:ident),*) => {$(
        /// As there.
        #[track_caller]
        pub fn $name(&self, value: $value, order: Ordering) -> $value {
            point();
            let before = self.0.$name(value, order);
            point();
            before
        }
    )*};
}

macro_rules! common {
    ($value:ty) => {
        exchanges!($value: swap);

        /// As there.
        pub fn into_inner(self) -> $value {
            self.0.into_inner()
        }

        /// As there.
        pub fn get_mut(&mut self) -> &mut $value {
            self.0.get_mut()
        }

        /// As there.
        #[track_caller]
        pub fn load(&self, order: Ordering) -> $value {
            point();
            let value = self.0.load(order);
            point();
            value
        }

        /// As there.
        #[track_caller]
        pub fn store(&self, value: $value, order: Ordering) {
            point();
            self.0.store(value, order);
            point();
        }

        /// As there.
        ///
        /// # Errors
        ///
        /// The value, where it is another.
        #[track_caller]
        pub fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            point();
            let result = self.0.compare_exchange(current, new, success, failure);
            point();
            result
        }

        /// As there.
        ///
        /// # Errors
        ///
        /// The value, where it is another or might be.
        #[track_caller]
        pub fn compare_exchange_weak(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            point();
            let result = self.0.compare_exchange_weak(current, new, success, failure);
            point();
            result
        }

        /// As there.
        ///
        /// # Errors
        ///
        /// The value, where there is no next one.
        #[track_caller]
        pub fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            mut next: impl FnMut($value) -> Option<$value>,
        ) -> Result<$value, $value> {
            let mut value = self.load(fetch);
            while let Some(new) = next(value) {
                match self.compare_exchange_weak(value, new, set, fetch) {
                    Ok(before) => return Ok(before),
                    Err(current) => value = current,
                }
            }
            Err(value)
        }
    };
}

macro_rules! atomics {
    ($($name:ident: $value:ty, $($exchange:ident),*;)*) => {$(
        /// As the type of this name in [`std::sync::atomic`].
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// As there.
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            common!($value);
            exchanges!($value: $($exchange),*);
        }
    )*};
}

atomics! {
    AtomicBool: bool, fetch_or, fetch_and;
    AtomicU8: u8, fetch_or, fetch_and, fetch_add, fetch_sub, fetch_max;
    AtomicU32: u32, fetch_or, fetch_and, fetch_add, fetch_sub, fetch_max;
    AtomicU64: u64, fetch_or, fetch_and, fetch_add, fetch_sub, fetch_max;
    AtomicUsize: usize, fetch_or, fetch_and, fetch_add, fetch_sub, fetch_max;
}

/// As [`std::sync::atomic::AtomicPtr`].
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// As there.
    pub const fn new(value: *mut T) -> Self {
        Self(std::sync::atomic::AtomicPtr::new(value))
    }

    common!(*mut T);
}

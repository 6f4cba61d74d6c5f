//! Autorelease pools: a stack of objects per thread. A pool is a height of it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use super::object::{Header, objc_release, objc_retain};
use crate::own_time::OwnTime;
use crate::rules::{Rule, violation};

#[derive(Default)]
struct Stack {
    objects: Vec<*mut Header>,
    pools: usize,
}

thread_local! {
    // Never destroyed: what a thread's other variables do when they are may need a pool, as on Apple's systems.
    static STACK: ManuallyDrop<RefCell<Stack>> = ManuallyDrop::default();
}

fn with_stack<T>(call: impl FnOnce(&mut Stack) -> T) -> T {
    STACK.with(|stack| call(&mut stack.borrow_mut()))
}

pub fn autorelease(object: *mut Header) -> *mut Header {
    let _own = OwnTime::begin();
    if object.is_null() {
        return object;
    }
    with_stack(|stack| {
        if stack.pools > 0 {
            stack.objects.push(object);
            return;
        }
        // SAFETY: the caller passes an object.
        let name = unsafe { (*object).class() }.map_or("something", |class| class.name());
        violation(Rule::AutoreleaseWithoutPool, format_args!("a {name} leaks"));
    });
    object
}

/// Calls something with a pool in place, as threads of the system have one.
pub fn with_pool(call: impl FnOnce()) {
    let pool = objc_autoreleasePoolPush();
    call();
    // SAFETY: pushed above, by this thread.
    unsafe { objc_autoreleasePoolPop(pool) };
}

#[unsafe(no_mangle)]
extern "C" fn objc_autoreleasePoolPush() -> usize {
    let _own = OwnTime::begin();
    with_stack(|stack| {
        stack.pools += 1;
        // Not zero, which would be no pool.
        stack.objects.len() + 1
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_autoreleasePoolPop(pool: usize) {
    let _own = OwnTime::begin();
    let known = with_stack(|stack| stack.pools > 0 && pool >= 1 && pool <= stack.objects.len() + 1);
    if !known {
        violation(Rule::ForeignPool, "a pool is popped that this thread did not push");
        return;
    }
    // A release may autorelease again, so the stack is not borrowed meanwhile.
    while let Some(object) =
        with_stack(|stack| (stack.objects.len() >= pool).then(|| stack.objects.pop()).flatten())
    {
        // SAFETY: the stack had a reference.
        unsafe { objc_release(object) };
    }
    with_stack(|stack| stack.pools -= 1);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_autorelease(object: *mut Header) -> *mut Header {
    autorelease(object)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_autoreleaseReturnValue(object: *mut Header) -> *mut Header {
    autorelease(object)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_retainAutorelease(object: *mut Header) -> *mut Header {
    // SAFETY: the caller passes an object or null.
    autorelease(unsafe { objc_retain(object) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_retainAutoreleaseReturnValue(object: *mut Header) -> *mut Header {
    // SAFETY: the caller passes an object or null.
    autorelease(unsafe { objc_retain(object) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_retainAutoreleasedReturnValue(object: *mut Header) -> *mut Header {
    // SAFETY: the caller passes an object or null.
    unsafe { objc_retain(object) }
}

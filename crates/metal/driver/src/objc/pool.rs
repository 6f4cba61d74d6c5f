//! Autorelease pools: a stack of objects per thread. A pool is a height of it.

use std::cell::RefCell;

use super::object::{Header, objc_release, objc_retain};
use crate::rules::{Rule, violation};

#[derive(Default)]
struct Stack {
    objects: Vec<*mut Header>,
    pools: usize,
}

thread_local! {
    static STACK: RefCell<Stack> = RefCell::default();
}

pub fn autorelease(object: *mut Header) -> *mut Header {
    if object.is_null() {
        return object;
    }
    STACK.with_borrow_mut(|stack| {
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

#[unsafe(no_mangle)]
extern "C" fn objc_autoreleasePoolPush() -> usize {
    STACK.with_borrow_mut(|stack| {
        stack.pools += 1;
        // Not zero, which would be no pool.
        stack.objects.len() + 1
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_autoreleasePoolPop(pool: usize) {
    let known =
        STACK.with_borrow(|stack| stack.pools > 0 && pool >= 1 && pool <= stack.objects.len() + 1);
    if !known {
        violation(Rule::ForeignPool, "a pool is popped that this thread did not push");
        return;
    }
    // A release may autorelease again, so the stack is not borrowed meanwhile.
    while let Some(object) = STACK.with_borrow_mut(|stack| {
        (stack.objects.len() >= pool).then(|| stack.objects.pop()).flatten()
    }) {
        // SAFETY: the stack had a reference.
        unsafe { objc_release(object) };
    }
    STACK.with_borrow_mut(|stack| stack.pools -= 1);
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

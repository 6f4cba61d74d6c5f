//! Classes, and the lookup of their methods.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::OnceLock;

use super::Sel;
use super::object::Header;
use crate::own_time::OwnTime;
use crate::rules::{Rule, violation};

/// A method: name, types as Objective-C encodes them (objc2 compares them in debug builds), and function.
#[repr(C)]
pub struct Method {
    pub name: &'static CStr,
    pub types: &'static CStr,
    pub call: *const (),
}

// SAFETY: plain data, and the address of a function.
unsafe impl Sync for Method {}

/// A class, or the class of a class (its metaclass), which has its static methods.
#[repr(C)]
pub struct Class {
    /// Where a message to the class itself is looked up: the metaclass. Every object begins with such a pointer.
    isa: Option<&'static Class>,
    name: &'static CStr,
    superclass: Option<&'static Class>,
    methods: &'static [Method],
    table: OnceLock<HashMap<Sel, &'static Method>>,
    meta: bool,
    /// Makes an object for `alloc`, where the class has one.
    alloc: Option<fn() -> *mut Header>,
}

// SAFETY: nothing of a class changes but its table, which is guarded.
unsafe impl Sync for Class {}

impl Class {
    pub const fn new(
        name: &'static CStr,
        isa: &'static Class,
        superclass: Option<&'static Class>,
        methods: &'static [Method],
        alloc: Option<fn() -> *mut Header>,
    ) -> Self {
        let table = OnceLock::new();
        Self { isa: Some(isa), name, superclass, methods, table, meta: false, alloc }
    }

    pub const fn meta(
        name: &'static CStr,
        superclass: Option<&'static Class>,
        methods: &'static [Method],
    ) -> Self {
        Self {
            isa: None,
            name,
            superclass,
            methods,
            table: OnceLock::new(),
            meta: true,
            alloc: None,
        }
    }

    pub fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or("(not UTF-8)")
    }

    pub fn is_meta(&self) -> bool {
        self.meta
    }

    pub fn allocator(&self) -> Option<fn() -> *mut Header> {
        self.alloc
    }

    pub fn is_kind_of(&'static self, other: &Class) -> bool {
        let mut class = Some(self);
        while let Some(this) = class {
            if ptr::eq(this, other) {
                return true;
            }
            class = this.superclass;
        }
        false
    }

    /// The method for a selector, of this class or of one above.
    pub fn find(&'static self, sel: Sel) -> Option<&'static Method> {
        let table = self.table.get_or_init(|| {
            let mut table = HashMap::new();
            let mut class = Some(self);
            while let Some(this) = class {
                for method in this.methods {
                    table.entry(Sel::register(method.name)).or_insert(method);
                }
                class = this.superclass;
            }
            table
        });
        table.get(&sel).copied()
    }
}

/// Declares a class with the symbol that objc2 links to. `new: default` lets `alloc` and `new` make one.
macro_rules! class {
    ($(#[$doc:meta])* $static:ident, $name:literal, $payload:ty, [$($method:expr),* $(,)?] $(, alloc: $alloc:expr)? $(, statics: [$($own:expr),* $(,)?])?) => {
        $(#[$doc])*
        #[unsafe(export_name = concat!("_OBJC_CLASS_", $name))]
        pub static $static: $crate::objc::Class = {
            static META: $crate::objc::Class = $crate::objc::Class::meta(
                match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) { Ok(name) => name, Err(_) => c"" },
                Some(&$crate::foundation::OBJECT_META),
                &[$($($own),*)?],
            );
            #[allow(unused_mut, unused_assignments)]
            let mut alloc: Option<fn() -> *mut _> = None;
            $(alloc = Some($alloc);)?
            $crate::objc::Class::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) { Ok(name) => name, Err(_) => c"" },
                &META,
                Some(&$crate::foundation::OBJECT),
                &[$($method),*],
                alloc,
            )
        };
        impl $crate::objc::Payload for $payload {
            fn class() -> &'static $crate::objc::Class { &$static }
        }
    };
}

/// A row of a class: name, types, function and its signature.
macro_rules! method {
    ($name:literal, $types:literal, $function:expr, fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {
        $crate::objc::Method {
            name: $name,
            types: $types,
            call: $crate::objc::counted!($function, [], [$($argument),*], [a b c d e f g h], [$(-> $result)?]) as *const (),
        }
    };
}

/// A function whose time is counted as the driver's own. Its parameters get names one by one.
macro_rules! counted {
    ($function:expr, [$($name:ident: $type:ty),*], [$next:ty $(, $rest:ty)*], [$free:ident $($others:ident)*], $result:tt) => {
        $crate::objc::counted!($function, [$($name: $type,)* $free: $next], [$($rest),*], [$($others)*], $result)
    };
    ($function:expr, [$($name:ident: $type:ty),*], [], $others:tt, [$($result:tt)*]) => {{
        unsafe extern "C" fn counted($($name: $type),*) $($result)* {
            let _own = $crate::own_time::OwnTime::begin();
            let function: unsafe extern "C" fn($($type),*) $($result)* = $function;
            // SAFETY: as its caller says.
            unsafe { function($($name),*) }
        }
        counted as unsafe extern "C" fn($($type),*) $($result)*
    }};
}

pub(crate) use {class, counted, method};

/// What a message runs that nobody has: nothing, and gives zero.
extern "C" fn unknown() -> usize {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_msg_lookup(receiver: *const Header, sel: Sel) -> *const () {
    let _own = OwnTime::begin();
    // SAFETY: objc2 passes an object or a class, which begins like one.
    let (class, gone) = unsafe { ((*receiver).class(), (*receiver).is_gone()) };
    let Some(class) = class else {
        violation(
            Rule::UnknownMessage,
            format_args!("{} to something that is no object", sel.name()),
        );
        return unknown as *const ();
    };
    if !class.is_meta() && gone {
        violation(Rule::DeallocatedReceiver, format_args!("-[{} {}]", class.name(), sel.name()));
        return unknown as *const ();
    }
    match class.find(sel) {
        Some(method) => method.call,
        None => {
            let kind = if class.is_meta() { '+' } else { '-' };
            violation(
                Rule::UnknownMessage,
                format_args!("{kind}[{} {}]", class.name(), sel.name()),
            );
            unknown as *const ()
        }
    }
}

#[repr(C)]
struct Super {
    receiver: *const Header,
    class: &'static Class,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_msg_lookup_super(target: *const Super, sel: Sel) -> *const () {
    // SAFETY: objc2 passes a valid pair.
    let class = unsafe { (*target).class };
    class.find(sel).map_or(unknown as *const (), |method| method.call)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn object_getClass(object: *const Header) -> Option<&'static Class> {
    if object.is_null() {
        return None;
    }
    // SAFETY: an object or a class.
    unsafe { (*object).class() }
}

/// Finds a class by its name, which objc2 does for those that it does not link to.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClass(name: *const c_char) -> Option<&'static Class> {
    // SAFETY: the caller passes a C string.
    let name = unsafe { CStr::from_ptr(name) };
    crate::foundation::CLASSES.iter().find(|class| class.name == name).copied()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_getName(class: &'static Class) -> *const c_char {
    class.name.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_isMetaClass(class: &'static Class) -> bool {
    class.meta
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_getSuperclass(class: &'static Class) -> Option<&'static Class> {
    class.superclass
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_getInstanceMethod(
    class: &'static Class,
    sel: Sel,
) -> Option<&'static Method> {
    class.find(sel)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_respondsToSelector(class: &'static Class, sel: Sel) -> bool {
    class.find(sel).is_some()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn method_getName(method: &'static Method) -> Sel {
    Sel::register(method.name)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn method_getTypeEncoding(method: &'static Method) -> *const c_char {
    method.types.as_ptr()
}

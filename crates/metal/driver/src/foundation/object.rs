//! NSObject: the root of all classes.

use std::ptr;

use crate::foundation::Text;
use crate::objc::{Class, Payload, Sel, This, method};
use crate::objc::{Method, autoreleased};
use crate::rules::{Rule, violation};

type Raw = *mut crate::objc::Header;

/// The class of all classes.
pub static OBJECT_META: Class = Class::meta(
    c"NSObject",
    None,
    &[
        method!(c"alloc", c"@@:", alloc, fn(&'static Class, Sel) -> Raw),
        method!(c"new", c"@@:", alloc, fn(&'static Class, Sel) -> Raw),
        method!(c"class", c"#@:", own_class, fn(&'static Class, Sel) -> &'static Class),
    ],
);

/// The root class.
#[unsafe(export_name = "_OBJC_CLASS_NSObject")]
pub static OBJECT: Class = Class::new(c"NSObject", &OBJECT_META, None, METHODS, None);

const METHODS: &[Method] = &[
    method!(c"init", c"@@:", own, fn(Raw, Sel) -> Raw),
    method!(c"self", c"@@:", own, fn(Raw, Sel) -> Raw),
    method!(c"retain", c"@@:", retain, fn(Raw, Sel) -> Raw),
    method!(c"release", c"Vv@:", release, fn(Raw, Sel)),
    method!(c"autorelease", c"@@:", autorelease, fn(Raw, Sel) -> Raw),
    method!(c"class", c"#@:", class_of, fn(Raw, Sel) -> Option<&'static Class>),
    method!(c"hash", c"Q@:", hash, fn(Raw, Sel) -> usize),
    method!(c"isEqual:", c"C@:@", is_equal, fn(Raw, Sel, Raw) -> bool),
    method!(c"respondsToSelector:", c"C@::", responds, fn(Raw, Sel, Sel) -> bool),
    method!(c"isKindOfClass:", c"C@:#", is_kind_of, fn(Raw, Sel, &'static Class) -> bool),
    method!(c"label", c"@@:", label_of, fn(Raw, Sel) -> Raw),
    method!(c"setLabel:", c"v@:@", ignore_label, fn(Raw, Sel, Option<This<Text>>)),
];

unsafe extern "C" fn alloc(class: &'static Class, _: Sel) -> Raw {
    match class.allocator() {
        Some(make) => make(),
        None => {
            violation(
                Rule::UnknownMessage,
                format_args!("+[{} alloc]: only the device makes these", class.name()),
            );
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn own_class(class: &'static Class, _: Sel) -> &'static Class {
    class
}

unsafe extern "C" fn own(this: Raw, _: Sel) -> Raw {
    this
}

unsafe extern "C" fn retain(this: Raw, _: Sel) -> Raw {
    // SAFETY: the lookup checked the receiver.
    unsafe { crate::objc::objc_retain(this) }
}

unsafe extern "C" fn release(this: Raw, _: Sel) {
    // SAFETY: the lookup checked the receiver.
    unsafe { crate::objc::objc_release(this) };
}

unsafe extern "C" fn autorelease(this: Raw, _: Sel) -> Raw {
    crate::objc::autorelease(this)
}

unsafe extern "C" fn class_of(this: Raw, _: Sel) -> Option<&'static Class> {
    // SAFETY: the lookup checked the receiver.
    unsafe { (*this).class() }
}

unsafe extern "C" fn hash(this: Raw, _: Sel) -> usize {
    this.addr()
}

unsafe extern "C" fn is_equal(this: Raw, _: Sel, other: Raw) -> bool {
    this == other
}

unsafe extern "C" fn responds(this: Raw, _: Sel, asked: Sel) -> bool {
    // SAFETY: the lookup checked the receiver.
    unsafe { (*this).class() }.is_some_and(|class| class.find(asked).is_some())
}

unsafe extern "C" fn is_kind_of(this: Raw, _: Sel, class: &'static Class) -> bool {
    // SAFETY: the lookup checked the receiver.
    unsafe { (*this).class() }.is_some_and(|own| own.is_kind_of(class))
}

/// Labels are for people who look at captures. Those that somebody may read back are kept by their class.
unsafe extern "C" fn label_of(_: Raw, _: Sel) -> Raw {
    autoreleased::<Text>(None)
}

unsafe extern "C" fn ignore_label(_: Raw, _: Sel, _: Option<This<Text>>) {}

/// A label that a class keeps.
pub fn label(text: &std::sync::Mutex<Option<String>>) -> Raw {
    let text = text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    autoreleased(text.as_deref().map(Text::make))
}

/// Keeps a label.
pub fn set_label(place: &std::sync::Mutex<Option<String>>, label: Option<This<Text>>) {
    *place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
        label.map(|label| label.as_str().to_owned());
}

/// A class whose objects `alloc` makes with their default value.
pub fn alloc_default<T: Payload + Default>() -> Raw {
    crate::objc::new(T::default()).into_raw()
}

//! Selectors: names of messages, each with one address.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::RwLock;

/// A registered name. Two of the same name are the same pointer.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sel(*const Name);

/// GNUstep's selectors begin with a pointer to their name.
#[repr(C)]
struct Name {
    text: *const c_char,
}

// SAFETY: a name is made once, leaked, and never changed.
unsafe impl Send for Sel {}
// SAFETY: as above.
unsafe impl Sync for Sel {}

static NAMES: RwLock<Option<HashMap<&'static CStr, Sel>>> = RwLock::new(None);

impl Sel {
    pub fn register(text: &CStr) -> Self {
        let known = NAMES.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(sel) = known.as_ref().and_then(|names| names.get(text)) {
            return *sel;
        }
        drop(known);
        let mut names = NAMES.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let names = names.get_or_insert_default();
        if let Some(sel) = names.get(text) {
            return *sel;
        }
        // Selectors live as long as the process.
        let text: &'static CStr = Box::leak(text.to_owned().into_boxed_c_str());
        let sel = Sel(Box::leak(Box::new(Name { text: text.as_ptr() })));
        names.insert(text, sel);
        sel
    }

    pub fn name(self) -> &'static str {
        // SAFETY: made by `register`, from a C string that lives for ever.
        let text = unsafe { CStr::from_ptr((*self.0).text) };
        text.to_str().unwrap_or("(not UTF-8)")
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sel_registerName(name: *const c_char) -> Sel {
    // SAFETY: the caller passes a C string.
    Sel::register(unsafe { CStr::from_ptr(name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sel_getName(sel: Sel) -> *const c_char {
    // SAFETY: a selector is made by `register` only.
    unsafe { (*sel.0).text }
}

#[unsafe(no_mangle)]
extern "C" fn sel_isEqual(a: Sel, b: Sel) -> bool {
    a == b
}

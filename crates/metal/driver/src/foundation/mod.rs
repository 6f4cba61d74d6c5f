//! The few classes of Foundation that Metal's interface needs.

mod array;
mod data;
mod error;
mod object;
mod process;
mod string;
mod url;

pub use array::{Any, Array};
pub use data::Data;
pub use error::{Error, write_error};
pub use object::{OBJECT, OBJECT_META, alloc_default, label, set_label};
pub use string::{Text, leave_temporary, text};
pub use url::Url;

/// The classes that are looked up by name.
pub static CLASSES: &[&crate::objc::Class] = &[
    &OBJECT,
    &array::ARRAY,
    &data::DATA,
    &error::ERROR,
    &process::PROCESS_INFO,
    &string::STRING,
    &url::URL,
];

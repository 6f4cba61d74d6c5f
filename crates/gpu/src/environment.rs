//! Settings of a device, from variables of the environment.

use millstream_core::{Error, Result};

/// The value of a variable, if it is set.
pub fn variable(key: &str) -> Option<String> {
    std::env::var_os(key).map(|value| value.to_string_lossy().into_owned())
}

/// A variable that is 0 or 1, as `lookup` gives it.
///
/// # Errors
///
/// It is something else.
pub fn switch(lookup: impl Fn(&str) -> Option<String>, key: &str, default: bool) -> Result<bool> {
    match lookup(key).as_deref() {
        None => Ok(default),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(value) => Err(invalid(key, value, "0 or 1")),
    }
}

/// A variable that is a number up to `most`, and 0 if it is not set; `expected` says what it can be.
///
/// # Errors
///
/// It is something else.
pub fn number(
    lookup: impl Fn(&str) -> Option<String>,
    key: &str,
    most: u64,
    expected: &'static str,
) -> Result<u64> {
    match lookup(key) {
        None => Ok(0),
        Some(value) => match value.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(invalid(key, &value, expected)),
        },
    }
}

fn invalid(key: &str, value: &str, expected: &'static str) -> Error {
    Error::InvalidConfig { key: key.to_owned(), value: value.to_owned(), expected }
}

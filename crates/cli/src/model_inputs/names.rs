//! `NAME=…` on the command line. Names of models may have any characters, also `=` and `/`.

use millstream::Result;
use millstream::graph::Port;

use super::{invalid, listed};

/// The input that an argument names, and what stands behind the sign. A model with one input needs no name where
/// `nameless` says so.
pub(super) fn split_name<'a>(
    option: &str,
    text: &'a str,
    ports: &[Port],
    nameless: bool,
) -> Result<(usize, &'a str)> {
    // Of two names that both begin the argument, the longer one is meant.
    let named = ports.iter().enumerate().filter_map(|(at, port)| {
        let value = text.strip_prefix(port.name.as_str())?.strip_prefix('=')?;
        Some((port.name.len(), at, value))
    });
    if let Some((_, at, value)) = named.max_by_key(|(length, ..)| *length) {
        return Ok((at, value));
    }
    match text.split_once('=') {
        Some((name, _)) => Err(unknown(option, name, ports)),
        None if nameless && ports.len() == 1 => Ok((0, text)),
        None => Err(invalid(format!(
            "{option} {text:?} has no name: write NAME={text}. The model takes{}",
            listed(ports)
        ))),
    }
}

/// The input of a name.
pub(super) fn find(option: &str, name: &str, ports: &[Port]) -> Result<usize> {
    let found = ports.iter().position(|port| port.name == name);
    found.ok_or_else(|| unknown(option, name, ports))
}

fn unknown(option: &str, name: &str, ports: &[Port]) -> millstream::Error {
    let takes = if ports.is_empty() { " no inputs".into() } else { listed(ports) };
    invalid(format!("{option}: there is no input {name:?}. The model takes{takes}"))
}

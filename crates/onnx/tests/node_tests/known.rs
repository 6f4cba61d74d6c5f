//! The list of known failures.

use std::collections::BTreeMap;
use std::path::Path;

use crate::case::{Case, Outcome};

/// The known failures by name, each with its reason: the heading above it, a line that begins with `#`.
///
/// # Errors
///
/// A name without a reason, or twice.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut known = BTreeMap::new();
    let mut reason = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix('#') {
            heading.trim().clone_into(&mut reason);
            continue;
        }
        if reason.is_empty() {
            return Err(format!("{line} has no reason"));
        }
        if known.insert(line.to_owned(), reason.clone()).is_some() {
            return Err(format!("{line} is listed twice"));
        }
    }
    Ok(known)
}

/// What is not as the list says.
pub fn surprises(
    known: &BTreeMap<String, String>,
    cases: &[Case],
    outcomes: &[Outcome],
) -> Vec<String> {
    let mut surprises = Vec::new();
    for (case, outcome) in cases.iter().zip(outcomes) {
        match (outcome, known.get(&case.name)) {
            (Ok(()), Some(_)) => {
                surprises
                    .push(format!("{} passes: take it off the list of known failures", case.name));
            }
            (Err(reason), None) => surprises.push(format!("{} fails: {reason}", case.name)),
            (Ok(()), None) | (Err(_), Some(_)) => {}
        }
    }
    for name in known.keys().filter(|name| cases.iter().all(|case| case.name != **name)) {
        surprises
            .push(format!("{name} is on the list of known failures, and there is no such case"));
    }
    surprises
}

//! What passed, counted by folder and by operator.

use std::collections::BTreeMap;

use crate::case::{Case, Outcome};

/// Prints how many cases passed; with `all`, also why others did not.
pub fn print(cases: &[Case], outcomes: &[Outcome], all: bool) {
    let mut sets: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut operators: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (case, outcome) in cases.iter().zip(outcomes) {
        let set = case.name.split('/').next().unwrap_or("");
        for (counts, key) in [(&mut sets, set), (&mut operators, case.operator.as_str())] {
            let (passed, total) = counts.entry(key).or_default();
            *passed += usize::from(outcome.is_ok());
            *total += 1;
        }
        if let (Err(reason), true) = (outcome, all) {
            println!("{}: {reason}", case.name);
        }
    }
    operators.remove("");
    let texts: Vec<String> = operators
        .iter()
        .map(|(operator, (passed, total))| format!("{operator} {passed}/{total}"))
        .collect();
    println!("passed, by operator: {}", texts.join(", "));
    for (set, (passed, total)) in sets {
        println!("{set}: {passed} of {total} passed");
    }
}

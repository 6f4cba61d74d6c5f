//! Advice for a model that asks for the right names below the wrong prefix.

use std::collections::HashSet;

use super::{Source, Weights};
use crate::WeightProblem;

impl Weights {
    /// The prefix with which everything that is missing would be found.
    pub(super) fn prefix_problem(&self, problems: &[WeightProblem]) -> Option<WeightProblem> {
        let missing: Vec<&str> = problems
            .iter()
            .filter_map(|problem| match problem {
                WeightProblem::Missing { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let first = *missing.first()?;
        let names: HashSet<&str> = match &*self.source {
            Source::Files(shards) => shards.names().collect(),
            Source::Tensors(tensors) => tensors.keys().map(String::as_str).collect(),
            Source::Random { .. } => return None,
        };
        let more = |prefix: &&str| {
            let there = |name: &&str| names.contains(format!("{prefix}{name}").as_str());
            missing.iter().all(there)
        };
        let mut before: Vec<&str> = names
            .iter()
            .filter_map(|name| name.strip_suffix(first).filter(|prefix| prefix.ends_with('.')))
            .collect();
        before.sort_unstable();
        if let Some(found) = before.into_iter().find(more) {
            return Some(WeightProblem::Prefix { asked: String::new(), found: found.into() });
        }
        let less = |prefix: &&str| {
            let there = |rest: &str| names.contains(rest);
            missing.iter().all(|name| name.strip_prefix(*prefix).is_some_and(there))
        };
        let dots = first.match_indices('.').map(|(dot, _)| &first[..=dot]);
        let asked = dots.into_iter().find(less)?;
        Some(WeightProblem::Prefix { asked: asked.into(), found: String::new() })
    }
}

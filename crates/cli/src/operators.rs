//! `millstream operators`: the operators of model files that are supported.

use std::process::ExitCode;

use millstream::Result;
use millstream::graph::{Importer, OperatorSet};
use serde_json::{Value, json};

use crate::operator_uses::domain_name;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only operators whose name contains this, in any case.
    #[arg(long)]
    only: Option<String>,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// Columns of the list.
const WIDTH: usize = 100;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let only = arguments.only.as_deref().unwrap_or("").to_lowercase();
    let mut kinds: Vec<(&str, Vec<OperatorSet>)> =
        Importer::all().map(|importer| (importer.extension, (importer.operators)())).collect();
    kinds.sort_by_key(|(extension, _)| *extension);
    for set in kinds.iter_mut().flat_map(|(_, sets)| sets) {
        set.operators.retain(|name| name.to_lowercase().contains(&only));
    }
    if arguments.json {
        println!("{}", as_json(&kinds));
    } else {
        kinds.iter().for_each(|(extension, sets)| print(extension, sets));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(extension: &str, sets: &[OperatorSet]) {
    for set in sets.iter().filter(|set| !set.operators.is_empty()) {
        let versions = match set.versions {
            Some((oldest, newest)) => format!(", versions {oldest} to {newest}"),
            None => String::new(),
        };
        let (domain, count) = (domain_name(&set.domain), set.operators.len());
        println!(".{extension}, {domain}{versions}: {count} operators");
        wrapped(&set.operators).iter().for_each(|line| println!("  {line}"));
        println!();
    }
}

/// Words with commas, in lines.
fn wrapped(words: &[&str]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (at, word) in words.iter().enumerate() {
        let comma = if at + 1 < words.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = format!("{word}{comma}"),
            Some(line) if line.len() + word.len() + 2 <= WIDTH => {
                *line += &format!(" {word}{comma}")
            }
            _ => lines.push(format!("{word}{comma}")),
        }
    }
    lines
}

fn as_json(kinds: &[(&str, Vec<OperatorSet>)]) -> Value {
    let set = |set: &OperatorSet| {
        json!({
            "domain": domain_name(&set.domain),
            "oldest": set.versions.map(|(oldest, _)| oldest),
            "newest": set.versions.map(|(_, newest)| newest),
            "operators": set.operators,
        })
    };
    let kind = |(extension, sets): &(&str, Vec<OperatorSet>)| json!({ "extension": extension, "sets": sets.iter().map(set).collect::<Vec<_>>() });
    json!({ "formats": kinds.iter().map(kind).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests;

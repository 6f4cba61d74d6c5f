//! `millstream bench`: how fast this machine runs what.

mod callees;
mod chain;
mod kernels;
mod measure;
mod models;
mod opening;
mod plot;
mod report;
mod sessions;
mod subjects;

use std::process::ExitCode;

use clap::Subcommand;
use millstream::Result;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    models: models::Arguments,
}

impl Arguments {
    pub fn has_model(&self) -> bool {
        self.models.model.is_some()
    }
}

#[derive(Subcommand)]
enum What {
    /// Each Command at several sizes, beside the machine's measured peak.
    Kernels(kernels::Arguments),
    /// How long a model takes until its first answer, and how much memory.
    Opening(opening::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        Some(What::Kernels(arguments)) => Ok(kernels::run(arguments)?),
        Some(What::Opening(arguments)) => opening::run(arguments),
        None => models::run(&arguments.models),
    }
}

//! `millstream bench`: how fast this machine runs what.

mod kernels;
mod subjects;

use std::process::ExitCode;

use clap::Subcommand;
use millstream::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Each Command at several sizes, beside the machine's measured peak.
    Kernels(kernels::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Kernels(arguments) => kernels::run(arguments),
    }
}

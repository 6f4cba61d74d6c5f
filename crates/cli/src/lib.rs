//! The `millstream` program, as a library: so that it can be linked with another driver of a device.

mod bench;
mod choice;
mod devices;
mod inspect;
mod progress;
mod stress;
mod table;
mod trace;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs neural networks from many threads on one device.
#[derive(Parser)]
#[command(name = "millstream", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures models from many threads, each answer checked bit for bit.
    Bench(bench::Arguments),
    /// Lists the devices of this machine.
    Devices(devices::Arguments),
    /// Says what a weights file or a model folder holds: names, types, shapes and totals.
    Inspect(inspect::Arguments),
    /// Runs many threads at once and checks every result against sequential work, bit for bit.
    Stress(stress::Arguments),
    /// Writes the timeline of a model called from many threads, for Perfetto.
    Trace(trace::Arguments),
}

/// The program: reads the arguments of the process, does what they say, and gives the exit code.
pub fn main() -> ExitCode {
    if std::env::var_os("CUDA_DEVICE_MAX_CONNECTIONS").is_none() {
        // As many streams side by side as a GPU can have; the driver reads it when it is first used.
        // SAFETY: no other thread has been started.
        unsafe { std::env::set_var("CUDA_DEVICE_MAX_CONNECTIONS", "32") };
    }
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Stress(arguments) => stress::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The `millstream` program, as a library: so that it can be linked with another driver of a device.

mod bench;
mod check;
mod choice;
mod devices;
mod inspect;
mod model_answer;
mod model_inputs;
mod npy;
mod npz;
mod operator_uses;
mod operators;
mod probe;
mod progress;
mod run;
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
    Bench(Box<bench::Arguments>),
    /// Says whether models can be run, and what of them is not supported.
    Check(check::Arguments),
    /// Lists the devices of this machine.
    Devices(devices::Arguments),
    /// Says what a model, a weights file or a model folder holds: names, types, shapes and totals.
    Inspect(inspect::Arguments),
    /// Lists the operators of model files that are supported.
    Operators(operators::Arguments),
    /// Measures what a device's backend assumes about its platform, and says for each assumption whether it holds.
    Probe(probe::Arguments),
    /// Runs a model on arrays of NumPy, and writes what it gives as such arrays.
    Run(run::Arguments),
    /// Runs many threads at once and checks every result against sequential work, bit for bit.
    Stress(stress::Arguments),
    /// Writes the timeline of a model called from many threads, for Perfetto.
    Trace(trace::Arguments),
}

impl Command {
    fn calls_a_model_file(&self) -> bool {
        match self {
            Command::Bench(arguments) => arguments.has_model(),
            Command::Stress(arguments) => arguments.has_model(),
            Command::Check(_) | Command::Inspect(_) | Command::Run(_) => true,
            Command::Devices(_) | Command::Operators(_) | Command::Probe(_) | Command::Trace(_) => {
                false
            }
        }
    }
}

/// The program: reads the arguments of the process, does what they say, and gives the exit code.
pub fn main() -> ExitCode {
    end_with_the_reader();
    // As many streams side by side as a GPU can have; the driver reads it when it is first used.
    set_default("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    let command = Arguments::parse().command;
    if command.calls_a_model_file() {
        // How long a model of somebody else takes is not for us to say.
        set_default("MILLSTREAM_WAIT_TIMEOUT_MS", "86400000");
    }
    let result = match command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Operators(arguments) => operators::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
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

/// Lets the process end when nobody reads its output any more, as in `millstream operators | head`. By default Rust has writing
/// fail instead, and `println!` panics then.
fn end_with_the_reader() {
    #[cfg(unix)]
    // SAFETY: no handler is installed, the signal's default takes the place of what Rust's runtime set.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Sets a variable of the environment that is not set. Only for the beginning of [`main`].
fn set_default(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        // SAFETY: no other thread has been started.
        unsafe { std::env::set_var(name, value) };
    }
}

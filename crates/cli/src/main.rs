//! The `millstream` program.

fn main() -> std::process::ExitCode {
    millstream_cli::main()
}

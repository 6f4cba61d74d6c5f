//! The CPU device on many schedules; see `harness.rs` for what that is and how to repeat one.
//!
//! The CUDA queue runs the same scenarios on its host driver (`crates/cuda/tests/fake_driver`).

mod harness;
mod scenarios;
mod scene;

use std::process::ExitCode;

use millstream as runtime;

fn main() -> ExitCode {
    harness::main(&harness::Host {
        device: "cpu",
        command: "cargo test --test schedules",
        chunk: 100,
        environment: &[],
    })
}

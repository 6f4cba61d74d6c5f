//! The scenarios.

mod compute;
mod memory;
mod sharing;
mod streams;

use super::harness::{Context, Outcome};

/// One scenario.
pub(crate) struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Context) -> Outcome,
}

/// All of them, in the order in which they run.
pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "basic", about: "random numbers, matmul, relu, sync", run: compute::basic },
    Scenario { name: "large", about: "chains on 1024 × 1024 elements", run: compute::large },
    Scenario { name: "linear", about: "one shared settled weight", run: compute::linear },
    Scenario { name: "mlp", about: "256-512-512-256 with shared weights", run: compute::mlp },
    Scenario { name: "layer-norm", about: "layer norm of (16, 32, 256)", run: compute::layer_norm },
    Scenario {
        name: "encoder",
        about: "a transformer encoder layer from commands",
        run: compute::encoder,
    },
    Scenario {
        name: "unique-shapes",
        about: "another shape on every thread",
        run: compute::unique_shapes,
    },
    Scenario { name: "random", about: "parts of one random sequence", run: compute::random },
    Scenario {
        name: "cold-start",
        about: "everybody's first call at once, on a new device",
        run: streams::cold_start,
    },
    Scenario {
        name: "producer-consumer",
        about: "chains of threads that pass results on",
        run: sharing::producer_consumer,
    },
    Scenario {
        name: "fan-out",
        about: "one result that every thread reads",
        run: sharing::fan_out,
    },
    Scenario {
        name: "fan-in",
        about: "one thread that reads everybody's results",
        run: sharing::fan_in,
    },
    Scenario {
        name: "foreign-drop",
        about: "results dropped by other threads while in use",
        run: sharing::foreign_drop,
    },
    Scenario {
        name: "owner-drops",
        about: "a buffer dropped by its owner while all read it",
        run: sharing::owner_drops,
    },
    Scenario {
        name: "in-place",
        about: "one buffer updated by all streams in turn",
        run: sharing::in_place,
    },
    Scenario {
        name: "synchronize-all",
        about: "synchronising all streams while others work",
        run: streams::synchronize_all,
    },
    Scenario { name: "events", about: "explicit streams ordered by events", run: streams::events },
    Scenario { name: "churn", about: "many short threads", run: streams::churn },
    Scenario {
        name: "exhaustion",
        about: "more threads than streams, waiting in line",
        run: streams::exhaustion,
    },
    Scenario {
        name: "out-of-memory",
        about: "one thread asks for too much while others go on",
        run: memory::out_of_memory,
    },
    Scenario { name: "soak", about: "mixed work; memory must not grow", run: memory::soak },
    Scenario {
        name: "pressure",
        about: "cycles of filling and freeing all memory",
        run: memory::pressure,
    },
];

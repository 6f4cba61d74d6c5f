//! The scenarios.

mod compute;
mod faults;
mod memory;
mod models;
mod sharing;
mod streams;
mod tasks;

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
    Scenario {
        name: "commands",
        about: "a transformer encoder layer from commands",
        run: compute::commands,
    },
    Scenario { name: "linear", about: "a shared linear layer", run: models::linear },
    Scenario { name: "mlp", about: "a shared 256-512-512-256", run: models::mlp },
    Scenario {
        name: "conv1d",
        about: "three convolutions, 1-64-64-1, on (4, 1, 1024)",
        run: models::conv1d,
    },
    Scenario { name: "layer-norm", about: "layer norm of (16, 32, 256)", run: models::layer_norm },
    Scenario {
        name: "encoder",
        about: "a transformer encoder layer on (4, 128, 256)",
        run: models::encoder,
    },
    Scenario { name: "lstm", about: "two layers of LSTM on (4, 24, 64)", run: models::lstm },
    Scenario { name: "mixed", about: "all these models in turn", run: models::mixed },
    Scenario { name: "plans", about: "plans of all these models in turn", run: models::plans },
    Scenario {
        name: "awaited",
        about: "several calls in flight on every thread, awaited as futures",
        run: tasks::awaited,
    },
    Scenario {
        name: "unique-calls",
        about: "a model with another shape in every call",
        run: models::unique_calls,
    },
    Scenario {
        name: "unique-shapes",
        about: "another shape on every thread",
        run: compute::unique_shapes,
    },
    Scenario { name: "random", about: "parts of one random sequence", run: compute::random },
    Scenario {
        name: "cold-start",
        about: "everybody's first call of all models at once, on a new device",
        run: models::cold_start,
    },
    Scenario {
        name: "warm-start",
        about: "the same, when the device and the models are warm",
        run: models::warm_start,
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
        about: "synchronizing all streams while others work",
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
    Scenario {
        name: "bad-caller",
        about: "one thread asks for what does not exist, on 2, 32 and 64 streams",
        run: faults::bad_caller,
    },
    Scenario { name: "soak", about: "mixed work; memory must not grow", run: memory::soak },
    Scenario {
        name: "pressure",
        about: "cycles of filling and freeing all memory",
        run: memory::pressure,
    },
];

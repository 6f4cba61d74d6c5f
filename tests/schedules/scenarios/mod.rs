//! The scenarios. Every value that is read is checked, and every error must be one that this very call may give.

mod futures;
mod life;
mod order;
mod plans;
mod requests;

use crate::scene::Scene;

/// A name and what it does with a device of its own.
pub type Scenario = (&'static str, fn(&Scene));

pub const SCENARIOS: &[Scenario] = &[
    ("faults", requests::faults),
    ("deadlines", requests::deadlines),
    ("shared_streams", requests::shared_streams),
    ("waiting_pool", requests::waiting_pool),
    ("large_commands", requests::large_commands),
    ("chains", order::chains),
    ("polls", order::polls),
    ("writers", order::writers),
    ("settling", order::settling),
    ("values", order::values),
    ("plans", plans::plans),
    ("futures", futures::futures),
    ("drops", life::drops),
    ("housekeeping", life::housekeeping),
    ("closing", life::closing),
    ("low_memory", life::low_memory),
];

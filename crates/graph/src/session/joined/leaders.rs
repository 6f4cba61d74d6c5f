//! Threads that lead the batches of others.
//!
//! Where the host computes, a caller that is to lead has to be woken for it. The system often wakes it up on a core that another leader uses, while
//! the core of the one before becomes idle. A thread that leads one batch after another stays where it is.

use std::sync::Arc;
use std::time::Duration;

use super::group::{CallPlace, Group};
use super::policy::MAX_IN_FLIGHT;
use crate::standby::{Standby, give_or_spawn};

/// A batch of so many calls has a successor that such a thread leads: callers come in numbers.
pub(super) const MANY: usize = 2;

/// A thread waits for so long for calls before it gives its place away, and for so long for another place before it ends.
const CALL_TIMEOUT: Duration = Duration::from_micros(200);
const PLACE_TIMEOUT: Duration = Duration::from_secs(1);

/// The threads of a session.
pub(super) type Leaders = Standby<Lead>;

/// What a thread gets: a place in flight of a group.
pub(super) struct Lead {
    group: Arc<Group>,
    place: CallPlace,
}

impl Lead {
    /// Leads one batch after another, while there are calls.
    fn run(self) {
        let Self { group, place } = self;
        let mut place = Some(place);
        while let Some(mut batch) = place.take().and_then(|place| place.next(CALL_TIMEOUT)) {
            let (begun, result) = group.compute(&mut batch);
            (_, place) = group.answer_and_keep(batch, begun, result);
        }
    }

    /// As [`run`](Self::run). Who panics has given errors to the calls of its batch on the way; the thread goes on.
    fn run_guarded(self) {
        let run = || match self.group.context.stream_of_leader() {
            Ok(stream) => stream.scope(|| self.run()),
            // The device is gone, and each call gets that error.
            Err(_) => self.run(),
        };
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    }
}

/// Has the next batches in a place led by a thread of the session. Without one, callers lead.
pub(super) fn have_led(group: &Arc<Group>, place: CallPlace) {
    let context = &group.context;
    let most = context.device.info().parallelism.clamp(1, MAX_IN_FLIGHT);
    let lead = Lead { group: Arc::clone(group), place };
    give_or_spawn(&context.leaders, lead, most, PLACE_TIMEOUT, Lead::run_guarded);
}

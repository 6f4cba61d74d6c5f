//! Calls of a session that are run together.
//!
//! Calls with inputs of the same types and shapes are a [`Group`]. While nobody else calls, a group does nothing but notice that. When
//! two calls meet, it is [proved](crate::separate), behind the calls, that they can be joined, and plans for batches are
//! compiled; calls run alone until that is done. From then on the [coalescer](crate::coalesce) decides who leads, and
//! the [policy](policy) whether joining pays. Calls of several rows enter the group of calls of one row, where it is proved that
//! they are [as many of these](rows).

mod axes;
mod check;
mod gather;
mod group;
mod leaders;
mod policy;
mod rows;
mod run;
mod stats;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use millstream_core::{Device, Download, Stream};

use super::batching::Batching;
use crate::Result;
use crate::model::Port;
use crate::model_value::ModelValue;
use crate::program::{Form, HostValue, Program, Settings};
use crate::separate::Obstacle;
use crate::standby::Standby;
pub use axes::Joinable;
pub(super) use group::{Active, Begun, Group, turn};
use leaders::Leaders;
use rows::Groups;
pub use stats::BatchingStats;
pub(super) use stats::Counters;

/// What all groups of a session share.
pub(super) struct Context {
    pub program: Arc<Program>,
    pub settings: Arc<Settings>,
    pub device: Device,
    /// Whether callers need the processor that the device computes with.
    pub computes_on_host: bool,
    pub batching: Batching,
    pub ports: Vec<Port>,
    /// Streams of leaders, which each uses again, so that its plans and memory are warm. A leader takes one and gives it back.
    lanes: Mutex<Vec<Stream>>,
    pub counters: Counters,
    /// Batches of several calls so far, if they are checked.
    batches: AtomicU64,
    /// How many threads prove or compile behind the calls.
    preparing: AtomicUsize,
    /// Threads that lead batches of others, where callers need the processor that computes.
    leaders: Arc<Leaders>,
    /// What showed that calls must not be joined, though that was assumed. From then on none are.
    refuted: OnceLock<Obstacle>,
    /// The groups of the session, while it is there.
    groups: Weak<Groups>,
}

/// The groups of a session.
pub(super) struct Joined {
    context: Arc<Context>,
    groups: Arc<Groups>,
}

/// An output of a call as it lies on the host: a piece of what its batch brought there.
#[derive(Clone, Debug)]
pub(super) struct HostPart {
    pub download: Arc<Download>,
    pub start: usize,
    pub bytes: usize,
}

/// What a call gets of its batch.
pub(super) enum Given {
    Answer(Answer),
    /// Its place in what was computed together, of which it makes its answer.
    Part(Arc<run::Together>, usize),
}

/// What a call gets.
pub(super) struct Answer {
    pub values: Vec<ModelValue>,
    /// The outputs that are on the host already.
    pub host: Vec<Option<HostPart>>,
}

impl Joined {
    pub fn new(
        program: &Arc<Program>,
        settings: &Arc<Settings>,
        device: Device,
        batching: Batching,
    ) -> Self {
        let groups = Arc::new(Groups::new(settings));
        let context = Arc::new(Context {
            program: Arc::clone(program),
            settings: Arc::clone(settings),
            device,
            computes_on_host: device.info().name == "cpu",
            ports: program.body().inputs().to_vec(),
            lanes: Mutex::new(Vec::new()),
            counters: Counters::new(batching.most),
            batching,
            batches: AtomicU64::new(0),
            preparing: AtomicUsize::new(0),
            leaders: Arc::new(Standby::new()),
            refuted: OnceLock::new(),
            groups: Arc::downgrade(&groups),
        });
        Self { context, groups }
    }

    /// The group of calls with such inputs, if they are numbers.
    pub fn group(&self, values: &[HostValue]) -> Option<Arc<Group>> {
        self.groups.group(&self.context, forms(values)?)
    }

    /// The group that a call enters, if its inputs are numbers, and how many of its calls this one is.
    pub fn entered(&self, values: &[HostValue]) -> Option<(Arc<Group>, usize)> {
        let forms = forms(values)?;
        match self.groups.unit(&self.context, &forms) {
            Some(unit) => Some(unit),
            None => Some((self.groups.group(&self.context, forms)?, 1)),
        }
    }

    pub fn stats(&self) -> BatchingStats {
        self.context.counters.read(&self.groups.in_use())
    }

    pub fn counters(&self) -> &Counters {
        &self.context.counters
    }
}

/// The forms of the inputs of a call, if they are numbers.
fn forms(values: &[HostValue]) -> Option<Vec<Form>> {
    let plain = |value: &HostValue| {
        matches!(
            value,
            HostValue::Value(ModelValue::Tensor(_)) | HostValue::Array(_) | HostValue::Constant(_)
        )
    };
    let all_plain = !values.is_empty() && values.iter().all(plain);
    all_plain.then(|| values.iter().map(Form::of_given).collect())
}

impl Drop for Context {
    fn drop(&mut self) {
        // In a child process there are no such threads, and one of the parent's may hold the lock for ever.
        if self.device.health().state == millstream_core::HealthState::Forked {
            return;
        }
        self.leaders.close();
    }
}

/// The calling thread's stream, or the one that all may share: a call is not refused because others have all streams.
fn stream_of_thread(device: &Device) -> Result<Stream> {
    Stream::current_unleased(device).or_else(|_| Stream::default_of(device))
}

impl Context {
    /// A stream of its own for a leader.
    fn lane(&self) -> Result<Stream> {
        let kept = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(stream) => Ok(stream),
            None => Stream::new(&self.device).or_else(|_| stream_of_thread(&self.device)),
        }
    }

    /// Has streams for leaders before callers have taken all for themselves, on a device where batches do not run on their threads.
    fn reserve_lanes(&self) {
        if self.computes_on_host {
            return;
        }
        let lanes: Vec<_> = (0..policy::LANES).map_while(|_| self.lane().ok()).collect();
        lanes.into_iter().for_each(|lane| self.give_back(lane));
    }

    /// Outputs of a call up to so many bytes are brought to the host with its batch.
    fn host_bytes(&self) -> usize {
        self.batching.host_bytes_on(self.computes_on_host)
    }

    /// Gives a leader's stream back. No more are kept than batches may be in flight.
    fn give_back(&self, stream: Stream) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() < policy::MAX_IN_FLIGHT {
            lanes.push(stream);
        }
    }
}

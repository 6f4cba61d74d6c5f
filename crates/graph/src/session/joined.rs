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

use millstream_core::{Device, Download, Exhaustion, Stream};

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
    /// Streams of leaders, which each uses again, so that its plans and memory are warm. A leader takes one and [gives it back](Self::give_back).
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

/// Does work on [the calling thread's stream](stream_of_thread), which is current meanwhile: work that is done on a stream uses the current one
/// too.
fn on_stream_of_thread<T>(device: &Device, work: impl FnOnce(&Stream) -> T) -> Result<T> {
    if let Ok(stream) = Stream::current_unleased(device) {
        return Ok(work(&stream));
    }
    let stream = Stream::default_of(device)?;
    Ok(stream.scope(|| work(&stream)))
}

/// Leaders keep no more than this part of a device's streams.
const LANES_SHARE: usize = 4;

/// The stream of a leader.
struct Lane {
    context: Arc<Context>,
    stream: Stream,
    /// Whether it is leased for that, and not that of a thread.
    is_own: bool,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.is_own {
            self.context.give_back(self.stream.clone());
        }
    }
}

impl Context {
    /// A stream of its own for a leader, or that of the thread if all are leased: a leader does not wait for one while it has the calls
    /// of others.
    fn lane(self: &Arc<Self>) -> Result<Lane> {
        let kept = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let own = kept.or_else(|| Stream::try_new(&self.device).ok().flatten());
        let is_own = own.is_some();
        let stream = match own {
            Some(stream) => stream,
            None => stream_of_thread(&self.device)?,
        };
        Ok(Lane { context: Arc::clone(self), stream, is_own })
    }

    /// Has streams for leaders before callers have taken all for themselves, on a device where batches do not run on their threads.
    fn reserve_lanes(self: &Arc<Self>) {
        if !self.computes_on_host && self.shares_streams() {
            let lanes =
                (0..policy::LANES).map_while(|_| self.lane().ok().filter(|lane| lane.is_own));
            drop(lanes.collect::<Vec<_>>());
        }
    }

    /// Whether nobody waits for a stream, or gets an error without one.
    fn shares_streams(&self) -> bool {
        self.device.config().exhaustion == Exhaustion::Share
    }

    /// The current stream of a thread of the session. Where threads wait for streams it has none of its own: it would keep that while it
    /// leads.
    fn stream_of_leader(&self) -> Result<Stream> {
        match self.shares_streams() {
            true => stream_of_thread(&self.device),
            false => Stream::default_of(&self.device),
        }
    }

    /// Outputs of a call up to so many bytes are brought to the host with its batch.
    fn host_bytes(&self) -> usize {
        self.batching.host_bytes_on(self.computes_on_host)
    }

    /// Gives a leader's stream back. It is kept where nobody can be waiting for it, and if most streams are left to others.
    fn give_back(&self, stream: Stream) {
        if !self.shares_streams() {
            return;
        }
        let in_flight = match self.computes_on_host {
            true => policy::MAX_IN_FLIGHT,
            false => self.batching.in_flight.unwrap_or(0).max(policy::LANES),
        };
        let streams = self.device.config().streams.unwrap_or(0) as usize;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() < in_flight.min(streams / LANES_SHARE) {
            lanes.push(stream);
        }
    }
}

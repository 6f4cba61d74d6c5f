//! How a session joins calls.

use std::time::Duration;

use millstream_core::Device;

/// How a [`Session`](super::Session) joins calls that come at the same time. On the CPU device joining is on unless a session says
/// otherwise; on a GPU, where it is slower than calls by themselves for most models so far, a session has to ask for it. It
/// happens only where it is proved that it changes no answer.
///
/// ```no_run
/// # use millstream_graph::{Batching, Session};
/// # use millstream_core::{Device, Result};
/// # fn main() -> Result<()> {
/// let batching = Batching::new().most(32); // calls in a batch
/// let session = Session::builder(&Device::cpu()?).batching(batching).open("model.onnx")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "settings do nothing until a session is built with them"]
pub struct Batching {
    pub(super) on: bool,
    pub(super) always: bool,
    pub(super) most: usize,
    pub(super) in_flight: Option<usize>,
    pub(super) queue: usize,
    pub(super) wait_when_full: bool,
    pub(super) max_delay: Duration,
    host_bytes: Option<usize>,
    pub(super) assumed_axis: Option<usize>,
    pub(super) checked_every: Option<u64>,
}

/// The most calls of a batch, unless a session says otherwise.
const MOST: usize = 64;

/// The most that a session may say.
pub(super) const MAX_CALLS: usize = 256;

/// No call waits for others for longer.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Calls that may queue.
const QUEUE: usize = 4096;

/// Outputs of a call up to so many bytes are brought to the host with the batch. From a GPU more: reading them there later takes
/// another round trip, which is as long as a small call.
const HOST_BYTES: usize = 64 << 10;
const HOST_BYTES_OF_GPU: usize = 256 << 10;

impl Default for Batching {
    fn default() -> Self {
        Self::new()
    }
}

impl Batching {
    /// Calls are joined where that is proved to change no answer, and where it is measured to be faster.
    pub fn new() -> Self {
        Self {
            on: true,
            always: false,
            most: MOST,
            in_flight: None,
            queue: QUEUE,
            wait_when_full: false,
            max_delay: Duration::ZERO,
            host_bytes: None,
            assumed_axis: None,
            checked_every: None,
        }
    }

    /// What a session does that has no settings of its own.
    pub(super) fn usual(device: &Device) -> Self {
        if device.info().name == "cpu" { Self::new() } else { Self::off() }
    }

    /// Every call runs by itself.
    pub fn off() -> Self {
        Self { on: false, ..Self::new() }
    }

    /// Joins calls also where it is not measured to be faster: for tests, and for loads that are known.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// The most calls of a batch, from 2 to 256; 64 unless set. Where calls with different numbers of rows are joined, a call counts as
    /// many as it has rows.
    pub fn most(mut self, calls: usize) -> Self {
        self.most = calls.clamp(2, MAX_CALLS);
        self
    }

    /// How many batches may be in flight at a time. Unless set, the session measures which number is best, and
    /// [says so](super::BatchingStats::in_flight).
    pub fn in_flight(mut self, batches: usize) -> Self {
        self.in_flight = Some(batches.clamp(1, 16));
        self
    }

    /// How many calls may wait for a batch; 4096 unless set. A further one gets [`Error::Busy`](crate::Error::Busy), or
    /// [waits](Self::wait_when_full).
    pub fn queue(mut self, calls: usize) -> Self {
        self.queue = calls.max(1);
        self
    }

    /// A call that finds the queue full waits for room, instead of getting an error: a thread sleeps, and a future holds none. Who
    /// came first goes in first, whatever its priority. A [deadline](super::Call::within) bounds this wait too.
    pub fn wait_when_full(mut self) -> Self {
        self.wait_when_full = true;
        self
    }

    /// For how long a call that leads waits for others before its batch begins, so that batches are larger. Calls that come meanwhile are in
    /// that batch, also if more may be in flight; it begins sooner when it is full, or when one of them would miss its deadline. Unless
    /// set, no call waits: batches are of those calls that come while another one runs. An hour at most.
    ///
    /// Only threads wait: a call of [`run_async`](super::Session::run_async) or [`submit`](super::Session::submit) that leads begins
    /// with those that are there. On a GPU a call that finds nobody else there runs by itself, at once.
    pub fn max_delay(mut self, time: Duration) -> Self {
        self.max_delay = time.min(MAX_DELAY);
        self
    }

    /// Outputs of a call up to so many bytes are brought to the host together with those of its batch, so that
    /// [reading](super::Outputs::read) them costs nothing; unless set, 64 KiB on the CPU device and 256 KiB on a GPU.
    pub fn host_bytes(mut self, bytes: usize) -> Self {
        self.host_bytes = Some(bytes);
        self
    }

    /// The same as it is on a device.
    pub(super) fn host_bytes_on(&self, computes_on_host: bool) -> usize {
        let usual = if computes_on_host { HOST_BYTES } else { HOST_BYTES_OF_GPU };
        self.host_bytes.unwrap_or(usual)
    }

    /// Says that calls may be joined along this axis of every input and output, whether or not it can be proved. If that is
    /// wrong, so are answers; see [`check_assumption`](Self::check_assumption).
    pub fn assume_batchable(mut self, axis: usize) -> Self {
        self.assumed_axis = Some(axis);
        self
    }

    /// Checks what [`assume_batchable`](Self::assume_batchable) says: the first 8 batches, and from then on every such one, are also
    /// run call by call. Answers must be the same bits on the CPU device, and elsewhere within a ten-thousandth of the largest
    /// number, or a fiftieth for 16 bits.
    ///
    /// On a difference the calls of that batch get the answers that they have alone, and the session joins no more calls;
    /// [`Session::joinable`](super::Session::joinable) and [`BatchingStats::not_joined`](super::BatchingStats::not_joined) say why.
    /// Batches that were not checked may have been answered wrongly by then.
    pub fn check_assumption(mut self, every: u64) -> Self {
        self.checked_every = Some(every.max(1));
        self
    }
}

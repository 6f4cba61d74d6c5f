//! The state of a device, and the list of all devices that were opened.

use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use super::health::FaultLog;
use super::registry::{PUBLISH, READ};
use super::{Config, fork, is_late};
use crate::backend::BatchLists;
use crate::memory::DeviceMemory;
use crate::profiler::Profiler;
use crate::stream::{Deadline, StreamPool};
use crate::sync::schedule::{AtomicU8, Ordering};
use crate::{Backend, BackendInfo, Command, Error, Op, OpKind, Result};

/// The state of a device. The hot path only reads it.
pub(crate) struct DeviceInner {
    /// The device opened before this one.
    pub(super) opened_before: Option<&'static DeviceInner>,
    /// The name. If devices of that name were opened before, a number follows it.
    pub(super) label: String,
    pub(super) info: BackendInfo,
    pub(super) config: Config,
    pub(super) backend: Box<dyn Backend>,
    pub(super) supported: u64,
    pub(super) max_work: u64,
    pub(super) takes_whole_plans: bool,
    /// The process in which it was opened.
    pub(super) generation: u32,
    /// One of the constants below.
    pub(super) status: AtomicU8,
    pub(super) fault_log: FaultLog,
    pub(super) pool: StreamPool,
    pub(super) memory: DeviceMemory,
    pub(super) profiler: Profiler,
}

/// The device that was opened last. All devices are linked from here, so that leak checkers find them.
static NEWEST: AtomicPtr<DeviceInner> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps a device for the rest of the process.
pub(super) fn keep(mut inner: Box<DeviceInner>) -> &'static DeviceInner {
    let mut newest = NEWEST.load(READ);
    loop {
        // SAFETY: null, or a device that is never freed.
        inner.opened_before = unsafe { newest.as_ref() };
        inner.label = label(&inner.info.name, inner.opened_before);
        let kept = Box::into_raw(inner);
        match NEWEST.compare_exchange(newest, kept, PUBLISH, READ) {
            // SAFETY: just made, and nobody frees it from here on.
            Ok(_) => return unsafe { &*kept },
            Err(current) => {
                // SAFETY: made by `into_raw` above and not published.
                inner = unsafe { Box::from_raw(kept) };
                newest = current;
            }
        }
    }
}

/// Every device that was ever opened, the newest first. Takes no lock.
pub(crate) fn opened_devices() -> impl Iterator<Item = &'static DeviceInner> {
    // SAFETY: null, or a device that is never freed.
    let newest = unsafe { NEWEST.load(READ).as_ref() };
    std::iter::successors(newest, |device| device.opened_before)
}

/// A name that no earlier device has.
fn label(name: &str, newest: Option<&'static DeviceInner>) -> String {
    let before = std::iter::successors(newest, |device| device.opened_before);
    match before.filter(|device| device.info.name == name).count() {
        0 => name.to_owned(),
        others => format!("{name}#{}", others + 1),
    }
}

pub(super) const OPEN: u8 = 0;
pub(super) const LOST: u8 = 1;
pub(super) const CLOSED: u8 = 2;

/// Each kind has a bit of a word.
const _: () = assert!(OpKind::ALL.len() <= u64::BITS as usize);

/// The bit of a kind in the set of kinds that a backend supports.
pub(super) fn bit(kind: OpKind) -> u64 {
    1 << kind as u8
}

impl DeviceInner {
    pub fn name(&self) -> &str {
        &self.info.name
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    /// How long a wait may take.
    pub fn wait_timeout(&self) -> Duration {
        self.config.wait_timeout.unwrap_or_else(|| self.backend().usual_wait())
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub fn pool(&self) -> &StreamPool {
        &self.pool
    }

    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Whether the backend has kernels for this kind.
    pub fn supports(&self, kind: OpKind) -> bool {
        self.supported & bit(kind) != 0
    }

    /// Batches that one stream may have in flight. This is always fewer than the number at which the platform blocks.
    pub fn in_flight_cap(&self) -> usize {
        self.config.in_flight.min(self.info.queue_capacity.saturating_sub(1)).max(1)
    }

    /// How many Commands of a plan a batch may have.
    pub fn max_plan_commands(&self) -> usize {
        if self.takes_whole_plans { usize::MAX } else { self.config.batch_commands }
    }

    /// Whether a batch has as many Commands as it may have. Those of a plan that is taken whole do not count.
    #[inline]
    pub fn is_full(&self, batch: &BatchLists) -> bool {
        let counted = if self.takes_whole_plans { batch.unplanned() } else { batch.len() };
        counted >= self.config.batch_commands
    }

    /// How many batches run at full speed at the same time.
    pub fn parallelism(&self) -> usize {
        self.info.parallelism.max(1)
    }

    /// Whether the device was opened in the parent of this process, before a fork.
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    pub fn is_closed(&self) -> bool {
        self.status.load(Ordering::Acquire) == CLOSED
    }

    /// Whether a stream is lost: its work never finishes.
    pub fn has_lost_streams(&self) -> bool {
        self.pool.created().any(|stream| stream.progress().lost().is_some())
    }

    /// Whether the device can be used. This costs two loads of words that rarely change.
    pub fn check(&self) -> Result<()> {
        if self.status.load(Ordering::Acquire) == OPEN && !self.is_inherited() {
            return Ok(());
        }
        Err(self.refusal())
    }

    #[cold]
    fn refusal(&self) -> Error {
        let device = self.name().to_owned();
        if self.is_inherited() {
            return Error::Forked { device };
        }
        match self.status.load(Ordering::Acquire) {
            LOST => self.fault_log.lost(&device),
            _ => Error::DeviceClosed { device },
        }
    }

    /// Whether the device supports this Command, and can execute it in bounded time. `bytes` is the dense size of its
    /// operands.
    pub fn check_command<B>(&self, command: &Command<B>, bytes: usize) -> Result<()> {
        self.check_support(command.op())?;
        if !self.info.f64 && command.needs_f64() {
            return Err(self.without_f64(command.op()));
        }
        // This reads the operands, so devices without a bound skip it.
        if self.max_work != u64::MAX && command.is_more_work(bytes, self.max_work) {
            return Err(Error::Invalid {
                op: command.op().name(),
                reason: format!(
                    "needs about {} operations, more than the {} that one Command may on {}: divide it",
                    command.work(),
                    self.max_work,
                    self.name()
                ),
            });
        }
        Ok(())
    }

    #[cold]
    fn without_f64(&self, op: &Op) -> Error {
        let reason = "there is no 64-bit floating point: use f32".into();
        Error::Unsupported { op: op.name(), device: self.name().to_owned(), reason }
    }

    fn check_support(&self, op: &Op) -> Result<()> {
        if self.supports(op.kind()) {
            return Ok(());
        }
        Err(Error::Unsupported {
            op: op.name(),
            device: self.name().to_owned(),
            reason: "the device has no kernel for it".into(),
        })
    }

    /// Waits until everything that was recorded has passed, failed or not. Returns the first error; a timeout before any other,
    /// since the device still works then.
    pub fn wait_idle(&'static self) -> Result<()> {
        self.wait_idle_by(Deadline::usual(self))
    }

    /// The same, with the deadline of a call that waits for more.
    pub fn wait_idle_by(&'static self, deadline: Deadline) -> Result<()> {
        let mut first = Ok(());
        for stream in self.pool.created() {
            match stream.wait_until_passed_by(stream.recorded(), deadline) {
                late @ Err(Error::Timeout { .. }) if !is_late(&first) => first = late,
                passed => first = first.and(passed),
            }
        }
        first
    }
}

// A panic leaves the device usable; see `StreamInner`.
impl std::panic::RefUnwindSafe for DeviceInner {}

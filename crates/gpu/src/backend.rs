//! A GPU as a backend.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use millstream_core::sync::schedule::{AtomicUsize, Ordering};
use millstream_core::{
    Backend, BackendInfo, Error, HostOwner, MAX_STREAMS, OpKind, Queue, QueueContext, Result,
    Segment,
};

use crate::memory::{HostMemory, Registered, SegmentView};
use crate::platform::{Memory, Platform};
use crate::queue::GpuQueue;
use crate::watcher::{Watched, Watcher};

/// Options of a device.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether batches that occur again are captured and replayed.
    pub replay: bool,
    /// The most Commands of a batch.
    pub batch_commands: usize,
}

/// One GPU of a platform as a backend.
pub struct GpuBackend<P: Platform> {
    shared: Arc<Shared<P>>,
}

/// What the queues of a device share.
pub(crate) struct Shared<P: Platform> {
    pub platform: P,
    pub options: Options,
    pub watcher: Watcher,
    queues: Box<[OnceLock<Arc<GpuQueue<P>>>]>,
    /// Host memory of transfers that are too large for the memory of a queue, with its own lock.
    pub host: HostMemory<P>,
    /// Threads that wait for a queue and are not parked.
    spinners: AtomicUsize,
    cores: usize,
}

/// Counts a thread that waits without being parked, as long as this value lives.
pub(crate) struct Spinner<'a>(&'a AtomicUsize);

impl Drop for Spinner<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Platform> Shared<P> {
    /// The queue of a stream that was used.
    pub fn queue(&self, stream: u32) -> Option<&Arc<GpuQueue<P>>> {
        self.queues.get(stream as usize)?.get()
    }

    fn queues(&self) -> impl Iterator<Item = &Arc<GpuQueue<P>>> {
        self.queues.iter().filter_map(OnceLock::get)
    }

    /// Counts the calling thread among the spinners. Returns how many there are per core, rounded up.
    pub fn spinner(&self) -> (Spinner<'_>, usize) {
        let spinners = self.spinners.fetch_add(1, Ordering::Relaxed) + 1;
        (Spinner(&self.spinners), spinners.div_ceil(self.cores))
    }
}

impl<P: Platform> AsRef<Watcher> for Shared<P> {
    fn as_ref(&self) -> &Watcher {
        &self.watcher
    }
}

impl<P: Platform> Watched for Shared<P> {
    fn has_waiters(&self, id: u32) -> bool {
        self.queue(id).is_some_and(|queue| {
            queue.parked.load(Ordering::Acquire) > 0 || queue.progress.is_awaited()
        })
    }

    fn advance(&self, id: u32) -> bool {
        let Some(queue) = self.queue(id) else { return false };
        let advanced = queue.is_ready() && {
            queue.retire();
            !queue.is_ready()
        };
        // Also for batches that another thread has retired.
        queue.progress.wake_tasks();
        advanced
    }

    fn probe(&self, id: u32) {
        let awaited = self.queue(id).filter(|queue| queue.progress.is_awaited());
        if let Some(Err(error)) = awaited.map(|queue| queue.probe_hardware()) {
            // No waiting thread would notice the loss; core learns of it from the tasks.
            self.queues().for_each(|queue| queue.progress.lose(error.clone()));
            self.queues().for_each(|queue| queue.progress.wake_tasks());
        }
    }
}

impl<P: Platform> GpuBackend<P> {
    /// A backend on a GPU that is open.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn open(platform: P, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            host: HostMemory::of_device(platform.clone()),
            platform,
            options,
            watcher: Watcher::default(),
            queues: (0..MAX_STREAMS).map(|_| OnceLock::new()).collect(),
            spinners: AtomicUsize::new(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        });
        Watcher::start(Arc::clone(&shared)).map_err(|error| Error::Unavailable {
            name: shared.platform.status().name().to_owned(),
            reason: format!("its thread cannot be started: {error}"),
        })?;
        Ok(Self { shared })
    }
}

impl<P: Platform> Backend for GpuBackend<P> {
    fn info(&self) -> BackendInfo {
        self.shared.platform.info()
    }

    fn supports(&self, kind: OpKind) -> bool {
        use OpKind::{Download, MatMul, Timestamp, Upload};
        matches!(kind, MatMul | Upload | Download | Timestamp) || millstream_kernels::supports(kind)
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        let platform = &self.shared.platform;
        platform.status().check()?;
        match platform.allocate(bytes) {
            Ok(memory) => {
                let address = memory.address();
                let host = memory.visible().map(|host| host.as_ptr().addr());
                let owner = Box::new(Registered::new(platform.segments(), memory));
                Ok(Some(Segment { address, bytes, host, owner }))
            }
            Err(failure) if failure.out_of_memory => Ok(None),
            Err(failure) => Err(platform.status().note(&failure)),
        }
    }

    unsafe fn wrap(
        &self,
        first: NonNull<u8>,
        bytes: usize,
        owner: HostOwner,
    ) -> Result<Option<(Segment, usize)>> {
        let platform = &self.shared.platform;
        platform.status().check()?;
        // SAFETY: as the caller says.
        match unsafe { platform.wrap(first, bytes, owner) } {
            Ok(wrapped) => Ok(wrapped.map(|(memory, offset)| {
                let (address, bytes) = (memory.address(), memory.bytes());
                let host = memory.visible().map(|host| host.as_ptr().addr());
                let owner = Box::new(Registered::new(platform.segments(), memory));
                (Segment { address, bytes, host, owner }, offset)
            })),
            Err(failure) if failure.out_of_memory => Ok(None),
            Err(failure) => Err(platform.status().note(&failure)),
        }
    }

    fn settled(&self, address: usize) {
        let platform = &self.shared.platform;
        if let Some(place) = SegmentView::default().find(platform.segments(), address) {
            platform.settled(place.segment);
        }
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        self.shared.platform.status().check()?;
        let stream = context.stream;
        let queue = Arc::new(GpuQueue::new(Arc::clone(&self.shared), context)?);
        if let Some(place) = self.shared.queues.get(stream as usize) {
            // Core calls this once per stream, so the place is empty.
            let _ = place.set(Arc::clone(&queue));
        }
        Ok(queue)
    }

    fn close(&self) {
        self.shared.watcher.stop();
        for queue in self.shared.queues() {
            queue.close();
            // Tasks that the watcher did not wake before it ended.
            queue.progress.wake_tasks();
        }
        if self.shared.platform.enter().is_ok() {
            self.shared.host.close();
        }
    }
}

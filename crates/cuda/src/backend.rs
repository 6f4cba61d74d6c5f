//! The CUDA device as a backend.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use millstream_core::sync::schedule::{AtomicUsize, Ordering};
use millstream_core::{
    Backend, BackendEntry, BackendInfo, Batch, Config, HostBytes, MAX_STREAMS, OpKind, Queue,
    QueueContext, Result, Segment,
};

use crate::driver::DeviceMemory;
use crate::gpu::{self, Gpu};
use crate::libraries::unavailable;
use crate::queue::CudaQueue;
use crate::settings::Settings;
use crate::watcher::{Watched, Watcher};

struct CudaBackend {
    shared: Arc<Shared>,
}

/// What the queues of a device share.
pub(crate) struct Shared {
    pub gpu: &'static Gpu,
    pub settings: Settings,
    pub watcher: Watcher,
    /// Commands that a batch has at most.
    pub batch_commands: usize,
    queues: Box<[OnceLock<Arc<CudaQueue>>]>,
    /// Threads that wait for a queue and do not sleep.
    looking: AtomicUsize,
    cores: usize,
}

/// A thread that waits without sleeping, as long as it lives.
pub(crate) struct Looker<'a>(&'a AtomicUsize);

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// The queue of a stream that was used.
    pub fn queue(&self, stream: u32) -> Option<&Arc<CudaQueue>> {
        self.queues.get(stream as usize)?.get()
    }

    /// Counts the calling thread among those who look; gives how many there are per core, rounded up.
    pub fn looker(&self) -> (Looker<'_>, usize) {
        let looking = self.looking.fetch_add(1, Ordering::Relaxed) + 1;
        (Looker(&self.looking), looking.div_ceil(self.cores))
    }
}

impl AsRef<Watcher> for Shared {
    fn as_ref(&self) -> &Watcher {
        &self.watcher
    }
}

impl Watched for Shared {
    fn has_sleepers(&self, id: u32) -> bool {
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
        // Also for what another thread has taken off.
        queue.progress.wake_tasks();
        advanced
    }

    fn examine(&self, id: u32) {
        let awaited = self.queue(id).filter(|queue| queue.progress.is_awaited());
        if let Some(Err(error)) = awaited.map(|queue| queue.look_at_hardware()) {
            // No thread waits that would be told; core hears of it from the tasks.
            let queues = || self.queues.iter().filter_map(OnceLock::get);
            queues().for_each(|queue| queue.progress.lose(error.clone()));
            queues().for_each(|queue| queue.progress.wake_tasks());
        }
    }
}

impl CudaBackend {
    fn open(index: usize, config: &Config) -> Result<Box<dyn Backend>> {
        let settings = Settings::from_env()?;
        let gpu = Gpu::open(index, config)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            gpu,
            settings,
            watcher: Watcher::default(),
            batch_commands: config.batch_commands,
            queues: (0..MAX_STREAMS).map(|_| OnceLock::new()).collect(),
            looking: AtomicUsize::new(0),
            cores,
        });
        Watcher::start(Arc::clone(&shared))
            .map_err(|error| unavailable(format!("its thread cannot be started: {error}")))?;
        Ok(Box::new(Self { shared }))
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> BackendInfo {
        self.shared.gpu.properties.info()
    }

    fn supports(&self, kind: OpKind) -> bool {
        use OpKind::{Download, MatMul, Timestamp, Upload};
        matches!(kind, MatMul | Upload | Download | Timestamp) || millstream_kernels::supports(kind)
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        let gpu = self.shared.gpu;
        gpu.check()?;
        match DeviceMemory::new(&gpu.context, bytes) {
            Ok(memory) => {
                Ok(Some(Segment { address: memory.address(), bytes, owner: Box::new(memory) }))
            }
            Err(failure) if failure.out_of_memory => Ok(None),
            Err(failure) => Err(gpu.note(&failure)),
        }
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        self.shared.gpu.check()?;
        let stream = context.stream;
        let queue = Arc::new(CudaQueue::new(Arc::clone(&self.shared), context)?);
        if let Some(place) = self.shared.queues.get(stream as usize) {
            // Core asks once per stream.
            let _ = place.set(Arc::clone(&queue));
        }
        Ok(queue)
    }

    fn close(&self) {
        self.shared.watcher.stop();
        for queue in self.shared.queues.iter().filter_map(OnceLock::get) {
            queue.close();
            // What the watcher did not come to.
            queue.progress.wake_tasks();
        }
    }
}

impl Queue for CudaQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        self.submit_batch(batch)
    }

    fn poll(&self) {
        self.retire();
    }

    fn watch(&self, _sequence: u64) -> Result<()> {
        self.watch_for_tasks()
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.wait_until(sequence, deadline)
    }

    fn host_memory(&self, bytes: usize) -> Option<HostBytes> {
        self.host.take(bytes)
    }

    fn trim(&self) {
        self.host.trim();
    }

    fn replays(&self) -> u64 {
        self.replays.load(Ordering::Relaxed)
    }
}

millstream_core::inventory::submit! {
    BackendEntry {
        name: "cuda",
        preference: 100,
        list: || Ok(gpu::all()?.iter().map(gpu::Properties::info).collect()),
        open: CudaBackend::open,
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::Device;

    #[test]
    fn without_a_driver_opening_and_listing_say_what_is_missing() {
        let listed = Device::list();
        let (_, list) = listed.iter().find(|(name, _)| *name == "cuda").unwrap();
        match list {
            // With a GPU the tests of the root crate see to the rest.
            Ok(list) => assert!(list.iter().all(|info| info.name.starts_with("cuda:"))),
            Err(listed) => {
                let opened = Device::open("cuda").unwrap_err();
                assert_eq!(opened.to_string(), listed.to_string());
                assert!(opened.to_string().starts_with("device cuda cannot be opened: "));
                assert!(opened.to_string().len() > 60, "{opened}");
            }
        }
    }
}

//! The CPU device as a backend.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream_core::{
    Backend, BackendEntry, BackendInfo, Config, Error, Layout, MAX_STREAMS, OpKind, Queue,
    QueueContext, Result, Segment,
};

use crate::engine::Engine;
use crate::queue::CpuQueue;
use crate::{kernels, memory};

/// What is printed when kernels were built without optimization.
const UNOPTIMIZED: &str = "millstream: the CPU device was built without optimization and is hundreds of times slower; \
     put `opt-level = 3` under `[profile.dev.package.\"*\"]` in Cargo.toml (MILLSTREAM_QUIET=1 hides this line)";

pub(crate) struct CpuBackend {
    engine: Arc<Engine>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    threads: usize,
    memory_bytes: usize,
}

/// Threads that can compute at the same time here.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn info(threads: usize, memory_bytes: usize) -> BackendInfo {
    BackendInfo {
        name: "cpu".into(),
        description: format!(
            "embedded CPU device, {threads} {}, {}",
            if threads == 1 { "thread" } else { "threads" },
            std::env::consts::ARCH
        ),
        memory_bytes,
        parallelism: threads,
        queue_capacity: usize::MAX,
        alignment: memory::ALIGNMENT,
        streams: MAX_STREAMS,
        f64: true,
    }
}

impl CpuBackend {
    /// A device whose work is done by those who wait, until workers are started.
    #[cfg(all(test, not(loom)))]
    pub fn without_workers(engine: Arc<Engine>) -> Self {
        Self { engine, workers: Mutex::default(), threads: 2, memory_bytes: 1 << 30 }
    }

    fn open(index: usize, config: &Config) -> Result<Box<dyn Backend>> {
        if index != 0 {
            return Err(Error::UnknownDevice { name: format!("cpu:{index}"), known: "cpu".into() });
        }
        if cfg!(unoptimized) && !config.quiet {
            static TOLD: std::sync::Once = std::sync::Once::new();
            TOLD.call_once(|| eprintln!("{UNOPTIMIZED}"));
        }
        kernels::check_settings()
            .map_err(|reason| Error::Unavailable { name: "cpu".into(), reason })?;
        let threads = config.threads.unwrap_or_else(cores);
        // Who asks for a number of threads gets no more than that.
        let has_spare = config.threads.is_none();
        let engine = Engine::new(threads, has_spare, config.intra_op);
        let workers = Mutex::new(engine.start_workers(threads)?);
        // Who asks for a limit gets it, up to all there is.
        let memory_bytes = match config.memory_limit {
            Some(_) => memory::total(),
            None => memory::default_limit(),
        };
        Ok(Box::new(Self { engine, workers, threads, memory_bytes }))
    }
}

impl Backend for CpuBackend {
    fn info(&self) -> BackendInfo {
        info(self.threads, self.memory_bytes)
    }

    fn supports(&self, kind: OpKind) -> bool {
        kernels::supports(kind)
    }

    /// At the lowest speed of a kernel this is a quarter of an hour for all cores; usual ones are ten times as
    /// quick. Nobody waits for that long.
    fn max_work(&self) -> u64 {
        (self.threads as u64) << 38
    }

    /// A caller stands in line for each batch.
    fn takes_whole_plans(&self) -> bool {
        true
    }

    /// Nothing hangs here that computes. Of many callers the last waits for as long as all others compute, which is minutes for large
    /// models.
    fn usual_wait(&self) -> Duration {
        Duration::from_secs(600)
    }

    /// A batch executes with a permit.
    fn arena_users(&self) -> Option<usize> {
        Some(self.engine.permits())
    }

    /// Segments come from the heap. Most callers have few values of a size, so that a stream should not begin with many.
    fn first_segment(&self) -> usize {
        16 << 10
    }

    fn packed_bytes(&self, weights: &Layout) -> Option<usize> {
        kernels::packed_bytes(weights)
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        Ok(memory::allocate(bytes))
    }

    fn scratch_bytes(&self) -> usize {
        kernels::SCRATCH_STORE.bytes()
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        let stream = context.stream;
        let queue = Arc::new(CpuQueue::new(Arc::clone(&self.engine), context));
        self.engine.add_queue(stream, Arc::clone(&queue));
        Ok(queue)
    }

    fn close(&self) {
        let workers = std::mem::take(
            &mut *self.workers.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        self.engine.stop_workers(workers);
    }
}

millstream_core::inventory::submit! {
    BackendEntry {
        name: "cpu",
        preference: 0,
        list: || Ok(vec![info(cores(), memory::total())]),
        open: CpuBackend::open,
    }
}

#[cfg(test)]
mod tests;

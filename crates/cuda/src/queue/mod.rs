//! The queue of one stream.
//!
//! Three locks: `encoder` is held through a submit, by one thread at a time as core promises; `flight` is
//! held for moments; `host` has its own, held by who records a large transfer. None is held while waiting
//! for the device.

mod failures;
mod flight;
mod host;
mod page;
mod plans;
mod prepare;
mod product;
mod retire;
mod signature;
mod staging;
mod steps;
mod submit;
mod wait;
mod written;

use std::sync::Arc;

use millstream_core::profiler::StreamProfile;
use millstream_core::sync::schedule::{
    AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError,
};
use millstream_core::{Progress, QueueContext, Result};
use millstream_kernels::fault_record_bytes;

use self::flight::Flight;
use self::host::HostMemory;
use self::page::Page;
use self::submit::Encoder;
use crate::backend::Shared;
use crate::driver::{DeviceMemory, Failure, Stream};
use crate::gpu::Gpu;

/// What the count of batches takes on the device, in a cache line of its own.
const COUNTER_BYTES: usize = 128;

/// The queue of one stream. Aligned so that queues share no cache line.
#[repr(align(128))]
pub(crate) struct CudaQueue {
    id: u32,
    gpu: &'static Gpu,
    shared: Arc<Shared>,
    pub progress: Arc<Progress>,
    profile: Arc<StreamProfile>,
    page: Page,
    /// The count of batches and the fault record, on the device.
    _words: DeviceMemory,
    /// Where batches run.
    pub stream: Stream,
    /// None when the device was closed.
    encoder: Mutex<Option<Encoder>>,
    flight: Mutex<Flight>,
    /// What transfers have on the host; with a lock of its own, for those who take from it.
    pub host: HostMemory,
    /// The tick of the oldest batch in flight: a look at it and at the page says whether there is
    /// anything to do, without a lock.
    front: AtomicU64,
    /// Threads that sleep until this stream comes further.
    pub parked: AtomicU32,
    /// Batches that were replayed. Counted with the encoder locked.
    pub replays: AtomicU64,
}

impl CudaQueue {
    /// # Errors
    ///
    /// Whatever keeps the device from having one more queue.
    pub fn new(shared: Arc<Shared>, context: QueueContext) -> Result<Self> {
        let gpu = shared.gpu;
        let made = || -> Result<_, Failure> {
            gpu.context.make_current()?;
            // An even number, for the alignment of records.
            let commands = shared.batch_commands.next_multiple_of(2);
            let page = Page::new(&gpu.context, commands)?;
            let record = fault_record_bytes(commands);
            let words = DeviceMemory::zeroed(&gpu.context, COUNTER_BYTES + record)?;
            let places = steps::Places {
                counter: words.address(),
                faults: words.address() + COUNTER_BYTES,
                page: page.address(),
                commands,
            };
            Ok((page, words, Stream::new()?, Encoder::new(gpu, shared.settings, places)?))
        };
        let (page, words, stream, encoder) = made().map_err(|failure| gpu.note(&failure))?;
        Ok(Self {
            id: context.stream,
            gpu,
            shared,
            progress: context.progress,
            profile: context.profile,
            page,
            _words: words,
            stream,
            encoder: Mutex::new(Some(encoder)),
            flight: Mutex::default(),
            host: HostMemory::new(gpu),
            front: AtomicU64::new(u64::MAX),
            parked: AtomicU32::new(0),
            replays: AtomicU64::new(0),
        })
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the oldest batch in flight is through. Two loads.
    pub fn is_ready(&self) -> bool {
        self.page.tick() >= self.front.load(Ordering::Acquire)
    }

    /// Gives back what the queue needs for submitting. Nothing is submitted any more.
    pub fn close(&self) {
        let encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.gpu.context.make_current().is_ok() {
            drop(encoder);
            self.host.close();
        }
    }
}

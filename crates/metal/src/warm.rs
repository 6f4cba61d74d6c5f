//! Keeping an idle device warm, where `MILLSTREAM_METAL_KEEP_WARM` says so.
//!
//! The system takes the GPU's claim on memory back about a second after the last command buffer, and the next one pays for it. A
//! thread asks for residency again before that: of the residency sets where there are some, else by a dispatch that does
//! nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use objc2_metal::{
    MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLDevice, MTLSharedEvent,
};

use crate::gpu::Gpu;
use crate::objects::{Obj, pooled};
use crate::queue::as_event;
use crate::settings;

/// Well below the second after which memory is given up.
const INTERVAL: Duration = Duration::from_millis(500);

impl Drop for Idle {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts the thread. It ends with the process, or when the device is lost.
pub(crate) fn start(gpu: &'static Gpu) {
    let started = std::thread::Builder::new().name("millstream warm".into()).spawn(move || {
        let mut idle = None;
        while gpu.status.check().is_ok() {
            std::thread::sleep(INTERVAL);
            pooled(|| {
                if !gpu.residency.request() {
                    // Dropped where nothing can be had: the next round tries again.
                    idle = idle.take().or_else(|| Idle::new(gpu)).and_then(|idle| idle.touch(gpu));
                }
            });
        }
    });
    if let Err(error) = started {
        settings::log(|| format!("the device is not kept warm: no thread: {error}"));
    }
}

/// Queues that do nothing now and then, each with an event, which live as long as their thread.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// How many there are.
pub(crate) fn kept() -> usize {
    KEPT.load(Ordering::Acquire)
}

/// A queue that does nothing now and then.
struct Idle {
    queue: Obj<dyn MTLCommandQueue>,
    event: Obj<dyn MTLSharedEvent>,
    /// Command buffers that were committed.
    count: u64,
}

impl Idle {
    fn new(gpu: &Gpu) -> Option<Self> {
        let queue = gpu.device.newCommandQueueWithMaxCommandBufferCount(4)?;
        let event = gpu.device.newSharedEvent()?;
        KEPT.fetch_add(1, Ordering::AcqRel);
        Some(Self { queue, event, count: 0 })
    }

    /// One more dispatch, unless the last one has not run yet.
    fn touch(mut self, gpu: &Gpu) -> Option<Self> {
        if self.event.signaledValue() >= self.count {
            let commands = self.queue.commandBuffer()?;
            let compute = commands.computeCommandEncoder()?;
            gpu.builtins.encode_nothing(&compute);
            compute.endEncoding();
            self.count += 1;
            commands.encodeSignalEvent_value(as_event(&self.event), self.count);
            commands.commit();
        }
        Some(self)
    }
}

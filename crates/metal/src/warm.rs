//! Keeping an idle device warm, where `MILLSTREAM_METAL_KEEP_WARM` says so.
//!
//! The system takes the GPU's claim on memory back about a second after the last command buffer, and the next one pays for it. A
//! thread asks for residency again before that: of the residency sets where there are some, else by a dispatch that does
//! nothing.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use block2::RcBlock;
use objc2_metal::{MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLDevice};

use crate::gpu::Gpu;
use crate::objects::{Obj, Ref, pooled};
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

/// Queues that do nothing now and then, which live as long as their thread.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// How many there are.
pub(crate) fn kept() -> usize {
    KEPT.load(Ordering::Acquire)
}

/// A queue that does nothing now and then.
struct Idle {
    queue: Obj<dyn MTLCommandQueue>,
    /// The last command buffer is not through. Its handler says when it is, also if it failed, when an event would not come.
    runs: Arc<AtomicBool>,
}

impl Idle {
    fn new(gpu: &Gpu) -> Option<Self> {
        let queue = gpu.device.newCommandQueueWithMaxCommandBufferCount(4)?;
        KEPT.fetch_add(1, Ordering::AcqRel);
        Some(Self { queue, runs: Arc::default() })
    }

    /// One more dispatch, unless the last one has not run yet.
    fn touch(self, gpu: &Gpu) -> Option<Self> {
        if !self.runs.load(Ordering::Acquire) {
            let commands = self.queue.commandBuffer()?;
            let compute = commands.computeCommandEncoder()?;
            gpu.builtins.encode_nothing(&compute);
            compute.endEncoding();
            let runs = Arc::clone(&self.runs);
            let handler = RcBlock::new(move |_: NonNull<Ref<dyn MTLCommandBuffer>>| {
                runs.store(false, Ordering::Release);
            });
            // SAFETY: Metal keeps the block, which any thread may call.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            self.runs.store(true, Ordering::Release);
            commands.commit();
        }
        Some(self)
    }
}

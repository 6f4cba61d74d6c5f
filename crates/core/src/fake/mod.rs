//! A backend that runs nothing, checks that the protocol is kept, and fails on demand.
//!
//! Scheduling and memory are tested on it without hardware. It simulates an asynchronous device: a batch finishes
//! some time after it was submitted, and streams advance in any order that their waits allow. A seed decides the
//! order. On every submit it checks:
//!
//! - Sequence numbers follow each other, and only one thread at a time submits to a queue.
//! - Waits name submitted work of other streams, and no more batches are in flight than allowed.
//! - Command buffers are used as Metal demands (see [`CommandBuffer`]).
//! - Every operand lies in allocated memory, which stays allocated until the batch has passed.
//! - Two accesses to the same bytes, at least one of them a write, are ordered: by their stream, by a chain of waits,
//!   or because the first had finished when the second was submitted.
//! - A run of a plan stays inside its arena, and reads there only what it has written, of the same value.
//!
//! [`FakeControl::violations`] lists the violations.

mod arenas;
mod command_buffer;
mod control;
mod host;
mod order;
mod queue;
mod state;

pub use command_buffer::CommandBuffer;
pub use control::FakeControl;

use std::sync::Arc;

use self::queue::FakeQueue;
use self::state::Shared;
use crate::{
    Backend, BackendEntry, BackendInfo, Config, Device, OpKind, Queue, QueueContext, Result,
    Segment,
};

/// A fake device with `memory_bytes` of memory, and its control. `seed` decides the order in which streams advance.
///
/// # Errors
///
/// Settings out of range.
pub fn device(config: Config, memory_bytes: usize, seed: u64) -> Result<(Device, FakeControl)> {
    let shared = Arc::new(Shared::new(memory_bytes, config.in_flight, seed));
    let backend = FakeBackend(Arc::clone(&shared));
    Ok((Device::with_backend(Box::new(backend), config)?, FakeControl::new(shared)))
}

/// A fake device that takes the place of the CPU device, for examples in docs.
#[doc(hidden)]
pub const STAND_IN: BackendEntry = BackendEntry {
    name: "cpu",
    preference: 0,
    list: || Ok(vec![FakeBackend::new(&Config::default()).info()]),
    open: |_, config| Ok(Box::new(FakeBackend::new(config))),
};

struct FakeBackend(Arc<Shared>);

impl FakeBackend {
    fn new(config: &Config) -> Self {
        Self(Arc::new(Shared::new(64 << 20, config.in_flight, 1)))
    }
}

impl Backend for FakeBackend {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "fake".into(),
            description: "runs nothing, checks the protocol".into(),
            memory_bytes: self.0.memory_bytes,
            parallelism: 1,
            queue_capacity: 64,
            alignment: 256,
            streams: 32,
            f64: true,
        }
    }

    fn supports(&self, _: OpKind) -> bool {
        true
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        Ok(self.0.allocate(bytes).map(|address| Segment {
            address,
            bytes,
            host: None,
            owner: Box::new(OwnedSegment { shared: Arc::clone(&self.0), address }),
        }))
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        self.0.add_queue(context.stream, context.progress);
        let hook = self.0.lock().at_next_queue.take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(Arc::new(FakeQueue::new(Arc::clone(&self.0), context.stream)))
    }

    fn close(&self) {
        self.0.lock().close();
        self.0.host.close();
    }
}

/// Gives its segment back when dropped.
struct OwnedSegment {
    shared: Arc<Shared>,
    address: usize,
}

impl Drop for OwnedSegment {
    fn drop(&mut self) {
        self.shared.free(self.address);
    }
}

//! The parallel-for of one Command: several threads run its chunks.
//!
//! The thread that executes a Command shares its chunks with idle workers. It takes as many as there are
//! cores that nobody has a permit for, unless another caller will likely be back at once. A worker that
//! helps leaves after its chunk when somebody takes the permit. So one caller uses all cores, and many
//! callers use one each.
//!
//! Each thread has a share of neighboring chunks of its own, and goes on with those of others when it is through. So a
//! core finds in its own cache what it made of the same place in the Command before.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use millstream_core::sync::schedule::{Mutex, PoisonError};

use crate::engine::Engine;
use crate::kernels::{Parallel, trim_scratch};
use crate::latch::Latch;
use crate::shares::Shares;

/// The chunks of one Command. Lives on the stack of the thread that executes the Command, its owner.
struct Chunks<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    shares: Shares,
    /// Helpers that may still touch this value.
    helpers: Latch,
    /// What the first chunk that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The stream that the command belongs to.
    stream: u32,
}

/// What an idle worker is woken for: to run some of the [`Chunks`] too.
pub(crate) struct Task {
    chunks: *const Chunks<'static>,
    /// The share that it begins with.
    share: usize,
}

// SAFETY: the pointer is good until the helper leaves the latch, whichever thread that is; see `ParallelFor::run`.
unsafe impl Send for Task {}

impl Chunks<'_> {
    /// Runs chunks, those of a share first, until there are none or `leave` says so.
    fn run(&self, share: usize, mut leave: impl FnMut() -> bool) {
        while let Some(chunk) = self.shares.take(share) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)(chunk))) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
                // The rest is not worth computing.
                self.shares.drop_all();
            }
            if leave() {
                return;
            }
        }
    }
}

impl Task {
    /// Helps until there is nothing left or somebody needs the core. The worker is then marked as idle.
    pub fn run(self, engine: &Engine, worker: usize) {
        // SAFETY: the owner keeps the chunks alive until the latch is open, and this helper is counted there.
        let chunks = unsafe { &*self.chunks };
        chunks.run(self.share, || engine.helpers.are_too_many(engine.free_cores()));
        trim_scratch();
        let parker = engine.owner_parker(chunks.stream);
        engine.helpers.leave();
        // Before the owner goes on: its next Command is for this worker, which is awake and has the data, and not for another.
        engine.idle_workers.mark_idle(worker);
        // After this the chunks may be gone.
        chunks.helpers.leave(parker);
    }
}

/// Shares the chunks of a command between the calling thread and idle workers.
pub(crate) struct ParallelFor<'a> {
    pub engine: &'a Engine,
    /// The stream that the command belongs to.
    pub stream: u32,
}

impl ParallelFor<'_> {
    /// Wakes idle workers, at most one for each chunk left and each free core.
    fn spawn_tasks(&self, chunks: &Chunks<'_>) {
        let engine = self.engine;
        if engine.callers.expects_another(self.stream) {
            return;
        }
        while chunks.helpers.count() < chunks.shares.left() {
            if !engine.helpers.join(engine.free_cores()) {
                return;
            }
            chunks.helpers.add();
            // The first share is the owner's.
            let share = chunks.helpers.count();
            let task = Task { chunks: std::ptr::from_ref(chunks).cast(), share };
            if engine.idle_workers.dispatch(task).is_err() {
                chunks.helpers.take_back();
                engine.helpers.leave();
                return;
            }
        }
    }
}

impl Parallel for ParallelFor<'_> {
    fn is_shared(&self) -> bool {
        self.engine.intra_op && self.engine.free_cores() > 0
    }

    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        if chunks <= 1 || !self.engine.intra_op {
            (0..chunks).for_each(body);
            return;
        }
        let chunks = Chunks {
            body,
            shares: Shares::new(chunks, self.engine.cores()),
            helpers: Latch::new(),
            panic: Mutex::new(None),
            stream: self.stream,
        };
        self.spawn_tasks(&chunks);
        // A core may become free while a long Command runs.
        chunks.run(0, || {
            if self.engine.free_cores() > 0 {
                self.spawn_tasks(&chunks);
            }
            false
        });
        chunks.helpers.wait(self.engine.owner_parker(self.stream));
        if let Some(panic) = chunks.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }
}

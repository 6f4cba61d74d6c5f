//! The parallel-for of one Command: several threads run its chunks.
//!
//! The thread that executes a Command shares its chunks with idle workers. It takes as many as there are
//! cores that nobody has a permit for, unless another caller will likely be back at once. A worker that
//! helps leaves after its chunk when somebody takes the permit. So one caller uses all cores, and many
//! callers use one each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use millstream_core::sync::schedule::{AtomicUsize, Mutex, Ordering, PoisonError};

use crate::engine::Engine;
use crate::kernels::{Parallel, trim_scratch};
use crate::latch::Latch;

/// The chunks of one Command. Lives on the stack of the thread that executes the Command, its owner.
struct Chunks<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
    /// Helpers that may still touch this value.
    helpers: Latch,
    /// What the first chunk that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The stream that the command belongs to.
    stream: u32,
}

/// What an idle worker is woken for: to run some of the [`Chunks`] too.
pub(crate) struct Task(*const Chunks<'static>);

// SAFETY: the pointer is good until the helper leaves the latch, whichever thread that is; see `ParallelFor::run`.
unsafe impl Send for Task {}

impl Chunks<'_> {
    /// Runs chunks until there are none or `leave` says so.
    fn run(&self, mut leave: impl FnMut() -> bool) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.count {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)(chunk))) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
                // The rest is not worth computing.
                self.next.store(self.count, Ordering::Relaxed);
            }
            if leave() {
                return;
            }
        }
    }
}

impl Task {
    /// Helps until there is nothing left or somebody needs the core.
    pub fn run(self, engine: &Engine) {
        // SAFETY: the owner keeps the chunks alive until the latch is open, and this helper is counted there.
        let chunks = unsafe { &*self.0 };
        chunks.run(|| engine.helpers.are_too_many(engine.free_cores()));
        trim_scratch();
        let parker = engine.owner_parker(chunks.stream);
        engine.helpers.leave();
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
        while chunks.next.load(Ordering::Relaxed) + chunks.helpers.count() < chunks.count {
            if !engine.helpers.join(engine.free_cores()) {
                return;
            }
            chunks.helpers.add();
            let task = Task(std::ptr::from_ref(chunks).cast());
            if engine.idle_workers.dispatch(task).is_err() {
                chunks.helpers.take_back();
                engine.helpers.leave();
                return;
            }
        }
    }
}

impl Parallel for ParallelFor<'_> {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        if chunks <= 1 || !self.engine.intra_op {
            (0..chunks).for_each(body);
            return;
        }
        let chunks = Chunks {
            body,
            count: chunks,
            next: AtomicUsize::new(0),
            helpers: Latch::new(),
            panic: Mutex::new(None),
            stream: self.stream,
        };
        self.spawn_tasks(&chunks);
        // A core may become free while a long Command runs.
        chunks.run(|| {
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

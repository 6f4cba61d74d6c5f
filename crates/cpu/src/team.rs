//! Several threads on one command.
//!
//! The thread that executes a command shares its chunks with idle workers, as many as there are cores
//! that nobody has a permit for or will likely want one for at once. A helper leaves after a chunk when
//! somebody takes the permit: so one caller uses all cores, and many callers use one each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use millstream_core::sync::schedule::{AtomicUsize, Mutex, Ordering, PoisonError};

use crate::engine::Engine;
use crate::kernels::{Parallel, trim_scratch};
use crate::latch::Latch;

/// One command's chunks. Lives on the stack of the thread that executes the command.
struct Work<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    chunks: usize,
    next: AtomicUsize,
    /// Helpers that may still touch this value.
    helpers: Latch,
    /// What the first chunk that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The stream that the command belongs to.
    stream: u32,
}

/// A call for help with some [`Work`].
pub(crate) struct Help(*const Work<'static>);

// SAFETY: the pointer is good until the helper signs off, whichever thread that is; see `Team::run`.
unsafe impl Send for Help {}

impl Work<'_> {
    /// Runs chunks until there are none or `leave` says so.
    fn run_chunks(&self, mut leave: impl FnMut() -> bool) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)(chunk))) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
                // The rest is not worth computing.
                self.next.store(self.chunks, Ordering::Relaxed);
            }
            if leave() {
                return;
            }
        }
    }
}

impl Help {
    /// Helps until there is nothing left or somebody needs the core.
    pub fn run(self, engine: &Engine) {
        // SAFETY: the owner keeps the work alive until nobody helps, and this one is counted in.
        let work = unsafe { &*self.0 };
        work.run_chunks(|| engine.helpers.are_too_many(engine.free_cores()));
        trim_scratch();
        let bed = engine.bed(work.stream);
        engine.helpers.leave();
        // After this the work may be gone.
        work.helpers.leave(bed);
    }
}

/// Shares the chunks of a command between the calling thread and idle workers.
pub(crate) struct Team<'a> {
    pub engine: &'a Engine,
    /// The stream that the command belongs to.
    pub stream: u32,
}

impl Team<'_> {
    /// Calls idle workers, as many as there are chunks left for and free cores.
    fn recruit(&self, work: &Work<'_>) {
        let engine = self.engine;
        if engine.callers.expects_another(self.stream) {
            return;
        }
        while work.next.load(Ordering::Relaxed) + work.helpers.count() < work.chunks {
            if !engine.helpers.join(engine.free_cores()) {
                return;
            }
            work.helpers.add();
            let help = Help(std::ptr::from_ref(work).cast());
            if engine.bell.call(help).is_err() {
                work.helpers.take_back();
                engine.helpers.leave();
                return;
            }
        }
    }
}

impl Parallel for Team<'_> {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        if chunks <= 1 || !self.engine.intra_op {
            (0..chunks).for_each(body);
            return;
        }
        let work = Work {
            body,
            chunks,
            next: AtomicUsize::new(0),
            helpers: Latch::new(),
            panic: Mutex::new(None),
            stream: self.stream,
        };
        self.recruit(&work);
        // A core that becomes free while a long command runs is asked to join.
        work.run_chunks(|| {
            if self.engine.free_cores() > 0 {
                self.recruit(&work);
            }
            false
        });
        work.helpers.wait(self.engine.bed(self.stream));
        if let Some(panic) = work.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }
}

//! Passes: what an encoder leaves in its command buffer, and how it is run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Range;
use super::buffer::Memory;
use super::counters::SampleBuffer;
use crate::control;
use crate::gpu::{Jitter, Program, at_once};
use crate::objc::Id;
use crate::rules::{Rule, violation};

/// What an encoder encoded.
#[derive(Default)]
pub struct Pass {
    pub steps: Vec<Step>,
    /// Dispatches between two barriers may run in any order and at the same time.
    pub concurrent: bool,
    pub waits: Vec<u64>,
    pub updates: Vec<u64>,
    /// Memory that Metal tracks, by address: passes that share one run one after the other.
    pub tracked: Vec<usize>,
    /// Where its begin and end are sampled.
    pub samples: Option<(Id<SampleBuffer>, [usize; 2])>,
}

pub enum Step {
    Dispatch(Box<Dispatch>),
    Barrier,
    Copy {
        from: Place,
        to: Place,
        bytes: usize,
    },
    Fill {
        to: Place,
        bytes: usize,
        value: u8,
    },
    /// Samples of counters are written to memory.
    Resolve {
        samples: Id<SampleBuffer>,
        range: Range,
        to: Place,
    },
}

/// Bytes of a memory that the pass keeps.
pub struct Place {
    pub memory: Arc<Memory>,
    pub offset: usize,
}

impl Place {
    fn pointer(&self) -> *mut u8 {
        (self.memory.address() + self.offset) as *mut u8
    }
}

pub struct Dispatch {
    pub program: Arc<Program>,
    /// The place of the kernel among the program's.
    pub kernel: usize,
    pub groups: [u32; 3],
    pub threads: u32,
    pub buffers: [u64; 31],
    /// What `setBytes` copied.
    pub bytes: Vec<Arc<[u64]>>,
    /// Keeps the memory, whoever releases the buffers.
    pub memory: Vec<Arc<Memory>>,
}

impl Dispatch {
    fn run(&self, jitter: &mut Jitter) {
        jitter.pause();
        if control::at_once() {
            return;
        }
        let Self { program, kernel, groups, threads, buffers, .. } = self;
        // SAFETY: the dispatch keeps the memory that it names; what kernels do beyond their buffers is theirs.
        let done = unsafe { program.run(*kernel, *groups, *threads, buffers, jitter.next()) };
        if let Err(message) = done {
            violation(Rule::DivergentBarrier, message);
        }
    }
}

impl Step {
    fn run(&self, jitter: &mut Jitter) {
        match self {
            Step::Dispatch(dispatch) => dispatch.run(jitter),
            Step::Barrier => {}
            // SAFETY: checked against both buffers when it was encoded; copies may overlap.
            Step::Copy { from, to, bytes } => unsafe {
                std::ptr::copy(from.pointer(), to.pointer(), *bytes)
            },
            // SAFETY: checked against the buffer when it was encoded.
            Step::Fill { to, bytes, value } => unsafe { to.pointer().write_bytes(*value, *bytes) },
            Step::Resolve { samples, range, to } => {
                let bytes = samples.bytes(*range);
                // SAFETY: as above.
                unsafe { to.pointer().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
    }
}

impl Pass {
    /// Runs it on this thread, and on a second one where steps may run at once.
    pub fn run(&self, jitter: &mut Jitter) {
        jitter.pause();
        if let Some((samples, [start, _])) = &self.samples {
            samples.sample(*start);
        }
        if self.concurrent {
            for steps in self.steps.split(|step| matches!(step, Step::Barrier)) {
                run_in_any_order(steps, jitter);
            }
        } else {
            self.steps.iter().for_each(|step| step.run(jitter));
        }
        if let Some((samples, [_, end])) = &self.samples {
            samples.sample(*end);
        }
    }
}

/// Two threads take steps, each from another end of a random order.
fn run_in_any_order(steps: &[Step], jitter: &mut Jitter) {
    if steps.len() < 2 {
        steps.iter().for_each(|step| step.run(jitter));
        return;
    }
    let mut order: Vec<usize> = (0..steps.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, (jitter.next() >> 16) as usize % (last + 1));
    }
    let taken: Vec<AtomicBool> = steps.iter().map(|_| AtomicBool::new(false)).collect();
    let begun = AtomicUsize::new(0);
    let take = |jitter: &mut Jitter, order: &mut dyn Iterator<Item = &usize>| {
        // Both threads begin before either has run anything, so that nothing orders the first two steps.
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        for index in order {
            if !taken[*index].swap(true, Ordering::Relaxed) {
                steps[*index].run(jitter);
            }
        }
    };
    let theirs = || take(&mut Jitter::new(), &mut order.iter().rev());
    at_once(&theirs, || take(jitter, &mut order.iter()));
}

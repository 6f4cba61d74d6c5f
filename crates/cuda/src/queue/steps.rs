//! What a batch becomes: calls of the driver, with all their arguments, in order.
//!
//! Everything that can fail for a reason of its own (compiling, allocating, searching an algorithm) has
//! happened when a list of steps is complete; what is left is to hand it to a stream, directly or under
//! capture. Every step knows the Command that it belongs to. The lists are used again from batch to batch.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;
use millstream_core::sync::Cached;
use millstream_core::{BoundCommand, RawBuffer, Result};
use millstream_kernels::{Launch, Slot};
use smallvec::SmallVec;

use super::written::Written;
use crate::blas::{Blas, Ready};
use crate::builtin::{COPY_GROUPS, COPY_THREADS, KERNEL_COPY};
use crate::driver::{Failure, Function, Stream, check};
use crate::gpu::Gpu;

/// Arguments that a kernel has at most: its buffers and one struct.
const MAX_ARGUMENTS: usize = 24;

/// One call.
enum Step {
    Kernel {
        function: &'static Function,
        groups: [u32; 3],
        threads: u32,
        /// Where its arguments begin among the words: one word each, but for a struct at the end, which
        /// takes as many as it is large.
        words: usize,
        arguments: usize,
    },
    Product(Ready),
    /// From host memory that the device can reach.
    CopyIn {
        target: usize,
        source: *const u8,
        bytes: usize,
    },
    /// To host memory that the device can reach.
    CopyOut {
        target: *mut u8,
        source: usize,
        bytes: usize,
    },
}

/// Where the memory of a queue lies that kernels are told of.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// The count of batches, on the device.
    pub counter: usize,
    /// The fault record, on the device.
    pub faults: usize,
    /// What the host sees.
    pub page: usize,
    /// Commands that a batch has at most.
    pub commands: usize,
}

/// The calls of one batch.
#[derive(Default)]
pub(crate) struct Steps {
    list: Vec<Step>,
    words: Vec<u64>,
    /// For every step the index of its Command.
    owners: Vec<usize>,
    /// The Command whose steps are added, and what it writes.
    owner: usize,
    writes: SmallVec<[RawBuffer; 2]>,
    written: Written,
    /// What must outlive the batch, and those before it.
    pub keep: Vec<Box<dyn Any + Send>>,
}

// SAFETY: the addresses in it are those of memory that any thread may use.
unsafe impl Send for Steps {}

/// A place in the list.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    steps: usize,
    words: usize,
}

/// A step that failed.
pub(crate) struct Stopped {
    /// How many steps were taken before.
    pub taken: usize,
    /// The index of the Command that it belongs to; as many as there are Commands for the end of the batch.
    pub command: usize,
    /// Why.
    pub failure: Failure,
}

impl Steps {
    /// Forgets the steps. What must outlive a batch stays until one is launched that can keep it.
    pub fn clear(&mut self) {
        self.list.clear();
        self.words.clear();
        self.owners.clear();
        // Before the first kernel of a batch there is the end of another one, which writes nothing that
        // Commands read, and has waited for all before it. Before a graph everything has ended.
        self.written.clear();
    }

    /// What is added from here on belongs to a Command. Gives the place where its steps begin.
    pub fn begin(&mut self, index: usize, command: &BoundCommand) -> Mark {
        self.owner = index;
        self.writes.clear();
        self.writes.extend(command.outputs().iter().map(|output| output.buffer));
        Mark { steps: self.list.len(), words: self.words.len() }
    }

    /// What is added from here on belongs to no Command, but fails those from `index` on if it fails.
    pub fn begin_between(&mut self, index: usize) {
        self.owner = index;
        self.writes.clear();
    }

    /// Forgets the steps behind a place.
    pub fn rewind(&mut self, mark: Mark) {
        self.list.truncate(mark.steps);
        self.words.truncate(mark.words);
        self.owners.truncate(mark.steps);
        self.written.set_unknown();
    }

    /// Whether a kernel that is added next may read the buffer before what comes before it has ended.
    pub fn is_early(&self, buffer: RawBuffer) -> bool {
        !self.written.may_reach(buffer)
    }

    fn push(&mut self, step: Step) {
        match step {
            Step::Kernel { .. } => self.written.replace(&self.writes),
            Step::Product(_) | Step::CopyIn { .. } | Step::CopyOut { .. } => {
                self.written.add(&self.writes);
            }
        }
        self.list.push(step);
        self.owners.push(self.owner);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    fn kernel(&mut self, function: &'static Function, groups: u32, threads: u32, words: &[u64]) {
        let first = self.words.len();
        self.words.extend(words);
        let groups = [groups, 1, 1];
        self.push(Step::Kernel { function, groups, threads, words: first, arguments: words.len() });
    }

    /// A kernel of the common source.
    ///
    /// # Errors
    ///
    /// What the compiler said.
    pub fn launch(
        &mut self,
        gpu: &'static Gpu,
        launch: &Launch,
        scratch: usize,
        faults: usize,
    ) -> Result<()> {
        let function = match gpu.kernel(launch.key)? {
            Cached::Shared(function) => function,
            Cached::Owned(own) => {
                // The cache is full. The batch keeps it.
                let pointer = Arc::as_ptr(&own);
                self.keep.push(Box::new(own));
                // SAFETY: what was just put into `keep` outlives every use of this list.
                let function: &'static Function = unsafe { &*pointer };
                function
            }
        };
        let first = self.words.len();
        self.words.extend(launch.slots.iter().map(|slot| match *slot {
            Slot::Address(address) => address as u64,
            Slot::Workspace(offset) => (scratch + offset) as u64,
            Slot::Faults => faults as u64,
        }));
        let params = launch.params.as_bytes().chunks_exact(8);
        self.words.extend(params.map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_ne_bytes(bytes)
        }));
        self.push(Step::Kernel {
            function,
            groups: launch.groups,
            threads: launch.threads,
            words: first,
            // The struct is passed by address, as one argument, whatever its size.
            arguments: launch.slots.len() + usize::from(!launch.params.as_bytes().is_empty()),
        });
        Ok(())
    }

    /// A product of the library.
    pub fn product(&mut self, ready: Ready) {
        self.push(Step::Product(ready));
    }

    /// Bytes from `source`, in host memory that the device sees at `seen`.
    pub fn copy_in(
        &mut self,
        gpu: &'static Gpu,
        target: usize,
        source: *const u8,
        seen: usize,
        bytes: usize,
    ) {
        if bytes <= KERNEL_COPY {
            self.copy(gpu, target, seen, bytes);
        } else {
            self.push(Step::CopyIn { target, source, bytes });
        }
    }

    /// Bytes to `target`, in host memory that the device sees at `seen`.
    pub fn copy_out(
        &mut self,
        gpu: &'static Gpu,
        target: *mut u8,
        seen: usize,
        source: usize,
        bytes: usize,
    ) {
        if bytes <= KERNEL_COPY {
            self.copy(gpu, seen, source, bytes);
        } else {
            self.push(Step::CopyOut { target, source, bytes });
        }
    }

    fn copy(&mut self, gpu: &'static Gpu, target: usize, source: usize, bytes: usize) {
        let words = [target, source, bytes].map(|word| word as u64);
        self.kernel(&gpu.builtins.copy, copy_groups(bytes), COPY_THREADS, &words);
    }

    /// The clock, written to an address.
    pub fn time(&mut self, gpu: &'static Gpu, target: usize) {
        self.kernel(&gpu.builtins.time, 1, 1, &[target as u64]);
    }

    /// The end of the batch.
    pub fn tick(&mut self, gpu: &'static Gpu, places: Places) {
        let Places { counter, faults, page, commands } = places;
        let words = [counter, faults, page, commands].map(|word| word as u64);
        self.kernel(&gpu.builtins.tick, 1, 32, &words);
    }

    /// A download and the end of the batch in one.
    pub fn copy_out_and_tick(
        &mut self,
        gpu: &'static Gpu,
        seen: usize,
        source: usize,
        bytes: usize,
        places: Places,
    ) {
        let Places { counter, faults, page, commands } = places;
        let words = [seen, source, bytes, counter, faults, page, commands].map(|word| word as u64);
        self.kernel(&gpu.builtins.copy_tick, copy_groups(bytes), COPY_THREADS, &words);
    }

    /// Hands all steps to a stream.
    ///
    /// # Safety
    ///
    /// Every address in the Commands that the steps were made from is valid until the batch has run.
    ///
    /// # Errors
    ///
    /// The first step that failed; those after it are not taken.
    pub unsafe fn run(&mut self, stream: &Stream, blas: &mut Option<Blas>) -> Result<(), Stopped> {
        for taken in 0..self.list.len() {
            // SAFETY: the caller's promise.
            unsafe { self.step(taken, stream, blas) }.map_err(|failure| Stopped {
                taken,
                command: self.owners[taken],
                failure,
            })?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn step(
        &mut self,
        index: usize,
        stream: &Stream,
        blas: &mut Option<Blas>,
    ) -> Result<(), Failure> {
        match &self.list[index] {
            Step::Kernel { function, groups, threads, words, arguments } => {
                let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
                let Some(pointers) = pointers.get_mut(..*arguments) else {
                    let text = format!("{arguments} arguments");
                    return Err(Failure::of_library("cuLaunchKernel", "too many".into(), text));
                };
                for (word, pointer) in self.words[*words..].iter().zip(&mut *pointers) {
                    *pointer = std::ptr::from_ref(word).cast_mut().cast();
                }
                // SAFETY: the words are those that the kernel's parameters take, one each and the last as
                // many as its struct is large; addresses are the caller's promise.
                unsafe { function.launch(stream, *groups, *threads, pointers) }
            }
            Step::Product(ready) => match blas {
                // SAFETY: the caller's promise.
                Some(blas) => unsafe { blas.run(ready, stream) },
                None => {
                    let text = "the queue has no handle".into();
                    Err(Failure::of_library("cublasLtMatmul", "not prepared".into(), text))
                }
            },
            &Step::CopyIn { target, source, bytes } => {
                // SAFETY: `source` lies in host memory that the batch keeps; the target is the caller's promise.
                check("cuMemcpyHtoDAsync", unsafe {
                    sys::cuMemcpyHtoDAsync_v2(target as u64, source.cast(), bytes, stream.raw())
                })
            }
            &Step::CopyOut { target, source, bytes } => {
                // SAFETY: as above.
                check("cuMemcpyDtoHAsync", unsafe {
                    sys::cuMemcpyDtoHAsync_v2(target.cast(), source as u64, bytes, stream.raw())
                })
            }
        }
    }
}

/// Groups of a kernel that copies: each thread has 16 bytes, up to a bound.
fn copy_groups(bytes: usize) -> u32 {
    bytes.div_ceil(16 * COPY_THREADS as usize).clamp(1, COPY_GROUPS) as u32
}

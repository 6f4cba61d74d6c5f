//! Compiled kernels: each is compiled once, by one thread, many in one library where they are needed together.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_core::sync::{Cached, OnceCache};
use millstream_core::{Config, Error, Result};
use millstream_kernels::{Dialect, Key, source, source_of_many};
use objc2_metal::MTLComputePipelineState;

use crate::compile::Library;
use crate::gpu::Gpu;
use crate::objects::{Kept, Obj, Raw};
use crate::settings;

/// Libraries that are compiled at the same time.
const LIBRARIES: usize = 4;
/// Kernels from which on it is worth to divide them.
const LEAST_PER_LIBRARY: usize = 8;

/// A kernel that can be launched. The release of its pipeline is deferred when it is dropped.
pub(crate) struct Kernel {
    gpu: &'static Gpu,
    pipeline: Obj<dyn MTLComputePipelineState>,
}

impl Kernel {
    pub fn raw(&self) -> Raw<dyn MTLComputePipelineState> {
        Raw::of(&self.pipeline)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.gpu.deferred.defer(Kept::new(self.pipeline.clone()));
        self.gpu.kernels.living.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The kernels of a GPU.
pub(crate) struct Kernels {
    cache: OnceCache<Key, Kernel>,
    /// Keys that a thread is compiling together with others.
    preparing: Mutex<HashSet<Key>>,
    prepared: Condvar,
    timeout: Duration,
    living: AtomicUsize,
}

impl Kernels {
    pub fn new(config: &Config) -> Self {
        Self {
            cache: OnceCache::new(config.kernel_cache, config.wait_timeout_or_usual()),
            preparing: Mutex::default(),
            prepared: Condvar::new(),
            timeout: config.wait_timeout_or_usual(),
            living: AtomicUsize::new(0),
        }
    }

    /// How many there are, in the cache and in use.
    pub fn count(&self) -> usize {
        self.living.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.preparing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Groups of a kernel have so many threads at most.
fn threads(key: &Key) -> u32 {
    let constant = key.constants().find(|(name, _)| *name == "THREADS");
    constant.map_or(256, |(_, threads)| threads.unsigned_abs())
}

fn failed(key: &Key, message: String) -> Error {
    Error::Compile { key: key.entry(), message: message.into() }
}

impl Gpu {
    /// A kernel that was compiled before.
    pub fn known_kernel(&'static self, key: Key) -> Option<Cached<'static, Kernel>> {
        self.kernels.cache.get(&key)
    }

    /// A kernel; compiled if it has to be, by itself.
    ///
    /// # Errors
    ///
    /// The compiler's words; the next call tries again.
    pub fn kernel(&'static self, key: Key) -> Result<Cached<'static, Kernel>> {
        self.kernels.cache.get_or_build(key, |key| {
            let started = Instant::now();
            let library = self.compiler.begin(&source(key, Dialect::Metal)).wait();
            let library = library.map_err(|message| failed(key, message))?;
            let kernel = self.pipeline(key, &library);
            library.keep();
            settings::log(|| format!("compiled {} in {:?}", key.entry(), started.elapsed()));
            kernel
        })
    }

    fn pipeline(&'static self, key: &Key, library: &Library<'_>) -> Result<Kernel> {
        let made = self.compiler.pipeline(library, &key.entry(), threads(key));
        let pipeline = made.map_err(|message| failed(key, message))?;
        self.kernels.living.fetch_add(1, Ordering::Relaxed);
        Ok(Kernel { gpu: self, pipeline })
    }

    /// Compiles those of some kernels that are not there, together. What fails is left to [`kernel`](Self::kernel), which
    /// says what is wrong with which. Kernels that another thread is compiling are waited for.
    pub fn prepare_kernels(&'static self, keys: &[Key]) {
        let kernels = &self.kernels;
        let is_missing = |key: &Key| self.known_kernel(*key).is_none();
        let mut preparing = kernels.lock();
        let own: Vec<Key> = keys.iter().copied().filter(|key| is_missing(key)).collect();
        let own: Vec<Key> = own.into_iter().filter(|key| preparing.insert(*key)).collect();
        drop(preparing);
        if own.len() > 1 {
            self.compile_together(&own);
        }
        let mut preparing = kernels.lock();
        own.iter().for_each(|key| _ = preparing.remove(key));
        kernels.prepared.notify_all();
        let until = Instant::now() + kernels.timeout;
        while keys.iter().any(|key| preparing.contains(key)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            preparing = kernels
                .prepared
                .wait_timeout(preparing, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn compile_together(&'static self, keys: &[Key]) {
        let started = Instant::now();
        let libraries = (keys.len() / LEAST_PER_LIBRARY).clamp(1, LIBRARIES);
        let parts = keys.chunks(keys.len().div_ceil(libraries));
        let begun: Vec<_> = parts
            .map(|keys| (keys, self.compiler.begin(&source_of_many(keys, Dialect::Metal))))
            .collect();
        for (keys, pending) in begun {
            match pending.wait() {
                Ok(library) => {
                    for key in keys {
                        // An error comes again when the kernel is asked for, and then has somebody to go to.
                        let _ = self
                            .kernels
                            .cache
                            .get_or_build(*key, |key| self.pipeline(key, &library));
                    }
                    library.keep();
                }
                Err(message) => {
                    settings::log(|| format!("{} kernels together: {message}", keys.len()))
                }
            }
        }
        settings::log(|| format!("compiled {} kernels in {:?}", keys.len(), started.elapsed()));
    }
}

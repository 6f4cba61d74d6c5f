//! The GPU of this machine. It belongs to the process: all devices that are opened on it share it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::{BackendInfo, Config, Error, MAX_STREAMS, Result};
use millstream_gpu::{DeviceStatus, Segments};
use millstream_kernels::Limits;
use objc2_metal::{MTLCreateSystemDefaultDevice, MTLDevice};

use crate::builtin::Builtins;
use crate::capture::Capture;
use crate::compile::Compiler;
use crate::deferred::DeferredReleases;
use crate::kernels::Kernels;
use crate::objects::{Obj, RawBufferObject, pooled};
use crate::queue::SpareQueues;
use crate::residency::Residency;
use crate::settings::Settings;
use crate::system::{self, Features, Quirks};
use crate::times::Clock;
use crate::warm;

/// Batches of a stream in flight, beyond which recording waits.
const IN_FLIGHT: usize = 8;

/// The GPU, and what its devices share.
pub(crate) struct Gpu {
    pub device: Obj<dyn MTLDevice>,
    pub quirks: Quirks,
    pub settings: Settings,
    /// Prepared lists are indirect command buffers.
    pub indirect: bool,
    pub description: String,
    pub cores: u32,
    /// The largest buffer.
    pub max_buffer: usize,
    /// What all buffers together should stay below.
    pub working_set: usize,
    pub limits: Limits,
    pub status: DeviceStatus,
    pub segments: Arc<Segments<RawBufferObject>>,
    pub deferred: DeferredReleases,
    pub residency: Residency,
    pub compiler: Compiler,
    pub kernels: Kernels,
    pub builtins: Builtins,
    pub clock: Clock,
    pub capture: Capture,
    /// Bytes of all buffers, until the GPU is through with them.
    allocated: AtomicUsize,
    pub spare_queues: Mutex<SpareQueues>,
    /// One thread at a time encodes, where a quirk says so.
    encoding: Mutex<()>,
}

/// What is known without opening it.
struct Found {
    device: Obj<dyn MTLDevice>,
    features: Features,
}

fn find() -> Result<Found> {
    let unavailable = |reason: String| Error::Unavailable { name: "metal".into(), reason };
    let Some(device) = MTLCreateSystemDefaultDevice() else {
        return Err(unavailable(
            "there is no Metal device: it needs a Mac with Apple silicon and a process that may use its GPU".into(),
        ));
    };
    let features = Features::of(&device).map_err(unavailable)?;
    Ok(Found { device, features })
}

/// The device that would be opened, for the probe.
///
/// # Errors
///
/// What is missing.
pub(crate) fn find_device() -> Result<(Obj<dyn MTLDevice>, Features)> {
    check_process()?;
    find().map(|Found { device, features }| (device, features))
}

/// What could be opened.
///
/// # Errors
///
/// What is missing.
pub(crate) fn list() -> Result<Vec<BackendInfo>> {
    pooled(|| {
        let Found { device, features } = find()?;
        let cores = system::gpu_cores(&device, features.version);
        Ok(vec![info(describe(&device, &features, cores), cores, working_set(&device))])
    })
}

/// What kernels may count on, on the GPU that could be opened.
///
/// # Errors
///
/// There is none, or a variable of the environment does not parse.
pub(crate) fn limits_found() -> Result<Limits> {
    pooled(|| {
        let settings = Settings::from_env()?;
        let Found { device, features } = find()?;
        let cores = system::gpu_cores(&device, features.version);
        Ok(limits(cores, settings.matrices && features.matrices))
    })
}

fn describe(device: &Obj<dyn MTLDevice>, features: &Features, cores: u32) -> String {
    let Features { version, family, .. } = features;
    format!("{}, {cores} GPU cores, Apple family {family}, macOS {version}", device.name())
}

fn working_set(device: &Obj<dyn MTLDevice>) -> usize {
    usize::try_from(device.recommendedMaxWorkingSetSize()).unwrap_or(usize::MAX)
}

fn info(description: String, cores: u32, memory: usize) -> BackendInfo {
    BackendInfo {
        name: "metal:0".into(),
        description,
        memory_bytes: memory,
        parallelism: cores as usize,
        queue_capacity: IN_FLIGHT + 1,
        alignment: 64,
        streams: MAX_STREAMS,
        f64: false,
    }
}

/// What kernels may count on, on a GPU of so many cores, with simdgroup matrices or without.
pub(crate) fn limits(cores: u32, matrices: bool) -> Limits {
    Limits {
        max_threads: 1024,
        shared_bytes: 32 << 10,
        simd_width: 32,
        f64: false,
        matrices,
        tensor_cores: false,
        parallel_groups: cores * 4,
    }
}

/// Metal does not survive a fork.
///
/// # Errors
///
/// Another process has used Metal before, and this one was forked from it.
fn check_process() -> Result<()> {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    match PROCESS.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Err(other) if other != own => Err(Error::Unavailable {
            name: "metal".into(),
            reason: "this process was forked from one that uses Metal: start a new program instead"
                .into(),
        }),
        _ => Ok(()),
    }
}

static OPENED: Mutex<Option<&'static Gpu>> = Mutex::new(None);

/// How many objects of which protocol live as long as the process, whatever is closed.
pub(crate) fn kept_objects() -> Vec<(&'static str, usize)> {
    let Some(gpu) = *OPENED.lock().unwrap_or_else(PoisonError::into_inner) else {
        return Vec::new();
    };
    let [queues, events, buffers] = gpu.spare_queues().kept();
    vec![
        ("MTLDevice", 1),
        ("MTLCommandQueue", queues + warm::kept()),
        ("MTLSharedEvent", events),
        ("MTLBuffer", buffers),
        ("MTLResidencySet", gpu.residency.count()),
        ("MTLComputePipelineState", Builtins::COUNT + gpu.kernels.count()),
    ]
}

impl Gpu {
    /// The GPU; opened by the first call, the same for all.
    ///
    /// # Errors
    ///
    /// No such GPU, or whatever keeps it from being used.
    pub fn open(index: usize, config: &Config) -> Result<&'static Gpu> {
        if index > 0 {
            let name = format!("metal:{index}");
            return Err(Error::UnknownDevice { name, known: "metal:0".into() });
        }
        // First, so that a forked child never comes to the lock.
        check_process()?;
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = *opened {
            return gpu.status.check().map(|()| gpu);
        }
        let gpu = pooled(|| Self::new(config))?;
        let gpu: &'static Gpu = Box::leak(Box::new(gpu));
        *opened = Some(gpu);
        if gpu.settings.keep_warm {
            warm::start(gpu);
        }
        Ok(gpu)
    }

    fn new(config: &Config) -> Result<Self> {
        let settings = Settings::from_env()?;
        let Found { device, features } = find()?;
        let cores = system::gpu_cores(&device, features.version);
        let (max_buffer, working_set) = (device.maxBufferLength(), working_set(&device));
        let residency = match settings.residency && features.residency {
            true => Residency::new(&device, working_set),
            false => Residency::default(),
        };
        let capture = Capture::begin(&device, &settings);
        let matrices = settings.matrices && features.matrices;
        let indirect = settings.indirect && features.indirect;
        let compiler = Compiler::new(&device, features, settings.archives, indirect);
        let builtins = Builtins::new(&compiler)?;
        Ok(Self {
            description: describe(&device, &features, cores),
            quirks: Quirks::of(&features),
            settings,
            cores,
            max_buffer,
            working_set,
            limits: limits(cores, matrices),
            status: DeviceStatus::new("metal:0".into()),
            segments: Arc::default(),
            deferred: DeferredReleases::default(),
            residency,
            compiler,
            kernels: Kernels::new(config),
            builtins,
            clock: Clock::of(&device),
            indirect,
            capture,
            allocated: AtomicUsize::new(0),
            spare_queues: Mutex::default(),
            encoding: Mutex::default(),
            device,
        })
    }

    /// What the backend says about it.
    pub fn info(&self) -> BackendInfo {
        info(self.description.clone(), self.cores, self.working_set)
    }

    /// Counts bytes as taken. Waits a moment for what is about to be given back if there are too many.
    ///
    /// # Errors
    ///
    /// The limit.
    pub fn reserve(&self, bytes: usize, timeout: Duration) -> Result<(), usize> {
        let limit = self.working_set;
        let take = || {
            self.allocated
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    taken.checked_add(bytes).filter(|taken| *taken <= limit)
                })
                .ok()
        };
        self.deferred.retry(timeout, take).map(drop).ok_or(limit)
    }

    /// Counts bytes as given back.
    pub fn release(&self, bytes: usize) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of all buffers.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Held while encoding where only one thread may.
    pub fn encoding_turn(&self) -> Option<MutexGuard<'_, ()>> {
        let serial = self.quirks.serial_encoding;
        serial.then(|| self.encoding.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! One GPU of the machine, shared by all devices that are opened on it.
//!
//! Context, compiled kernels and the news that the GPU is lost belong to the process, so they are kept for
//! as long as it lives: a second device on the same GPU finds its kernels compiled.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute, CUresult};
use millstream_core::profiler::now_ns;
use millstream_core::sync::{Cached, OnceCache};
use millstream_core::{BackendInfo, Config, Error, MAX_STREAMS, Result};
use millstream_gpu::{DeviceStatus, Failure, HostVisible, Memory, Segments};
use millstream_kernels::{Dialect, Key, Limits, source};

use crate::builtin::{self, Builtins};
use crate::compile;
use crate::driver::{Context, CudaSegment, Function, Module, Pinned, Stream, check};
use crate::libraries::{self, unavailable};
use crate::settings::Settings;

/// The oldest CUDA that the driver may speak.
const OLDEST_DRIVER: i32 = 13_000;

/// The first compute capability whose kernels can wait themselves for the one before.
const OVERLAP_SINCE: (i32, i32) = (9, 0);

/// The first compute capability whose tensor cores take all 16-bit types.
const TENSOR_CORES_SINCE: (i32, i32) = (8, 0);

/// What is known about a GPU without opening it.
#[derive(Clone, Debug)]
pub(crate) struct Properties {
    pub ordinal: usize,
    pub device: CUdevice,
    pub name: String,
    pub memory: usize,
    pub processors: u32,
    /// As in 9.0.
    pub capability: (i32, i32),
    pub shared_bytes: u32,
    pub max_threads: u32,
}

/// One GPU.
pub(crate) struct Gpu {
    pub properties: Properties,
    pub context: Arc<Context>,
    pub builtins: Builtins,
    pub limits: Limits,
    kernels: OnceCache<Key, Function>,
    /// Kernels are started while the one before them still runs.
    overlaps: bool,
    /// What to add to the GPU's clock to get the host's.
    clock_offset: i64,
    pub status: DeviceStatus,
    pub segments: Arc<Segments<CudaSegment>>,
}

fn attribute(device: CUdevice, which: CUdevice_attribute) -> Result<i32, Failure> {
    let mut value = 0;
    // SAFETY: the driver is initialized, and `value` is a place for the result.
    check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) })?;
    Ok(value)
}

/// Initializes the driver.
///
/// # Errors
///
/// What is missing or does not fit, and how to mend it.
fn initialize() -> Result<()> {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    libraries::check()?;
    let process = std::process::id();
    let initialized = PROCESS.load(Ordering::Acquire);
    if initialized != 0 && initialized != process {
        return Err(unavailable(
            "this process was forked from one that uses CUDA, which the driver does not allow: start it \
             with spawn or exec instead",
        ));
    }
    // SAFETY: may be called by any thread at any time.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => {}
        CUresult::CUDA_ERROR_NO_DEVICE => {
            return Err(unavailable(
                "the driver finds no NVIDIA GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES, and in a \
                 container start it with the NVIDIA runtime (docker run --gpus all)",
            ));
        }
        status => {
            let failure = check("cuInit", status).err();
            let text = failure.map_or_else(String::new, |failure| failure.to_string());
            return Err(unavailable(format!("{text}: look at nvidia-smi and the system's log")));
        }
    }
    PROCESS.store(process, Ordering::Release);
    let mut version = 0;
    // SAFETY: `version` is a place for the result.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })
        .map_err(|failure| failure.while_opening("cuda"))?;
    if version < OLDEST_DRIVER {
        return Err(unavailable(format!(
            "the NVIDIA driver speaks CUDA {}.{}, and 13.0 is needed: install a driver of version 580 or \
             later",
            version / 1000,
            version % 1000 / 10
        )));
    }
    Ok(())
}

/// What is known about every GPU.
///
/// # Errors
///
/// What is missing or does not fit, and how to mend it.
pub(crate) fn all() -> Result<Vec<Properties>> {
    initialize()?;
    let mut count = 0;
    // SAFETY: the driver is initialized, and `count` is a place for the result.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })
        .map_err(|failure| failure.while_opening("cuda"))?;
    (0..count).map(|ordinal| properties(ordinal).map_err(|f| f.while_opening("cuda"))).collect()
}

fn properties(ordinal: i32) -> Result<Properties, Failure> {
    use CUdevice_attribute::*;
    let mut device = 0;
    // SAFETY: the driver is initialized, and `device` is a place for the result.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal) })?;
    let mut name = [0 as c_char; 256];
    // SAFETY: the place is as large as is said.
    check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 256, device) })?;
    let mut memory = 0;
    // SAFETY: `memory` is a place for the result.
    check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })?;
    let major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let processors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let shared = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
    let threads = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
    Ok(Properties {
        ordinal: ordinal as usize,
        device,
        // SAFETY: the driver ends the name with a zero within the array.
        name: unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
        memory,
        processors: processors.max(1) as u32,
        capability: (major, minor),
        shared_bytes: shared.max(0) as u32,
        max_threads: threads.max(32) as u32,
    })
}

impl Properties {
    /// What the backend says about it.
    pub fn info(&self) -> BackendInfo {
        BackendInfo {
            name: format!("cuda:{}", self.ordinal),
            description: format!(
                "{}, {} multiprocessors, compute capability {}.{}",
                self.name, self.processors, self.capability.0, self.capability.1
            ),
            memory_bytes: self.memory,
            parallelism: self.processors as usize,
            // The driver blocks at about a thousand launches of one stream; a full batch is some hundred.
            queue_capacity: 9,
            alignment: 64,
            streams: MAX_STREAMS,
            f64: true,
        }
    }

    /// The architecture as the compiler names it.
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}

impl Gpu {
    /// The GPU with that number; opened by the first call, the same for all.
    ///
    /// # Errors
    ///
    /// No such GPU, or whatever keeps it from being used.
    pub fn open(ordinal: usize, config: &Config) -> Result<&'static Gpu> {
        static OPENED: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());
        // First, so that a forked child never comes to the lock.
        let mut all = all()?;
        if ordinal >= all.len() {
            let known = (0..all.len()).map(|index| format!("cuda:{index}")).collect::<Vec<_>>();
            let name = format!("cuda:{ordinal}");
            return Err(Error::UnknownDevice { name, known: known.join(", ") });
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = opened.iter().find(|gpu| gpu.properties.ordinal == ordinal) {
            return gpu.status.check().map(|()| *gpu);
        }
        let gpu: &'static Gpu = Box::leak(Box::new(Self::new(all.swap_remove(ordinal), config)?));
        opened.push(gpu);
        Ok(gpu)
    }

    fn new(properties: Properties, config: &Config) -> Result<Self> {
        let name = format!("cuda:{}", properties.ordinal);
        let failed = |failure: Failure| failure.while_opening(&name);
        let overlaps = Settings::from_env()?.overlap && properties.capability >= OVERLAP_SINCE;
        let context = Arc::new(Context::retain(properties.device).map_err(failed)?);
        let image = compile::compile_once("builtin", builtin::SOURCE, &properties.architecture())?;
        let builtins = Builtins::load(&image, overlaps).map_err(failed)?;
        let clock_offset = calibrate(&context, &builtins).map_err(failed)?;
        Ok(Self {
            limits: Limits {
                tensor_cores: properties.capability >= TENSOR_CORES_SINCE,
                ..limits(properties.max_threads, properties.shared_bytes, properties.processors)
            },
            kernels: OnceCache::new(config.kernel_cache, config.wait_timeout_or_usual()),
            status: DeviceStatus::new(name),
            segments: Arc::default(),
            overlaps,
            properties,
            context,
            builtins,
            clock_offset,
        })
    }

    /// A kernel, compiled once per key; other threads that need it wait for that key only.
    ///
    /// # Errors
    ///
    /// What the compiler or the driver said; the next call tries again.
    pub fn kernel(&'static self, key: Key) -> Result<Cached<'static, Function>> {
        self.kernels.get_or_build(key, |key| self.build(key))
    }

    fn build(&self, key: &Key) -> Result<Function> {
        let entry = key.entry();
        let image = compile::compile_once(
            &entry,
            &source(key, Dialect::Cuda),
            &self.properties.architecture(),
        )?;
        let failed = |failure: Failure| Error::Compile {
            key: entry.clone(),
            message: failure.to_string().into(),
        };
        self.context.make_current().map_err(failed)?;
        Module::load(&image)
            .and_then(|module| module.function(&entry, self.overlaps))
            .map_err(failed)
    }

    /// A time of the GPU's clock on the host's.
    pub fn host_ns(&self, device_ns: u64) -> u64 {
        device_ns.wrapping_add_signed(self.clock_offset)
    }
}

/// What kernels may count on.
pub(crate) fn limits(max_threads: u32, shared_bytes: u32, processors: u32) -> Limits {
    let parallel_groups = processors * 4;
    Limits {
        max_threads,
        shared_bytes,
        simd_width: 32,
        f64: true,
        matrices: false,
        tensor_cores: true,
        parallel_groups,
    }
}

/// What to add to the GPU's clock to get the host's, from the quickest of a few readings.
fn calibrate(context: &Arc<Context>, builtins: &Builtins) -> Result<i64, Failure> {
    const READINGS: usize = 8;
    let stream = Stream::new()?;
    let page = Pinned::new(context, 8)?;
    let mut target = page.address() as u64;
    let mut best = (u64::MAX, 0);
    for _ in 0..READINGS {
        let before = now_ns();
        let mut arguments = [(&raw mut target).cast()];
        // SAFETY: the kernel takes one address, which is that of a word that lives until the wait below.
        unsafe { builtins.time.launch(&stream, [1, 1, 1], 1, &mut arguments) }?;
        stream.synchronize()?;
        let after = now_ns();
        // SAFETY: the kernel that wrote the word has run.
        let device = unsafe { page.host().cast::<u64>().read_volatile() };
        if after - before < best.0 {
            let host = before + (after - before) / 2;
            best = (after - before, host.wrapping_sub(device).cast_signed());
        }
    }
    Ok(best.1)
}

//! CUDA as a platform: what the queues of `millstream-gpu` ask for, by the driver and cuBLASLt.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;
use millstream_core::sync::Cached;
use millstream_core::sync::schedule::AtomicU32;
use millstream_core::{BackendInfo, Epilogue, RawBuffer, Result};
use millstream_gpu::{
    Binding, DeviceStatus, Failure, Item, LaunchFailure, LaunchList, Memory, Page, Platform,
    ProductOperands, Segments,
};
use millstream_kernels::{Key, Limits, fault_record_bytes};

use crate::blas::{self, Blas, PreparedProduct};
use crate::builtin::{COPY_THREADS, KERNEL_COPY, copy_groups};
use crate::driver::{CudaSegment, DeviceMemory, Event, Function, GraphExec, Pinned, Stream, check};
use crate::gpu::Gpu;
use crate::settings;

/// Arguments that a kernel has at most: its buffers and one struct.
const MAX_ARGUMENTS: usize = 24;

/// What the count of batches takes on the device, in a cache line of its own.
const COUNTER_BYTES: usize = 128;

type Place = Binding<CudaSegment>;

/// One GPU, as one device uses it.
#[derive(Clone, Copy)]
pub(crate) struct Cuda {
    pub gpu: &'static Gpu,
    /// Products of `f32` may round their inputs to TF32.
    pub tf32: bool,
}

/// Where batches run, and where their end is counted.
pub(crate) struct CudaQueue {
    stream: Stream,
    page: Page<Pinned>,
    /// The count of batches and the fault record, on the device.
    words: DeviceMemory,
}

/// What fills a queue.
pub(crate) struct CudaEncoder {
    /// Used for capturing only, never for running.
    capture: Stream,
    event: Event,
    /// Made when the first product comes.
    blas: Option<Blas>,
}

impl CudaQueue {
    /// What kernels that end a batch are given: counter, fault record, page, and Commands of a batch at most.
    fn completion_arguments(&self) -> [u64; 4] {
        let counter = self.words.address();
        let (page, commands) = (self.page.memory().address(), self.page.commands());
        [counter, counter + COUNTER_BYTES, page, commands].map(|word| word as u64)
    }
}

impl Cuda {
    /// Gives one item to a stream; `queue` is the one whose batch it is.
    ///
    /// # Safety
    ///
    /// As for [`Platform::launch`].
    unsafe fn item(
        &self,
        item: Item<'_, Self>,
        queue: &CudaQueue,
        stream: &Stream,
        blas: &mut Option<Blas>,
    ) -> Result<(), Failure> {
        let builtins = &self.gpu.builtins;
        match item {
            Item::Kernel { kernel, groups, threads, bindings, params } => {
                let mut addresses = [0; MAX_ARGUMENTS];
                let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
                let count = bindings.len() + usize::from(!params.is_empty());
                let Some(arguments) = pointers.get_mut(..count) else {
                    let text = format!("{count} arguments");
                    return Err(Failure::new("cuLaunchKernelEx", "too many", text));
                };
                for (address, &place) in addresses.iter_mut().zip(bindings) {
                    *address = CudaSegment::address(place);
                }
                let words = addresses[..bindings.len()].iter();
                // The struct is passed by address, as one argument, whatever its size.
                for (argument, word) in arguments.iter_mut().zip(words.chain(params.first())) {
                    *argument = std::ptr::from_ref(word).cast_mut().cast();
                }
                // SAFETY: the words are those that the kernel's parameters take, one each and the last as
                // many as its struct is large; addresses are the caller's promise.
                unsafe { kernel.launch(stream, groups, threads, arguments) }
            }
            Item::Product(product) => match blas {
                // SAFETY: the caller's promise.
                Some(blas) => unsafe { blas.run(product, stream) },
                None => {
                    let text = "the queue has no handle";
                    Err(Failure::new("cublasLtMatmul", "not prepared", text))
                }
            },
            Item::Copy { target, source, bytes } if bytes <= KERNEL_COPY => {
                let words =
                    [CudaSegment::address(target), CudaSegment::address(source), bytes as u64];
                let groups = copy_groups(bytes);
                // SAFETY: the caller's promise.
                unsafe { launch_words(&builtins.copy, stream, groups, COPY_THREADS, words) }
            }
            // SAFETY: the caller's promise.
            Item::Copy { target, source, bytes } => unsafe { copy(target, source, bytes, stream) },
            Item::Time { target } => {
                let words = [CudaSegment::address(target)];
                // SAFETY: the caller's promise.
                unsafe { launch_words(&builtins.time, stream, 1, 1, words) }
            }
            Item::Finish => {
                let words = queue.completion_arguments();
                // SAFETY: the queue's own memory, of the sizes that the kernel counts on.
                unsafe { launch_words(&builtins.tick, stream, 1, 32, words) }
            }
            Item::CopyAndFinish { target, source, bytes } => {
                let [counter, faults, page, commands] = queue.completion_arguments();
                let (to, from) = (CudaSegment::address(target), CudaSegment::address(source));
                let words = [to, from, bytes as u64, counter, faults, page, commands];
                let groups = copy_groups(bytes);
                // SAFETY: as above, and the caller's promise.
                unsafe { launch_words(&builtins.copy_tick, stream, groups, COPY_THREADS, words) }
            }
        }
    }
}

/// Launches a kernel of ours whose arguments are words.
///
/// # Safety
///
/// The kernel takes so many words, and what they say may be done.
unsafe fn launch_words<const N: usize>(
    function: &Function,
    stream: &Stream,
    groups: u32,
    threads: u32,
    mut words: [u64; N],
) -> Result<(), Failure> {
    let mut arguments = words.each_mut().map(|word| std::ptr::from_mut(word).cast::<c_void>());
    // SAFETY: the caller's promise; the words live through the call.
    unsafe { function.launch(stream, [groups, 1, 1], threads, &mut arguments) }
}

/// A copy by the copy engine.
///
/// # Safety
///
/// Both places are valid for so many bytes until it has run.
unsafe fn copy(target: Place, source: Place, bytes: usize, stream: &Stream) -> Result<(), Failure> {
    let (to, from) = (CudaSegment::address(target), CudaSegment::address(source));
    if let Some(host) = CudaSegment::host_address(source) {
        // SAFETY: the caller's promise.
        return check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, host as *const c_void, bytes, stream.raw())
        });
    }
    let host = CudaSegment::host_address(target).unwrap_or(to as usize);
    // SAFETY: the caller's promise.
    check("cuMemcpyDtoHAsync", unsafe {
        sys::cuMemcpyDtoHAsync_v2(host as *mut c_void, from, bytes, stream.raw())
    })
}

impl Platform for Cuda {
    type Segment = CudaSegment;
    type Memory = DeviceMemory;
    type HostMemory = Pinned;
    type Kernel = Function;
    type Product = PreparedProduct;
    type Queue = CudaQueue;
    type Encoder = CudaEncoder;
    type Captured = GraphExec;

    const KERNEL_COPY_BYTES: usize = KERNEL_COPY;

    fn info(&self) -> BackendInfo {
        self.gpu.properties.info()
    }

    fn number(&self) -> usize {
        self.gpu.properties.ordinal
    }

    fn memory_bytes(&self) -> usize {
        self.gpu.properties.memory
    }

    fn limits(&self) -> &Limits {
        &self.gpu.limits
    }

    fn status(&self) -> &DeviceStatus {
        &self.gpu.status
    }

    fn segments(&self) -> &Arc<Segments<CudaSegment>> {
        &self.gpu.segments
    }

    fn log(&self, text: impl FnOnce() -> String) {
        settings::log(text);
    }

    fn enter(&self) -> Result<(), Failure> {
        self.gpu.context.make_current()
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceMemory, Failure> {
        DeviceMemory::new(&self.gpu.context, bytes)
    }

    fn allocate_host(&self, bytes: usize) -> Result<Pinned, Failure> {
        Pinned::new(&self.gpu.context, bytes)
    }

    fn kernel(&self, key: Key) -> Result<Cached<'static, Function>> {
        self.gpu.kernel(key)
    }

    fn forget_products(&self, encoder: &mut CudaEncoder) {
        if let Some(blas) = &mut encoder.blas {
            blas.tidy();
        }
    }

    fn product(
        &self,
        encoder: &mut CudaEncoder,
        operands: &ProductOperands<Place>,
    ) -> Result<Option<(PreparedProduct, Epilogue)>, Failure> {
        let operands = operands.try_map(|place| {
            let address = CudaSegment::address(*place) as usize;
            Ok::<_, Failure>(RawBuffer { address, bytes: 0 })
        })?;
        let Some(product) = blas::map(&operands) else { return Ok(None) };
        let blas = match &mut encoder.blas {
            Some(blas) => blas,
            none => none.insert(Blas::new(self.gpu, self.tf32)?),
        };
        let prepared = blas.prepare(&product)?;
        if prepared.is_none() {
            settings::log(|| format!("no algorithm for {:?}", product.problem));
        }
        Ok(prepared.map(|prepared| (prepared, product.left)))
    }

    fn new_queue(&self, commands: usize) -> Result<(CudaQueue, CudaEncoder), Failure> {
        let context = &self.gpu.context;
        let page = Pinned::new(context, Page::<Pinned>::bytes(commands))?;
        let words = DeviceMemory::zeroed(context, COUNTER_BYTES + fault_record_bytes(commands))?;
        let page = Page::new(page, commands);
        let queue = CudaQueue { stream: Stream::new()?, page, words };
        Ok((queue, CudaEncoder { capture: Stream::new()?, event: Event::new()?, blas: None }))
    }

    fn fault_record(&self, queue: &CudaQueue) -> Place {
        Binding { segment: queue.words.segment(), offset: COUNTER_BYTES }
    }

    fn order(
        &self,
        earlier: &CudaQueue,
        later: &CudaQueue,
        encoder: &mut CudaEncoder,
    ) -> Result<(), Failure> {
        encoder.event.order(&earlier.stream, &later.stream)
    }

    #[inline]
    fn completed(&self, queue: &CudaQueue) -> u64 {
        queue.page.completed()
    }

    fn faults<'a>(&self, queue: &'a CudaQueue, tick: u64) -> Option<&'a [AtomicU32]> {
        queue.page.faults(tick)
    }

    fn probe(&self, queue: &CudaQueue) -> Result<(), Failure> {
        queue.stream.is_idle().map(drop)
    }

    fn host_ns(&self, device_ns: u64) -> u64 {
        self.gpu.host_ns(device_ns)
    }

    unsafe fn launch(
        &self,
        list: &LaunchList<Self>,
        queue: &CudaQueue,
        encoder: &mut CudaEncoder,
    ) -> Result<(), LaunchFailure> {
        let (stream, blas) = (&queue.stream, &mut encoder.blas);
        // SAFETY: the caller's promise.
        list.launch_each(|item| unsafe { self.item(item, queue, stream, blas) })
    }

    unsafe fn capture(
        &self,
        list: &LaunchList<Self>,
        queue: &CudaQueue,
        encoder: &mut CudaEncoder,
    ) -> Result<GraphExec, Failure> {
        let CudaEncoder { capture, blas, .. } = encoder;
        GraphExec::capture(capture, || {
            // SAFETY: nothing is run while capturing; the rest is the caller's promise.
            let launched =
                list.launch_each(|item| unsafe { self.item(item, queue, capture, blas) });
            launched.map_err(|failed| failed.failure)
        })
    }

    fn replay(
        &self,
        captured: &mut GraphExec,
        queue: &CudaQueue,
        _: &mut CudaEncoder,
    ) -> Result<(), Failure> {
        captured.launch(&queue.stream)
    }
}

//! What rows of the probe measure with: Metal's objects, used as the backend uses them.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use block2::RcBlock;
use millstream_core::{ProbeOptions, Result};
use millstream_kernels::{Dialect, source_of_many};
use objc2::msg_send;
use objc2_metal::{
    MTLBuffer, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder, MTLCommandQueue,
    MTLComputeCommandEncoder, MTLComputePipelineState, MTLDevice, MTLDispatchType, MTLSharedEvent,
    MTLSize,
};

use crate::compile::Compiler;
use crate::gpu;
use crate::memory::OPTIONS;
use crate::objects::{AnyThread, Obj, Ref, pooled};
use crate::queue::as_event;
use crate::system::Features;

/// A command buffer that has not answered for so long never will.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Threads of a group.
pub(super) const THREADS: usize = 256;

/// A pipeline that any thread may use.
type Pipeline = AnyThread<Obj<dyn MTLComputePipelineState>>;

/// Numbers that kernels take.
#[derive(Clone, Copy, Default)]
pub(super) struct Params {
    pub count: u32,
    pub what: u32,
    pub value: u32,
}

/// A device with everything that rows share.
pub(super) struct Lab {
    pub device: Obj<dyn MTLDevice>,
    pub features: Features,
    pub compiler: Compiler,
    pub options: ProbeOptions,
    /// Those that were made, by name.
    pipelines: Mutex<Vec<(String, Pipeline)>>,
}

/// What the completed handler of a command buffer saw.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub status: MTLCommandBufferStatus,
    /// The code and the words of the error.
    pub error: Option<(isize, String)>,
    /// The value of the event when the handler began.
    pub event: u64,
    pub thread: std::thread::ThreadId,
    pub at: Instant,
    /// Seconds, on the clock of the system.
    pub gpu: [f64; 2],
}

/// A command buffer that was committed.
pub(super) struct Running {
    pub event: Obj<dyn MTLSharedEvent>,
    pub value: u64,
    /// When it was about to be.
    pub committed: Instant,
    reports: Receiver<Report>,
}

/// Memory that host and GPU share.
pub(super) struct Shared {
    buffer: AnyThread<Obj<dyn MTLBuffer>>,
    words: usize,
}

impl Lab {
    /// On the device that the backend would open.
    ///
    /// # Errors
    ///
    /// There is none, or it does not take the text.
    pub fn open(options: &ProbeOptions) -> Result<Self> {
        pooled(|| {
            let (device, features) = gpu::find_device()?;
            let compiler = Compiler::new(&device, features, false, features.indirect);
            let lab = Self {
                device,
                features,
                compiler,
                options: options.clone(),
                pipelines: Mutex::default(),
            };
            lab.compiler.begin(&text()).wait().map_err(|words| {
                let message = words.into();
                millstream_core::Error::Compile { key: "probe".into(), message }
            })?;
            Ok(lab)
        })
    }

    /// A kernel of the probe's text.
    pub fn pipeline(&self, name: &str) -> Result<Obj<dyn MTLComputePipelineState>, String> {
        let lock = || self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pipeline)) = lock().iter().find(|(made, _)| made == name) {
            return Ok(pipeline.0.clone());
        }
        let library = self.compiler.begin(&text()).wait()?;
        let pipeline = self.compiler.pipeline(&library, name, THREADS as u32)?;
        lock().push((name.to_owned(), AnyThread(pipeline.clone())));
        Ok(pipeline)
    }

    pub fn queue(&self, cap: usize) -> Result<Obj<dyn MTLCommandQueue>, String> {
        self.device.newCommandQueueWithMaxCommandBufferCount(cap).ok_or_else(|| "no queue".into())
    }

    pub fn event(&self) -> Result<Obj<dyn MTLSharedEvent>, String> {
        self.device.newSharedEvent().ok_or_else(|| "no shared event".into())
    }

    /// So many words, all zero.
    pub fn words(&self, words: usize) -> Result<Shared, String> {
        let made = self.device.newBufferWithLength_options(words * 4, OPTIONS);
        let shared = Shared::of(made.ok_or("no buffer")?, words);
        shared.fill(0);
        Ok(shared)
    }

    /// Memory with these numbers in it.
    pub fn floats(&self, values: &[f32]) -> Result<Shared, String> {
        let shared = self.words(values.len())?;
        values.iter().enumerate().for_each(|(i, value)| shared.set(i, value.to_bits()));
        Ok(shared)
    }

    /// Fills a command buffer and commits it. Its last act is to set an event.
    pub fn commit(
        &self,
        queue: &Ref<dyn MTLCommandQueue>,
        fill: impl FnOnce(&Ref<dyn MTLCommandBuffer>) -> Result<(), String>,
    ) -> Result<Running, String> {
        let event = self.event()?;
        self.commit_with(queue, &event, 1, fill)
    }

    /// As above, with an event and the value that it gets.
    pub fn commit_with(
        &self,
        queue: &Ref<dyn MTLCommandQueue>,
        event: &Obj<dyn MTLSharedEvent>,
        value: u64,
        fill: impl FnOnce(&Ref<dyn MTLCommandBuffer>) -> Result<(), String>,
    ) -> Result<Running, String> {
        pooled(|| {
            let commands = queue.commandBuffer().ok_or("no command buffer")?;
            fill(&commands)?;
            commands.encodeSignalEvent_value(as_event(event), value);
            let (sender, reports) = channel();
            let own = event.clone();
            let handler = RcBlock::new(move |commands: NonNull<Ref<dyn MTLCommandBuffer>>| {
                let (at, event) = (Instant::now(), own.signaledValue());
                // SAFETY: Metal passes a command buffer that lives through the call.
                let report = pooled(|| report(unsafe { commands.as_ref() }, at, event));
                let _ = sender.send(report);
            });
            // SAFETY: Metal copies the block, and what it holds may go to any thread.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            let committed = Instant::now();
            commands.commit();
            Ok(Running { event: event.clone(), value, committed, reports })
        })
    }

    /// Fills the one encoder of a command buffer and commits it.
    pub fn compute(
        &self,
        queue: &Ref<dyn MTLCommandQueue>,
        fill: impl FnOnce(&Ref<dyn MTLComputeCommandEncoder>),
    ) -> Result<Running, String> {
        self.commit(queue, |commands| {
            let compute = encoder(commands)?;
            fill(&compute);
            compute.endEncoding();
            Ok(())
        })
    }

    /// Runs one kernel over so many threads, and waits for it.
    pub fn run(
        &self,
        queue: &Ref<dyn MTLCommandQueue>,
        kernel: &Ref<dyn MTLComputePipelineState>,
        buffers: &[&Shared],
        params: Params,
        threads: usize,
    ) -> Result<Report, String> {
        let fill = |compute: &Ref<dyn MTLComputeCommandEncoder>| {
            dispatch(compute, kernel, buffers, params, threads);
        };
        self.compute(queue, fill)?.finish()
    }

    /// What a function of the probe's text gives for numbers.
    pub fn values(&self, what: u32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, String> {
        let (queue, kernel) = (self.queue(8)?, self.pipeline("probe_function")?);
        let (inputs, out) = ([self.floats(x)?, self.floats(y)?], self.words(x.len())?);
        let params = Params { count: x.len() as u32, what, ..Params::default() };
        self.run(&queue, &kernel, &[&inputs[0], &inputs[1], &out], params, x.len())?;
        Ok((0..x.len()).map(|i| f32::from_bits(out.get(i))).collect())
    }
}

/// The text of the probe, behind what all kernels share.
fn text() -> String {
    source_of_many(&[], Dialect::Metal) + include_str!("probe.metal")
}

fn report(commands: &Ref<dyn MTLCommandBuffer>, at: Instant, event: u64) -> Report {
    let error = commands.error();
    // SAFETY: properties of command buffers, of this type. (The binding wants one more crate for it.)
    let gpu = unsafe { [msg_send![commands, GPUStartTime], msg_send![commands, GPUEndTime]] };
    Report {
        status: commands.status(),
        error: error.map(|error| (error.code(), error.localizedDescription().to_string())),
        event,
        thread: std::thread::current().id(),
        at,
        gpu,
    }
}

impl Running {
    /// The report of the handler, if it comes in time.
    pub fn report(&self, timeout: Duration) -> Option<Report> {
        self.reports.recv_timeout(timeout).ok()
    }

    /// The report of a command buffer that should be right.
    pub fn finish(&self) -> Result<Report, String> {
        let report =
            self.report(TIMEOUT).ok_or_else(|| format!("no handler came for {TIMEOUT:?}"))?;
        match &report.error {
            None => Ok(report),
            Some((code, words)) => Err(format!("a command buffer failed with {code}: {words}")),
        }
    }

    /// Sleeps until the event has come; whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        let milliseconds = timeout.as_millis() as u64;
        self.event.waitUntilSignaledValue_timeoutMS(self.value, milliseconds)
    }

    /// Spins until the event has come.
    pub fn spin(&self) -> Result<(), String> {
        let start = Instant::now();
        while self.event.signaledValue() < self.value {
            if start.elapsed() > TIMEOUT {
                return Err(format!("no event came for {TIMEOUT:?}"));
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Shared {
    /// A buffer of so many words.
    pub fn of(buffer: Obj<dyn MTLBuffer>, words: usize) -> Self {
        Self { buffer: AnyThread(buffer), words }
    }

    pub fn object(&self) -> &Ref<dyn MTLBuffer> {
        &self.buffer
    }

    fn word(&self, index: usize) -> NonNull<u32> {
        assert!(index < self.words, "word {index} of {}", self.words);
        // SAFETY: inside of the buffer.
        unsafe { self.buffer.contents().cast::<u32>().add(index) }
    }

    /// A word as the host sees it.
    pub fn get(&self, index: usize) -> u32 {
        // SAFETY: a word of the buffer; the GPU writes whole words.
        unsafe { self.word(index).read_volatile() }
    }

    pub fn set(&self, index: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.word(index).write_volatile(value) };
    }

    pub fn fill(&self, value: u32) {
        (0..self.words).for_each(|index| self.set(index, value));
    }
}

/// An encoder whose dispatches may overlap, as those of the backend do.
pub(super) fn encoder(
    commands: &Ref<dyn MTLCommandBuffer>,
) -> Result<Obj<dyn MTLComputeCommandEncoder>, String> {
    let made = commands.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent);
    made.ok_or_else(|| "no encoder".into())
}

/// One dispatch, with buffers at the first indices and params behind them.
pub(super) fn dispatch(
    compute: &Ref<dyn MTLComputeCommandEncoder>,
    kernel: &Ref<dyn MTLComputePipelineState>,
    buffers: &[&Shared],
    params: Params,
    threads: usize,
) {
    let places: Vec<_> = buffers.iter().map(|buffer| (*buffer, 0)).collect();
    let Params { count, what, value } = params;
    let groups = [threads.div_ceil(THREADS), THREADS];
    dispatch_groups(compute, kernel, &places, &[count, what, value, 0], groups);
}

/// As above, with offsets in bytes, any words as params, and so many groups of so many threads.
pub(super) fn dispatch_groups(
    compute: &Ref<dyn MTLComputeCommandEncoder>,
    kernel: &Ref<dyn MTLComputePipelineState>,
    buffers: &[(&Shared, usize)],
    words: &[u32],
    groups: [usize; 2],
) {
    compute.setComputePipelineState(kernel);
    // SAFETY: indices that kernels of the probe have, offsets inside of the buffers, which the command buffer retains, and
    // bytes that are copied.
    unsafe {
        for (index, (buffer, offset)) in buffers.iter().enumerate() {
            compute.setBuffer_offset_atIndex(Some(buffer.object()), *offset, index);
        }
        let bytes = NonNull::from(words).cast::<c_void>();
        compute.setBytes_length_atIndex(bytes, size_of_val(words), buffers.len());
    }
    let [groups, threads] = groups.map(|width| MTLSize { width, height: 1, depth: 1 });
    compute.dispatchThreadgroups_threadsPerThreadgroup(groups, threads);
}

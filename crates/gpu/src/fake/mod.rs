//! A GPU platform on the host: the whole logic of queues runs on it without any driver.
//!
//! Every queue is a thread that does what it was given, in order, and loses time on the way as a seed says. So a missing
//! wait is a data race, which ThreadSanitizer sees and which mostly gives a wrong answer. Segments are numbers that
//! are never used twice, and addresses are names that nobody can read from: what a launch names is looked up when it is
//! executed, and memory that is gone by then, or too small, is a violation ([`FakeControl::violations`]). Launches of a list that
//! do not wait for each other come in any order. Memory begins as garbage.
//!
//! Executed are copies, clocks, products of 32-bit matrices, and the kernel `gather`, which notes indices out of range.
//! Other kernels do nothing.

mod control;
mod execute;
mod memory;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use millstream_core::profiler::now_ns;
use millstream_core::sync::Cached;
use millstream_core::sync::schedule::AtomicU32;
use millstream_core::{
    Activation, BackendInfo, Config, DType, Device, Epilogue, MAX_STREAMS, Result,
};
use millstream_kernels::{Key, Limits};

pub use self::control::FakeControl;
use self::control::State;
pub use self::memory::{FakeHostMemory, FakeMemory};
use self::queue::{AnyOrder, Event, Work};
pub use self::queue::{FakeCaptured, FakeEncoder, FakeQueue};
use crate::backend::{GpuBackend, Options};
use crate::failure::{DeviceStatus, Failure};
use crate::lowering::{LaunchFailure, LaunchList, ProductOperands};
use crate::memory::Segments;
use crate::platform::{Binding, Platform};

/// Options of a fake GPU.
#[derive(Clone, Copy, Debug)]
pub struct FakeOptions {
    /// Memory of the device.
    pub memory_bytes: usize,
    /// Decides where queues lose time. With 0 they lose none.
    pub seed: u64,
    /// Whether batches that occur again are replayed.
    pub replay: bool,
    /// The host sees the memory of the device.
    pub unified: bool,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self { memory_bytes: 64 << 20, seed: 0, replay: true, unified: false }
    }
}

/// A device on its own fake GPU, and its control.
///
/// # Errors
///
/// Settings out of range.
pub fn device(config: Config, options: FakeOptions) -> Result<(Device, FakeControl)> {
    static NUMBERS: AtomicUsize = AtomicUsize::new(0);
    let platform = Fake(Arc::new(Gpu {
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        options,
        status: DeviceStatus::new("fake gpu".into()),
        segments: Arc::default(),
        limits: Limits {
            max_threads: 1024,
            shared_bytes: 48 << 10,
            simd_width: 32,
            f64: true,
            matrices: false,
            tensor_cores: false,
            parallel_groups: 64,
        },
        state: State::default(),
        queues: AtomicUsize::new(0),
        lists: AtomicUsize::new(0),
        started: Instant::now(),
        started_ns: now_ns(),
    }));
    let control = FakeControl::new(platform.clone());
    let batch_commands = config.batch_commands;
    let backend = GpuBackend::open(platform, Options { replay: options.replay, batch_commands })?;
    Ok((Device::with_backend(Box::new(backend), config)?, control))
}

/// A fake GPU.
#[derive(Clone)]
pub struct Fake(Arc<Gpu>);

struct Gpu {
    number: usize,
    options: FakeOptions,
    status: DeviceStatus,
    segments: Arc<Segments<FakeSegment>>,
    limits: Limits,
    state: State,
    /// How many queues were made.
    queues: AtomicUsize,
    /// How many lists were launched.
    lists: AtomicUsize,
    /// When its clock started.
    started: Instant,
    /// The same on the host's clock.
    started_ns: u64,
}

/// The number of a segment, which is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FakeSegment(u64);

/// A kernel, by its key.
pub struct FakeKernel(Key);

/// A product that can be executed.
#[derive(Clone, Copy)]
pub struct FakeProduct(ProductOperands<Binding<FakeSegment>>);

impl Fake {
    /// An order for a list, another each time.
    fn any_order(&self) -> AnyOrder {
        let number = self.0.lists.fetch_add(1, Ordering::Relaxed) as u64;
        AnyOrder::new(queue::seed(self.0.options.seed, number))
    }
}

impl Platform for Fake {
    type Segment = FakeSegment;
    type Memory = FakeMemory;
    type HostMemory = FakeHostMemory;
    type Kernel = FakeKernel;
    type Product = FakeProduct;
    type Queue = FakeQueue;
    type Encoder = FakeEncoder;
    type Captured = FakeCaptured;

    const KERNEL_COPY_BYTES: usize = 64 << 10;
    const CONCURRENT: bool = true;

    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: self.0.status.name().to_owned(),
            description: "a GPU platform on the host, for tests".into(),
            memory_bytes: self.0.options.memory_bytes,
            parallelism: 4,
            queue_capacity: 9,
            alignment: 64,
            streams: MAX_STREAMS,
            f64: true,
        }
    }

    fn number(&self) -> usize {
        self.0.number
    }

    fn memory_bytes(&self) -> usize {
        self.0.options.memory_bytes
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn status(&self) -> &DeviceStatus {
        &self.0.status
    }

    fn segments(&self) -> &Arc<Segments<FakeSegment>> {
        &self.0.segments
    }

    fn log(&self, _: impl FnOnce() -> String) {}

    fn enter(&self) -> Result<(), Failure> {
        self.0.state.call("enter")
    }

    fn allocate(&self, bytes: usize) -> Result<FakeMemory, Failure> {
        self.0.state.call("allocate")?;
        FakeMemory::new(self, bytes)
    }

    fn allocate_host(&self, bytes: usize) -> Result<FakeHostMemory, Failure> {
        self.0.state.call("allocate_host")?;
        FakeHostMemory::new(self, bytes)
    }

    fn kernel(&self, key: Key) -> Result<Cached<'static, FakeKernel>> {
        self.0.state.call("kernel").map_err(|failure| self.0.status.note(&failure))?;
        Ok(Cached::Owned(Arc::new(FakeKernel(key))))
    }

    fn forget_products(&self, _: &mut FakeEncoder) {}

    fn product(
        &self,
        _: &mut FakeEncoder,
        operands: &ProductOperands<Binding<FakeSegment>>,
    ) -> Result<Option<(FakeProduct, Epilogue)>, Failure> {
        self.0.state.call("product")?;
        let matrices = [&operands.dst, &operands.lhs, &operands.rhs];
        let layouts = matrices.map(|operand| &operand.layout);
        let plain = layouts.iter().all(|layout| layout.dtype() == DType::F32 && layout.rank() == 2);
        let activation = operands.epilogue.activation;
        let can = plain && matches!(activation, Activation::None | Activation::Relu);
        Ok(can.then(|| (FakeProduct(*operands), Epilogue::default())))
    }

    fn new_queue(&self, commands: usize) -> Result<(FakeQueue, FakeEncoder), Failure> {
        self.0.state.call("new_queue")?;
        queue::new(self, commands)
    }

    fn fault_record(&self, queue: &FakeQueue) -> Binding<FakeSegment> {
        queue.fault_record()
    }

    fn order(
        &self,
        earlier: &FakeQueue,
        later: &FakeQueue,
        _: &mut FakeEncoder,
    ) -> Result<(), Failure> {
        self.0.state.call("order")?;
        let event = Arc::new(Event::default());
        earlier.push([Work::Record(Arc::clone(&event))]);
        later.push([Work::Wait(event)]);
        Ok(())
    }

    fn completed(&self, queue: &FakeQueue) -> u64 {
        queue.page().completed()
    }

    fn faults<'a>(&self, queue: &'a FakeQueue, tick: u64) -> Option<&'a [AtomicU32]> {
        queue.page().faults(tick)
    }

    fn failure(&self, queue: &FakeQueue, tick: u64) -> Option<Failure> {
        queue.failure(tick)
    }

    fn probe(&self, _: &FakeQueue) -> Result<(), Failure> {
        self.0.state.call("probe")
    }

    fn host_ns(&self, device_ns: u64) -> u64 {
        self.0.started_ns + device_ns
    }

    unsafe fn launch(
        &self,
        list: &LaunchList<Self>,
        queue: &FakeQueue,
        _: &mut FakeEncoder,
    ) -> Result<(), LaunchFailure> {
        let mut order = self.any_order();
        let mut next = 0..;
        let launched = list.launch_each(|item| {
            self.0.state.call("launch")?;
            order.add(next.next().is_none_or(|index| list.waits(index)), Work::from_item(&item));
            Ok(())
        });
        queue.push(order.finish());
        launched
    }

    unsafe fn capture(
        &self,
        list: &LaunchList<Self>,
        _: &FakeQueue,
        _: &mut FakeEncoder,
    ) -> Result<FakeCaptured, Failure> {
        self.0.state.call("capture")?;
        let item = |(index, item)| (list.waits(index), Work::from_item(&item));
        Ok(FakeCaptured(list.iter().enumerate().map(item).collect()))
    }

    fn replay(
        &self,
        captured: &mut FakeCaptured,
        queue: &FakeQueue,
        _: &mut FakeEncoder,
    ) -> Result<(), Failure> {
        self.0.state.call("replay")?;
        self.0.state.replays.fetch_add(1, Ordering::Relaxed);
        let mut order = self.any_order();
        captured.0.iter().for_each(|(waits, work)| order.add(*waits, work.iter().cloned()));
        queue.push(order.finish());
        Ok(())
    }
}

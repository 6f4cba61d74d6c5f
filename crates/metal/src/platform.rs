//! Metal as a platform: what the queues of `millstream-gpu` ask for.

use std::convert::Infallible;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::sync::Cached;
use millstream_core::sync::schedule::AtomicU32;
use millstream_core::{BackendInfo, Epilogue, HostOwner, Result};
use millstream_gpu::{
    Binding, DeviceStatus, Failure, LaunchFailure, LaunchList, Platform, ProductOperands, Segments,
};
use millstream_kernels::{Key, Limits};
use objc2_metal::MTLSharedEvent;

use crate::gpu::Gpu;
use crate::indirect::Indirect;
use crate::kernels::Kernel;
use crate::memory::{HostMemory, MetalMemory};
use crate::objects::{Raw, RawBufferObject};
use crate::prepared::Prepared;
use crate::queue::{MetalEncoder, MetalQueue};
use crate::settings;

/// One GPU, as one device uses it.
#[derive(Clone, Copy)]
pub(crate) struct Metal {
    pub gpu: &'static Gpu,
}

impl Platform for Metal {
    type Segment = RawBufferObject;
    type Memory = MetalMemory;
    type HostMemory = HostMemory;
    type Kernel = Kernel;
    type Product = Infallible;
    type Queue = MetalQueue;
    type Encoder = MetalEncoder;
    type Captured = Prepared;

    const KERNEL_COPY_BYTES: usize = usize::MAX;
    const CONCURRENT: bool = true;
    const PREPARES: bool = true;
    const WAITS: bool = true;
    const BOUNDED: bool = true;

    fn info(&self) -> BackendInfo {
        self.gpu.info()
    }

    fn number(&self) -> usize {
        0
    }

    fn memory_bytes(&self) -> usize {
        self.gpu.working_set
    }

    fn allocated_bytes(&self) -> usize {
        self.gpu.allocated()
    }

    fn limits(&self) -> &Limits {
        &self.gpu.limits
    }

    fn max_launch_work(&self) -> u64 {
        self.gpu.settings.work
    }

    fn status(&self) -> &DeviceStatus {
        &self.gpu.status
    }

    fn segments(&self) -> &Arc<Segments<RawBufferObject>> {
        &self.gpu.segments
    }

    fn log(&self, text: impl FnOnce() -> String) {
        settings::log(text);
    }

    /// Metal needs nothing of a thread.
    fn enter(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<MetalMemory, Failure> {
        MetalMemory::new(self.gpu, bytes)
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, Failure> {
        HostMemory::new(self.gpu, bytes)
    }

    unsafe fn wrap(
        &self,
        first: NonNull<u8>,
        bytes: usize,
        owner: HostOwner,
    ) -> Result<Option<(MetalMemory, usize)>, Failure> {
        // SAFETY: as the caller says.
        unsafe { MetalMemory::wrap(self.gpu, first, bytes, owner) }
    }

    fn settled(&self, segment: RawBufferObject) {
        self.gpu.residency.settle(segment);
    }

    fn kernel(&self, key: Key) -> Result<Cached<'static, Kernel>> {
        self.gpu.kernel(key)
    }

    fn known(&self, key: Key) -> Option<Cached<'static, Kernel>> {
        self.gpu.known_kernel(key)
    }

    fn prepare(&self, keys: &[Key]) {
        self.gpu.prepare_kernels(keys);
    }

    fn forget_products(&self, _: &mut MetalEncoder) {}

    fn product(
        &self,
        _: &mut MetalEncoder,
        _: &ProductOperands<Binding<RawBufferObject>>,
    ) -> Result<Option<(Infallible, Epilogue)>, Failure> {
        Ok(None)
    }

    fn new_queue(&self, commands: usize) -> Result<(MetalQueue, MetalEncoder), Failure> {
        MetalQueue::new(self.gpu, commands)
    }

    fn close(&self, queue: &MetalQueue) {
        queue.close();
    }

    fn fault_record(&self, queue: &MetalQueue) -> Binding<RawBufferObject> {
        queue.fault_place()
    }

    fn order(
        &self,
        earlier: &MetalQueue,
        _: &MetalQueue,
        encoder: &mut MetalEncoder,
    ) -> Result<(), Failure> {
        let (event, value) = earlier.batch_event(earlier.timeline.batches());
        if event.signaledValue() < value {
            encoder.waits.push((Raw::of(event), value));
        }
        Ok(())
    }

    #[inline]
    fn completed(&self, queue: &MetalQueue) -> u64 {
        queue.completed()
    }

    fn faults<'a>(&self, queue: &'a MetalQueue, tick: u64) -> Option<&'a [AtomicU32]> {
        queue.faults(tick)
    }

    fn failure(&self, queue: &MetalQueue, tick: u64) -> Option<Failure> {
        queue.timeline.failure(tick)
    }

    fn wait(&self, queue: &MetalQueue, tick: u64, timeout: Duration) {
        queue.wait(tick, timeout);
    }

    /// Handlers say what is wrong, and note it.
    fn probe(&self, _: &MetalQueue) -> Result<(), Failure> {
        Ok(())
    }

    fn host_ns(&self, device_ns: u64) -> u64 {
        self.gpu.clock.host_ns(device_ns)
    }

    unsafe fn launch(
        &self,
        list: &LaunchList<Self>,
        queue: &MetalQueue,
        encoder: &mut MetalEncoder,
    ) -> Result<(), LaunchFailure> {
        let mut prepared = std::mem::take(&mut encoder.list);
        let faults = queue.fault_place().segment;
        let filled = prepared.fill(self, list, faults);
        // SAFETY: as the caller says.
        let encoded = filled.and_then(|()| unsafe { self.encode(&prepared, queue, encoder) });
        encoder.list = prepared;
        // A batch is committed whole, or not at all.
        encoded.map_err(|failure| LaunchFailure { launched: 0, command: 0, failure })
    }

    unsafe fn capture(
        &self,
        list: &LaunchList<Self>,
        queue: &MetalQueue,
        _: &mut MetalEncoder,
    ) -> Result<Prepared, Failure> {
        let mut prepared = Prepared::default();
        prepared.fill(self, list, queue.fault_place().segment)?;
        if self.gpu.indirect {
            prepared.indirect = Indirect::of(self.gpu, &prepared);
        }
        Ok(prepared)
    }

    fn replay(
        &self,
        captured: &mut Prepared,
        queue: &MetalQueue,
        encoder: &mut MetalEncoder,
    ) -> Result<(), Failure> {
        if let Some(mut indirect) = captured.indirect.take() {
            // SAFETY: as who captured it has promised.
            let encoded = unsafe { self.execute(&mut indirect, captured, queue, encoder) };
            captured.indirect = Some(indirect);
            return encoded;
        }
        // SAFETY: as who captured it has promised.
        unsafe { self.encode(captured, queue, encoder) }
    }
}

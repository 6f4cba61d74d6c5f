//! Captures for Xcode: `MILLSTREAM_METAL_CAPTURE` names a file that gets the first batches of the process.
//!
//! Metal captures nothing in programs that Xcode has not started, unless `MTL_CAPTURE_ENABLED` is 1.

use std::sync::atomic::{AtomicU64, Ordering};

use objc2_foundation::{NSString, NSURL};
use objc2_metal::{MTLCaptureDescriptor, MTLCaptureDestination, MTLCaptureManager, MTLDevice};

use crate::objects::{Ref, pooled};
use crate::settings::Settings;

/// A capture that goes on until so many batches were committed, or none.
#[derive(Default)]
pub(crate) struct Capture {
    left: AtomicU64,
}

impl Capture {
    /// Begins a capture if one is wanted. What keeps it from beginning is said on standard error: a program is not to
    /// fail for it.
    pub fn begin(device: &Ref<dyn MTLDevice>, settings: &Settings) -> Self {
        let Some(path) = &settings.capture else { return Self::default() };
        match start(device, path) {
            Ok(()) => Self { left: AtomicU64::new(settings.capture_batches) },
            Err(reason) => {
                eprintln!("millstream metal: no capture to {path}: {reason}");
                Self::default()
            }
        }
    }

    /// A batch was committed. A load if nothing is captured.
    #[inline]
    pub fn batch(&self) {
        if self.left.load(Ordering::Relaxed) > 0 {
            self.count();
        }
    }

    #[cold]
    fn count(&self) {
        let less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) == Ok(1) {
            // SAFETY: the manager of this process, which any thread may use.
            pooled(|| unsafe { MTLCaptureManager::sharedCaptureManager() }.stopCapture());
        }
    }
}

fn start(device: &Ref<dyn MTLDevice>, path: &str) -> Result<(), String> {
    // SAFETY: the manager of this process, which any thread may use.
    let manager = unsafe { MTLCaptureManager::sharedCaptureManager() };
    if !manager.supportsDestination(MTLCaptureDestination::GPUTraceDocument) {
        return Err("set MTL_CAPTURE_ENABLED=1, which Metal wants for captures to a file".into());
    }
    let descriptor = MTLCaptureDescriptor::new();
    // SAFETY: a device is one of the objects that can be captured.
    unsafe { descriptor.setCaptureObject(Some(device.as_ref())) };
    descriptor.setDestination(MTLCaptureDestination::GPUTraceDocument);
    descriptor.setOutputURL(Some(&NSURL::fileURLWithPath(&NSString::from_str(path))));
    let started = manager.startCaptureWithDescriptor_error(&descriptor);
    started.map_err(|error| error.localizedDescription().to_string())
}

//! Counter sample buffers: timestamps.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Range, lock};
use crate::foundation::{Array, Data, Text, alloc_default};
use crate::objc::{Id, Raw, Sel, This, autoreleased, class, method, new, retained};
use crate::rules::{Rule, violation};

/// `MTLCounterSet`: there is one, of timestamps.
#[derive(Default)]
pub struct CounterSet(());

class!(
    /// The class of counter sets.
    COUNTER_SET, "MillstreamCounterSet", CounterSet,
    [method!(c"name", c"@@:", set_name, fn(This<CounterSet>, Sel) -> Raw)]
);

/// `MTLCounterSampleBufferDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    samples: AtomicUsize,
}

class!(
    /// MTLCounterSampleBufferDescriptor.
    DESCRIPTOR, "MTLCounterSampleBufferDescriptor", Descriptor,
    [
        method!(c"setSampleCount:", c"v@:Q", set_samples, fn(This<Descriptor>, Sel, usize)),
        method!(c"setCounterSet:", c"v@:@", set_counter_set, fn(This<Descriptor>, Sel, Option<This<CounterSet>>)),
        method!(c"setStorageMode:", c"v@:Q", set_storage, fn(This<Descriptor>, Sel, usize)),
    ],
    alloc: alloc_default::<Descriptor>
);

/// `MTLCounterSampleBuffer`, in nanoseconds.
pub struct SampleBuffer {
    times: Mutex<Vec<u64>>,
}

/// Sample buffers that a device has at once, and samples of one of them, which are 32 KB: as is reported.
const MAX_BUFFERS: usize = 32;
const MAX_SAMPLES: usize = 4096;

/// Those that live.
static LIVING: AtomicUsize = AtomicUsize::new(0);

impl Drop for SampleBuffer {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}

class!(
    /// The class of counter sample buffers.
    SAMPLE_BUFFER, "MillstreamCounterSampleBuffer", SampleBuffer,
    [
        method!(c"sampleCount", c"Q@:", sample_count, fn(This<SampleBuffer>, Sel) -> usize),
        method!(c"resolveCounterRange:", c"@@:{_NSRange=QQ}", resolve, fn(This<SampleBuffer>, Sel, Range) -> Raw),
    ]
);

impl SampleBuffer {
    /// A buffer whose samples were never taken reads as an error of the counter, as on the GPU. None where there are too many, or it
    /// would be too large.
    pub fn make(descriptor: &Descriptor) -> Option<Self> {
        let samples = descriptor.samples.load(Ordering::Relaxed);
        let add = |count: usize| (count < MAX_BUFFERS).then_some(count + 1);
        if samples > MAX_SAMPLES
            || LIVING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err()
        {
            return None;
        }
        Some(Self { times: Mutex::new(vec![u64::MAX; samples]) })
    }

    pub fn has(&self, index: usize) -> bool {
        let count = lock(&self.times).len();
        if index >= count {
            violation(Rule::SampleIndex, format_args!("sample {index} of {count}"));
        }
        index < count
    }

    pub fn sample(&self, index: usize) {
        if let Some(time) = lock(&self.times).get_mut(index) {
            *time = (super::now() * 1e9) as u64;
        }
    }

    /// Samples as a GPU writes them.
    pub fn bytes(&self, range: Range) -> Vec<u8> {
        let times = lock(&self.times);
        let wanted = times.get(range.location..range.location + range.length).unwrap_or_default();
        wanted.iter().flat_map(|time| time.to_ne_bytes()).collect()
    }
}

/// `MTLComputePassDescriptor`: how an encoder dispatches, and where its begin and end are sampled.
#[derive(Default)]
pub struct PassDescriptor {
    pub concurrent: AtomicBool,
    attachments: Mutex<Option<Id<Attachments>>>,
}

/// `MTLComputePassSampleBufferAttachmentDescriptorArray`, of which there is one place here.
#[derive(Default)]
pub struct Attachments {
    first: Mutex<Option<Id<Attachment>>>,
}

/// `MTLComputePassSampleBufferAttachmentDescriptor`.
#[derive(Default)]
pub struct Attachment {
    samples: Mutex<Option<Id<SampleBuffer>>>,
    start: AtomicUsize,
    end: AtomicUsize,
}

class!(
    /// MTLComputePassDescriptor.
    PASS_DESCRIPTOR, "MTLComputePassDescriptor", PassDescriptor,
    [
        method!(c"setDispatchType:", c"v@:Q", set_dispatch_type, fn(This<PassDescriptor>, Sel, usize)),
        method!(c"sampleBufferAttachments", c"@@:", attachments, fn(This<PassDescriptor>, Sel) -> Raw),
    ],
    alloc: alloc_default::<PassDescriptor>
);

class!(
    /// MTLComputePassSampleBufferAttachmentDescriptorArray.
    ATTACHMENTS, "MTLComputePassSampleBufferAttachmentDescriptorArray", Attachments,
    [method!(c"objectAtIndexedSubscript:", c"@@:Q", attachment, fn(This<Attachments>, Sel, usize) -> Raw)]
);

class!(
    /// MTLComputePassSampleBufferAttachmentDescriptor.
    ATTACHMENT, "MTLComputePassSampleBufferAttachmentDescriptor", Attachment,
    [
        method!(c"setSampleBuffer:", c"v@:@", set_sample_buffer, fn(This<Attachment>, Sel, Option<This<SampleBuffer>>)),
        method!(c"setStartOfEncoderSampleIndex:", c"v@:Q", set_start, fn(This<Attachment>, Sel, usize)),
        method!(c"setEndOfEncoderSampleIndex:", c"v@:Q", set_end, fn(This<Attachment>, Sel, usize)),
    ]
);

impl PassDescriptor {
    /// Where begin and end are sampled, if they are.
    pub fn samples(&self) -> Option<(Id<SampleBuffer>, [usize; 2])> {
        let attachments = lock(&self.attachments).clone()?;
        let attachment = lock(&attachments.first).clone()?;
        let samples = lock(&attachment.samples).clone()?;
        let indices = [&attachment.start, &attachment.end].map(|at| at.load(Ordering::Relaxed));
        indices.iter().all(|index| samples.has(*index)).then_some((samples, indices))
    }
}

unsafe extern "C" fn set_dispatch_type(this: This<PassDescriptor>, _: Sel, kind: usize) {
    this.concurrent.store(kind == 1, Ordering::Relaxed);
}

unsafe extern "C" fn attachments(this: This<PassDescriptor>, _: Sel) -> Raw {
    let mut attachments = lock(&this.attachments);
    autoreleased(Some(attachments.get_or_insert_with(|| new(Attachments::default())).clone()))
}

unsafe extern "C" fn attachment(this: This<Attachments>, _: Sel, index: usize) -> Raw {
    if index > 0 {
        violation(
            Rule::SampleIndex,
            format_args!("attachment {index}, of which this driver has one"),
        );
        return std::ptr::null_mut();
    }
    let mut first = lock(&this.first);
    autoreleased(Some(first.get_or_insert_with(|| new(Attachment::default())).clone()))
}

unsafe extern "C" fn set_sample_buffer(
    this: This<Attachment>,
    _: Sel,
    samples: Option<This<SampleBuffer>>,
) {
    *lock(&this.samples) = retained(samples);
}

unsafe extern "C" fn set_start(this: This<Attachment>, _: Sel, index: usize) {
    this.start.store(index, Ordering::Relaxed);
}

unsafe extern "C" fn set_end(this: This<Attachment>, _: Sel, index: usize) {
    this.end.store(index, Ordering::Relaxed);
}

/// All counter sets of a device.
pub fn sets() -> Raw {
    autoreleased(Some(Array::make(vec![new(CounterSet(())).into()])))
}

unsafe extern "C" fn set_name(_: This<CounterSet>, _: Sel) -> Raw {
    autoreleased(Some(Text::make("timestamp")))
}

unsafe extern "C" fn set_samples(this: This<Descriptor>, _: Sel, samples: usize) {
    this.samples.store(samples, Ordering::Relaxed);
}

unsafe extern "C" fn set_counter_set(_: This<Descriptor>, _: Sel, _: Option<This<CounterSet>>) {}

unsafe extern "C" fn set_storage(_: This<Descriptor>, _: Sel, _: usize) {}

unsafe extern "C" fn sample_count(this: This<SampleBuffer>, _: Sel) -> usize {
    lock(&this.times).len()
}

unsafe extern "C" fn resolve(this: This<SampleBuffer>, _: Sel, range: Range) -> Raw {
    let times = lock(&this.times);
    let Some(wanted) =
        range.location.checked_add(range.length).and_then(|end| times.get(range.location..end))
    else {
        violation(Rule::SampleIndex, format_args!("{range:?} of {} samples", times.len()));
        return std::ptr::null_mut();
    };
    autoreleased(Some(Data::make(wanted.iter().flat_map(|time| time.to_ne_bytes()).collect())))
}

//! Counter sample buffers: timestamps.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Range, lock};
use crate::foundation::{Array, Data, Text, alloc_default};
use crate::objc::{Raw, Sel, This, autoreleased, class, method, new};
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

class!(
    /// The class of counter sample buffers.
    SAMPLE_BUFFER, "MillstreamCounterSampleBuffer", SampleBuffer,
    [
        method!(c"sampleCount", c"Q@:", sample_count, fn(This<SampleBuffer>, Sel) -> usize),
        method!(c"resolveCounterRange:", c"@@:{_NSRange=QQ}", resolve, fn(This<SampleBuffer>, Sel, Range) -> Raw),
    ]
);

impl SampleBuffer {
    /// A buffer whose samples were never taken reads as an error of the counter, as on the GPU.
    pub fn make(descriptor: &Descriptor) -> Self {
        Self { times: Mutex::new(vec![u64::MAX; descriptor.samples.load(Ordering::Relaxed)]) }
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

//! Heaps: memory that buffers are placed in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::buffer::{Buffer, Memory, Options, PAGE};
use crate::foundation::alloc_default;
use crate::objc::{Raw, Sel, This, class, method, new};
use crate::rules::{Rule, violation};

/// Buffers of heaps begin at multiples of this.
pub const ALIGNMENT: usize = 256;

/// `MTLHeap`.
pub struct Heap {
    memory: Arc<Memory>,
    options: Options,
    placement: bool,
    /// Where the next buffer goes, unless the caller places it.
    used: AtomicUsize,
}

/// `MTLHeapDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    size: AtomicUsize,
    options: AtomicUsize,
    kind: AtomicUsize,
}

class!(
    /// The class of heaps.
    HEAP, "MillstreamHeap", Heap,
    [
        method!(c"size", c"Q@:", size, fn(This<Heap>, Sel) -> usize),
        method!(c"usedSize", c"Q@:", used, fn(This<Heap>, Sel) -> usize),
        method!(c"currentAllocatedSize", c"Q@:", size, fn(This<Heap>, Sel) -> usize),
        method!(c"allocatedSize", c"Q@:", size, fn(This<Heap>, Sel) -> usize),
        method!(c"maxAvailableSizeWithAlignment:", c"Q@:Q", available, fn(This<Heap>, Sel, usize) -> usize),
        method!(c"newBufferWithLength:options:", c"@@:QQ", buffer, fn(This<Heap>, Sel, usize, usize) -> Raw),
        method!(c"newBufferWithLength:options:offset:", c"@@:QQQ", buffer_at, fn(This<Heap>, Sel, usize, usize, usize) -> Raw),
    ]
);

class!(
    /// MTLHeapDescriptor.
    DESCRIPTOR, "MTLHeapDescriptor", Descriptor,
    [
        method!(c"setSize:", c"v@:Q", set_size, fn(This<Descriptor>, Sel, usize)),
        method!(c"size", c"Q@:", descriptor_size, fn(This<Descriptor>, Sel) -> usize),
        method!(c"setResourceOptions:", c"v@:Q", set_options, fn(This<Descriptor>, Sel, usize)),
        method!(c"setStorageMode:", c"v@:Q", set_storage, fn(This<Descriptor>, Sel, usize)),
        method!(c"setHazardTrackingMode:", c"v@:Q", set_tracking, fn(This<Descriptor>, Sel, usize)),
        method!(c"setType:", c"v@:q", set_kind, fn(This<Descriptor>, Sel, isize)),
    ],
    alloc: alloc_default::<Descriptor>
);

impl Heap {
    pub fn make(descriptor: &Descriptor) -> Option<Self> {
        let bytes = descriptor.size.load(Ordering::Relaxed).next_multiple_of(PAGE);
        let options = Options(descriptor.options.load(Ordering::Relaxed));
        let placement = descriptor.kind.load(Ordering::Relaxed) == 1;
        Some(Self {
            memory: Memory::map(bytes.max(PAGE))?,
            options,
            placement,
            used: AtomicUsize::new(0),
        })
    }
}

fn place(this: This<Heap>, length: usize, options: usize, offset: usize) -> Raw {
    let inside = offset.checked_add(length).is_some_and(|end| end <= this.memory.len());
    let fits = Options(options).storage_mode() == this.options.storage_mode();
    if length == 0 || !offset.is_multiple_of(ALIGNMENT) || !inside || !fits {
        violation(
            Rule::HeapPlacement,
            format_args!("{length} bytes at {offset} of a heap of {}", this.memory.len()),
        );
        return std::ptr::null_mut();
    }
    let memory = Memory::of_heap(&this.memory, offset, length);
    new(Buffer::new(memory, Options(options), Some(this.retain()), offset)).into_raw()
}

unsafe extern "C" fn size(this: This<Heap>, _: Sel) -> usize {
    this.memory.len()
}

unsafe extern "C" fn used(this: This<Heap>, _: Sel) -> usize {
    this.used.load(Ordering::Relaxed)
}

unsafe extern "C" fn available(this: This<Heap>, _: Sel, alignment: usize) -> usize {
    let used = this.used.load(Ordering::Relaxed).next_multiple_of(alignment.max(1));
    this.memory.len().saturating_sub(used)
}

unsafe extern "C" fn buffer(this: This<Heap>, _: Sel, length: usize, options: usize) -> Raw {
    if this.placement {
        violation(Rule::HeapPlacement, "a placement heap needs offsets");
        return std::ptr::null_mut();
    }
    let bytes = length.next_multiple_of(ALIGNMENT);
    let room = |used: usize| (used + bytes <= this.memory.len()).then_some(used + bytes);
    match this.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
        Ok(offset) => place(this, length, options, offset),
        Err(_) => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn buffer_at(
    this: This<Heap>,
    _: Sel,
    length: usize,
    options: usize,
    offset: usize,
) -> Raw {
    if !this.placement {
        violation(Rule::HeapPlacement, "only a placement heap takes offsets");
        return std::ptr::null_mut();
    }
    place(this, length, options, offset)
}

unsafe extern "C" fn set_size(this: This<Descriptor>, _: Sel, size: usize) {
    this.size.store(size, Ordering::Relaxed);
}

unsafe extern "C" fn descriptor_size(this: This<Descriptor>, _: Sel) -> usize {
    this.size.load(Ordering::Relaxed)
}

unsafe extern "C" fn set_options(this: This<Descriptor>, _: Sel, options: usize) {
    this.options.store(options, Ordering::Relaxed);
}

unsafe extern "C" fn set_storage(this: This<Descriptor>, _: Sel, mode: usize) {
    let options = this.options.load(Ordering::Relaxed) & !0xf0;
    this.options.store(options | mode << 4, Ordering::Relaxed);
}

unsafe extern "C" fn set_tracking(this: This<Descriptor>, _: Sel, mode: usize) {
    let options = this.options.load(Ordering::Relaxed) & !0x300;
    this.options.store(options | mode << 8, Ordering::Relaxed);
}

unsafe extern "C" fn set_kind(this: This<Descriptor>, _: Sel, kind: isize) {
    this.kind.store(kind.cast_unsigned(), Ordering::Relaxed);
}

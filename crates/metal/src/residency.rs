//! Residency sets: which memory stays where the GPU reaches it.
//!
//! A queue takes at most 32 sets, and a set is evicted as a whole. So memory is spread over sets of bounded size, with what
//! settled (weights) apart from the rest. Adding to a set is cheap, committing it is not: that is done by the next submit, or
//! when memory is released: a set keeps what was removed until then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLBuffer, MTLCommandQueue, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor,
};

use crate::objects::{AnyThread, Obj, Raw, RawBufferObject, Ref, pooled};
use crate::settings;

/// Sets that there are at most, of those that a queue takes.
const MAX_SETS: usize = 32;

/// The sets of a device; none where it has no such thing.
#[derive(Default)]
pub(crate) struct Residency {
    /// Whether a set changed since it was committed. Cleared with the lock held, after the commit: who sees `false` comes
    /// after it.
    dirty: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    device: Option<Obj<dyn MTLDevice>>,
    sets: Vec<Set>,
    /// Queues that use the sets.
    queues: Vec<Raw<dyn MTLCommandQueue>>,
    /// Bytes that a set has before another one is made.
    set_bytes: usize,
    /// Where each buffer is.
    places: Vec<Place>,
}

struct Set {
    set: AnyThread<Obj<dyn MTLResidencySet>>,
    bytes: usize,
    settled: bool,
    dirty: bool,
}

struct Place {
    buffer: RawBufferObject,
    bytes: usize,
    set: usize,
}

impl Residency {
    /// Sets on a device that has them, for memory of so many bytes in all.
    pub fn new(device: &Obj<dyn MTLDevice>, memory: usize) -> Self {
        // A quarter of the sets would hold everything if all were full.
        let set_bytes = memory / (MAX_SETS / 4);
        let state = State { device: Some(device.clone()), set_bytes, ..State::default() };
        Self { dirty: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sets there are.
    pub fn count(&self) -> usize {
        self.lock().sets.len()
    }

    /// A queue uses all sets from here on.
    pub fn add_queue(&self, queue: &Ref<dyn MTLCommandQueue>) {
        let mut state = self.lock();
        if state.device.is_some() {
            pooled(|| state.sets.iter().for_each(|set| queue.addResidencySet(&set.set)));
            state.queues.push(Raw::of(queue));
        }
    }

    /// Memory is there to be used.
    pub fn add(&self, buffer: &Ref<dyn MTLBuffer>, bytes: usize) {
        let mut state = self.lock();
        if state.device.is_some() {
            pooled(|| state.place(buffer, bytes, false));
            self.dirty.store(true, Ordering::Release);
        }
    }

    /// What is in it stays as it is: weights.
    pub fn settle(&self, buffer: RawBufferObject) {
        let mut state = self.lock();
        let Some(place) = state.places.iter().position(|place| place.buffer == buffer) else {
            return;
        };
        if state.sets[state.places[place].set].settled {
            return;
        }
        let bytes = state.places[place].bytes;
        // SAFETY: it has a place, so it has not been removed, which comes before its end.
        let buffer = unsafe { buffer.get() };
        pooled(|| {
            state.displace(buffer);
            state.place(buffer, bytes, true);
        });
        self.dirty.store(true, Ordering::Release);
    }

    /// Memory goes. Command buffers that use it may still run: a change counts for those that come after its commit.
    pub fn remove(&self, buffer: &Ref<dyn MTLBuffer>) {
        let mut state = self.lock();
        if state.device.is_some() {
            pooled(|| state.displace(buffer));
            self.dirty.store(true, Ordering::Release);
        }
    }

    /// Makes changes count, before a command buffer is committed. A load if there are none.
    #[inline]
    pub fn commit(&self) {
        if self.dirty.load(Ordering::Acquire) {
            self.commit_changes();
        }
    }

    /// Asks for all of it to be resident; whether there is anything to ask for. Metal does not say that a set may be changed
    /// meanwhile, so who wants to waits. That is a moment: the memory was given up a moment ago, or is resident.
    pub fn request(&self) -> bool {
        let state = self.lock();
        pooled(|| state.sets.iter().for_each(|set| set.set.requestResidency()));
        !state.sets.is_empty()
    }

    #[cold]
    fn commit_changes(&self) {
        let mut state = self.lock();
        pooled(|| {
            for set in state.sets.iter_mut().filter(|set| set.dirty) {
                set.set.commit();
                set.set.requestResidency();
                set.dirty = false;
            }
        });
        self.dirty.store(false, Ordering::Release);
    }
}

impl State {
    fn place(&mut self, buffer: &Ref<dyn MTLBuffer>, bytes: usize, settled: bool) {
        let Some(index) = self.find(bytes, settled) else {
            // Without sets Metal finds out by itself what a command buffer uses; with some it would not find this.
            settings::log(|| "no residency set can be had: there are none from here on".into());
            self.give_up();
            return;
        };
        let set = &mut self.sets[index];
        set.set.addAllocation(ProtocolObject::from_ref(buffer));
        set.bytes += bytes;
        set.dirty = true;
        self.places.push(Place { buffer: Raw::of(buffer), bytes, set: index });
    }

    fn displace(&mut self, buffer: &Ref<dyn MTLBuffer>) {
        let raw = Raw::of(buffer);
        if let Some(place) = self.places.iter().position(|place| place.buffer == raw) {
            let Place { bytes, set, .. } = self.places.swap_remove(place);
            let set = &mut self.sets[set];
            set.set.removeAllocation(ProtocolObject::from_ref(buffer));
            set.bytes -= bytes;
            set.dirty = true;
        }
    }

    /// A set with room, a new one, or the emptiest if there may be no more.
    fn find(&mut self, bytes: usize, settled: bool) -> Option<usize> {
        let fits = |set: &Set| {
            set.settled == settled && (set.bytes == 0 || set.bytes + bytes <= self.set_bytes)
        };
        if let Some(index) = self.sets.iter().position(fits) {
            return Some(index);
        }
        // Half of them for each kind.
        let same = |set: &&Set| set.settled == settled;
        if self.sets.iter().filter(same).count() < MAX_SETS / 2
            && let Some(index) = self.make(settled)
        {
            return Some(index);
        }
        let of_kind = self.sets.iter().enumerate().filter(|(_, set)| set.settled == settled);
        of_kind.min_by_key(|(_, set)| set.bytes).map(|(index, _)| index)
    }

    fn make(&mut self, settled: bool) -> Option<usize> {
        let device = self.device.as_ref()?;
        let made = device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new());
        let set = made
            .inspect_err(|error| settings::log(|| format!("no residency set: {error}")))
            .ok()?;
        // SAFETY: queues live as long as the process.
        self.queues.iter().for_each(|queue| unsafe { queue.get() }.addResidencySet(&set));
        self.sets.push(Set { set: AnyThread(set), bytes: 0, settled, dirty: false });
        Some(self.sets.len() - 1)
    }

    fn give_up(&mut self) {
        for set in &self.sets {
            for queue in &self.queues {
                // SAFETY: queues live as long as the process.
                unsafe { queue.get() }.removeResidencySet(&set.set);
            }
        }
        (self.device, self.sets, self.places) = (None, Vec::new(), Vec::new());
    }
}

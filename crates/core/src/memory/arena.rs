//! Arenas of plans on a device that says how many batches it executes at a time
//! ([`Backend::arena_users`](crate::Backend::arena_users)).
//!
//! An arena belongs to the device, not to a stream. A run has a reservation from when it is recorded: so memory that is
//! short is reported there. It gets an arena when its batch begins to execute, has it alone, and puts it back when the
//! batch ends. So many callers use few arenas, which stay in the caches of the cores. An arena is memory of its own and
//! never a block of a stream's cache: such a block may still be in use by earlier Commands of its stream, which says
//! nothing to other streams.
//!
//! A batch that is interrupted keeps its arena. Others may then find none though they have a reservation; for them one more
//! is made, and if there is no memory, their run fails with `OutOfMemory`.

use std::ptr::NonNull;
use std::sync::OnceLock;

use super::{Block, DeviceMemory, out_of_memory, reclaim, size_class, trim_device};
use crate::device::DeviceInner;
use crate::plan::Base;
use crate::stream::StreamInner;
use crate::sync::{ReservePool, Taken};
use crate::{Result, Segment};

/// The arenas of a device, by size class.
pub(crate) struct Arenas {
    /// Batches that execute at a time; 0 where runs take their arenas from their streams.
    users: usize,
    classes: Box<[OnceLock<Box<ReservePool<Arena>>>]>,
}

/// An arena. Only its user reaches the memory.
pub(super) struct Arena {
    segment: Segment,
    /// What the faults of temporary values are noted in. In no cache.
    block: NonNull<Block>,
}

// SAFETY: the block may be used from any thread, and the segment is only dropped, by the sole owner.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    fn new(segment: Segment, class: usize, home: &'static StreamInner) -> Box<Self> {
        let block = Block::new(segment.address, segment.host, class, 0, home);
        Box::new(Self { segment, block })
    }

    /// A new run begins: what failed in an earlier one says nothing about it.
    fn begin(&self, bytes: usize) -> Base {
        // SAFETY: freed with the arena only.
        let block = unsafe { self.block.as_ref() };
        block.prepare(bytes, 0, 0);
        Base { address: self.segment.address, value: block.value() }
    }

    fn into_segment(self) -> Segment {
        // SAFETY: from `Box::leak`, and no batch has a value of it: the arena was put back after its last one.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
        self.segment
    }
}

impl Arenas {
    pub fn new(users: usize) -> Self {
        let classes = if users == 0 { 0 } else { size_class::COUNT };
        Self { users, classes: (0..classes).map(|_| OnceLock::new()).collect() }
    }

    /// Whether arenas are bound when batches begin to execute.
    pub fn are_shared(&self) -> bool {
        self.users > 0
    }

    fn pool(&self, class: usize) -> &ReservePool<Arena> {
        self.classes[class].get_or_init(|| Box::new(ReservePool::new(self.users)))
    }

    fn pools(&self) -> impl Iterator<Item = (usize, &ReservePool<Arena>)> {
        self.classes.iter().enumerate().filter_map(|(class, pool)| Some((class, &**pool.get()?)))
    }

    /// Takes out the arenas that no recorded run needs.
    pub(super) fn trim(&self) -> Vec<Segment> {
        let unused = |(_, pool): (_, &'_ ReservePool<Arena>)| {
            std::iter::from_fn(|| pool.try_remove())
                .map(|arena| arena.into_segment())
                .collect::<Vec<_>>()
        };
        self.pools().flat_map(unused).collect()
    }

    /// Bytes of all arenas, of those that nobody uses, and how many there are.
    pub(super) fn stats(&self) -> (usize, usize, usize) {
        let of = |(class, pool): (usize, &ReservePool<Arena>)| {
            let ((all, free), bytes) = (pool.values(), size_class::class_bytes(class));
            (all * bytes, free * bytes, all)
        };
        let add = |sum: (usize, usize, usize), one: (usize, usize, usize)| {
            (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)
        };
        self.pools().map(of).fold((0, 0, 0), add)
    }
}

/// The right of a recorded run to an arena, and the arena while it executes.
pub(crate) struct ArenaLease {
    device: &'static DeviceInner,
    bytes: usize,
    class: usize,
    taken: Option<Taken<Arena>>,
}

impl ArenaLease {
    fn new(device: &'static DeviceInner, bytes: usize) -> Self {
        Self { device, bytes, class: size_class::class_of(bytes), taken: None }
    }

    /// A reservation, if there are arenas enough. Takes no lock.
    pub fn try_reserve(device: &'static DeviceInner, bytes: usize) -> Option<Self> {
        // No class is so large. `grow` says so.
        if bytes > size_class::LARGEST {
            return None;
        }
        let class = size_class::class_of(bytes);
        let reserved = device.memory().arenas().pool(class).try_reserve();
        reserved.then(|| Self::new(device, bytes))
    }

    /// A reservation with one more arena. Called with no lock held.
    ///
    /// # Errors
    ///
    /// Out of memory, after all that is done against it.
    pub fn grow(stream: &'static StreamInner, bytes: usize) -> Result<Self> {
        let device = stream.device_inner();
        let memory = device.memory();
        if bytes > memory.limit.min(size_class::LARGEST) {
            return Err(out_of_memory(device, bytes));
        }
        let class = size_class::class_of(bytes);
        let segment = reclaim::grow_segment(stream, size_class::class_bytes(class))?;
        let arena = Arena::new(segment, class, stream);
        let surplus = memory.arenas().pool(class).add_reserved(arena);
        memory.free_taken(|| surplus.into_iter().map(|arena| arena.into_segment()).collect());
        Ok(Self::new(device, bytes))
    }

    fn pool(&self) -> &'static ReservePool<Arena> {
        let device: &'static DeviceInner = self.device;
        device.memory().arenas().pool(self.class)
    }

    /// The arena: the one that this run has, or one for a run that begins. Called with no lock held.
    ///
    /// # Errors
    ///
    /// Out of memory, if batches that are interrupted have the arenas that were counted on.
    pub fn bind(&mut self) -> Result<Option<Base>> {
        if self.taken.is_some() {
            return Ok(None);
        }
        let taken = match self.pool().take() {
            Some(taken) => taken,
            None => self.make_another()?,
        };
        let base = taken.value().begin(self.bytes);
        self.taken = Some(taken);
        Ok(Some(base))
    }

    #[cold]
    fn make_another(&self) -> Result<Taken<Arena>> {
        let (memory, bytes) = (self.device.memory(), size_class::class_bytes(self.class));
        let home = self.device.pool().created().next();
        let mut segment = memory.take_segment(self.device, bytes)?;
        if segment.is_none() {
            // Nothing is waited for here: what others have may come from this batch.
            trim_device(self.device);
            segment = memory.take_segment(self.device, bytes)?;
        }
        let made = segment.zip(home).map(|(segment, home)| Arena::new(segment, self.class, home));
        let added = made.map(|arena| self.pool().add_taken(arena));
        match added {
            Some(Ok(taken)) => Ok(taken),
            Some(Err(arena)) => {
                memory.free_taken(|| vec![arena.into_segment()]);
                self.pool().take().ok_or_else(|| out_of_memory(self.device, self.bytes))
            }
            None => {
                // Another may have put one back in the meantime.
                self.pool().take().ok_or_else(|| out_of_memory(self.device, self.bytes))
            }
        }
    }
}

impl Drop for ArenaLease {
    fn drop(&mut self) {
        let (pool, memory) = (self.pool(), self.device.memory());
        if let Some(taken) = self.taken.take() {
            pool.put(taken);
        }
        pool.cancel();
        // A device that was closed while the run was recorded keeps none.
        let is_surplus = || pool.has_too_many() || self.device.is_closed();
        if is_surplus() {
            memory.free_taken(|| {
                let next = || if is_surplus() { pool.try_remove() } else { None };
                std::iter::from_fn(next).map(|arena| arena.into_segment()).collect()
            });
        }
    }
}

impl DeviceMemory {
    /// The arenas of plans.
    pub fn arenas(&self) -> &Arenas {
        &self.arenas
    }
}

//! Memory statistics.

use std::fmt;
use std::sync::atomic::Ordering;

use super::StreamMemory;
use crate::device::DeviceInner;
use crate::size::Mib;

/// What a device holds, in bytes. A block counts with the size of its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Blocks that live buffers hold.
    pub in_use: usize,
    /// Blocks in free lists.
    pub cached: usize,
    /// Blocks that wait for a stream to pass its last use, dropped weights included.
    pub deferred: usize,
    /// Memory taken from the device.
    pub reserved: usize,
    /// The highest that `reserved` ever was.
    pub peak: usize,
    /// The budget.
    pub limit: usize,
    /// Segments taken from the device.
    pub segments: usize,
    /// The same per stream.
    pub streams: Vec<StreamMemory>,
    /// Arenas of plans that the device binds when they run. Those that no run has are part of `cached`, the others of
    /// `in_use`.
    pub arenas: usize,
    /// Memory that kernels have beside buffers, in use or kept for later; not part of `reserved`. All CPU devices
    /// of a process share theirs.
    pub scratch: usize,
}

/// One line for the device, and one for each stream that holds anything.
impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            in_use,
            cached,
            deferred,
            reserved,
            peak,
            limit,
            segments,
            arenas,
            scratch,
            streams,
        } = self;
        write!(
            f,
            "{} in use, {} cached, {} deferred; {} reserved in {segments} segments (peak {}, limit {}); {} arenas, {} scratch",
            Mib(*in_use),
            Mib(*cached),
            Mib(*deferred),
            Mib(*reserved),
            Mib(*peak),
            Mib(*limit),
            Mib(*arenas),
            Mib(*scratch)
        )?;
        let holds = |stream: &&StreamMemory| stream.in_use + stream.cached + stream.deferred > 0;
        streams.iter().filter(holds).try_for_each(|stream| write!(f, "\n{stream}"))
    }
}

impl fmt::Display for StreamMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, in_use, peak, cached, deferred, segments } = self;
        write!(
            f,
            "stream {stream}: {} in use (peak {}), {} cached, {} deferred, {segments} segments",
            Mib(*in_use),
            Mib(*peak),
            Mib(*cached),
            Mib(*deferred)
        )
    }
}

pub(crate) fn collect(device: &'static DeviceInner) -> MemoryStats {
    let memory = device.memory();
    let streams: Vec<StreamMemory> = device
        .pool()
        .created()
        .map(|stream| {
            let mut recorder = stream.lock();
            recorder.cache.collect(stream);
            recorder.cache.stats(stream.id())
        })
        .collect();
    let sum = |field: fn(&StreamMemory) -> usize| streams.iter().map(field).sum::<usize>();
    // Blocks in their grace period still count as in use for their home stream.
    let retired = memory.retired.bytes();
    let (arenas, unused, arena_segments) = memory.arenas().stats();
    MemoryStats {
        in_use: sum(|stream| stream.in_use).saturating_sub(retired) + arenas - unused,
        cached: sum(|stream| stream.cached) + unused,
        deferred: sum(|stream| stream.deferred) + retired,
        reserved: memory.reserved(),
        peak: memory.peak.load(Ordering::Relaxed),
        limit: memory.limit,
        segments: sum(|stream| stream.segments) + arena_segments,
        streams,
        arenas,
        scratch: device.backend().scratch_bytes(),
    }
}

#[cfg(test)]
mod tests;

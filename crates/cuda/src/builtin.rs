//! The few kernels that belong to this backend alone.

use millstream_gpu::Failure;

use crate::driver::{Function, Module};

/// Their source, for the compiler.
pub(crate) const SOURCE: &str = include_str!("builtin.cu");

/// Transfers up to this size are done by a kernel: starting a copy engine in the middle of a batch takes about
/// 10 µs, and a kernel moves bytes as fast as the bus does. Beyond, with many threads, multiprocessors have better
/// things to do: copies of 512 KB by kernels cost a quarter of the throughput on an H200.
pub(crate) const KERNEL_COPY: usize = 256 << 10;

/// Groups that copy at most; more move nothing faster.
const COPY_GROUPS: usize = 16;

/// Threads of a group that copies.
pub(crate) const COPY_THREADS: u32 = 512;

/// The kernels, with their arguments.
pub(crate) struct Builtins {
    /// `(counter, faults, page, commands)`: a batch is through.
    pub tick: Function,
    /// `(target, source, bytes)`.
    pub copy: Function,
    /// `(target, source, bytes, counter, faults, page, commands)`.
    pub copy_tick: Function,
    /// `(target)`: the clock.
    pub time: Function,
}

impl Builtins {
    /// # Errors
    ///
    /// What the driver said.
    pub fn load(image: &[u8], overlaps: bool) -> Result<Self, Failure> {
        let module = Module::load(image)?;
        let function = |name| module.function(name, overlaps);
        Ok(Self {
            tick: function("ms_tick")?,
            copy: function("ms_copy")?,
            copy_tick: function("ms_copy_tick")?,
            time: function("ms_time")?,
        })
    }
}

/// Groups of a kernel that copies: each thread has 16 bytes, up to a bound.
pub(crate) fn copy_groups(bytes: usize) -> u32 {
    bytes.div_ceil(16 * COPY_THREADS as usize).clamp(1, COPY_GROUPS) as u32
}

#[cfg(test)]
mod tests {
    use millstream_gpu::MAX_IN_FLIGHT;
    use millstream_kernels::FAULT_HEADER_WORDS;

    use super::*;

    #[test]
    fn device_and_host_agree_about_the_slots() {
        let (slots, words) = (MAX_IN_FLIGHT, FAULT_HEADER_WORDS);
        let text = format!("enum {{ SLOTS = {slots}, HEADER_WORDS = {words} }};");
        assert!(SOURCE.contains(&text));
    }
}

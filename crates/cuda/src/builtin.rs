//! The few kernels that belong to this backend alone.

use crate::driver::{Failure, Function, Module};

/// Their source, for the compiler.
pub(crate) const SOURCE: &str = include_str!("builtin.cu");

/// Small transfers are done by one kernel, up to this size: starting a copy engine takes longer.
pub(crate) const SMALL_COPY: usize = 64 << 10;

/// Threads of a group that copies.
pub(crate) const COPY_THREADS: u32 = 512;

/// The kernels, with their arguments.
pub(crate) struct Builtins {
    /// `(counter, faults, page)`: a batch is through.
    pub tick: Function,
    /// `(target, source, bytes)`.
    pub copy: Function,
    /// `(target, source, bytes, counter, faults, page)`, in one group.
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

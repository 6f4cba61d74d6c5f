//! The few kernels that belong to this backend alone.

use std::sync::Arc;

use millstream_core::DType;

use crate::driver::{Failure, Function, Module};

/// Their source, for the compiler.
pub(crate) const SOURCE: &str = include_str!("builtin.cu");

/// Small transfers are done by one kernel, up to this size: starting a copy engine takes longer.
pub(crate) const SMALL_COPY: usize = 64 << 10;

/// Threads of a group that copies.
pub(crate) const COPY_THREADS: u32 = 512;

/// Products of up to so many rows have a kernel of their own.
pub(crate) const FEW_ROWS: usize = 4;

/// Threads of a group of that kernel; each 32 make one column.
pub(crate) const ROWS_THREADS: u32 = 256;

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
    /// Products of 1 to [`FEW_ROWS`] rows, for `f32`, `f16` and `bf16`.
    rows: [Vec<Function>; 3],
}

fn of_rows(module: &Arc<Module>, kind: &str) -> Result<Vec<Function>, Failure> {
    (1..=FEW_ROWS).map(|rows| module.function(&format!("ms_rows_{kind}_{rows}"))).collect()
}

impl Builtins {
    /// # Errors
    ///
    /// What the driver said.
    pub fn load(image: &[u8]) -> Result<Self, Failure> {
        let module = Module::load(image)?;
        Ok(Self {
            tick: module.function("ms_tick")?,
            copy: module.function("ms_copy")?,
            copy_tick: module.function("ms_copy_tick")?,
            time: module.function("ms_time")?,
            rows: [of_rows(&module, "F32")?, of_rows(&module, "F16")?, of_rows(&module, "BF16")?],
        })
    }

    /// The kernel for so many rows, if there is one.
    pub fn rows(&self, dtype: DType, rows: usize) -> Option<&Function> {
        let kind = match dtype {
            DType::F32 => 0,
            DType::F16 => 1,
            DType::BF16 => 2,
            _ => return None,
        };
        self.rows[kind].get(rows.checked_sub(1)?)
    }
}

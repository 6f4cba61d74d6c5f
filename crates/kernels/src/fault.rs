//! Faults that kernels report.

/// An index lies outside its axis.
pub const INDEX_OUT_OF_RANGE: u32 = 1;

/// Words of a fault record before its codes. The first becomes 1 when a code is written.
pub const FAULT_HEADER_WORDS: usize = 4;

/// The size of the fault record of a batch with at most this many Commands.
pub const fn fault_record_bytes(commands: usize) -> usize {
    (FAULT_HEADER_WORDS + commands) * size_of::<u32>()
}

/// The message for a code of a fault record; see the crate's documentation.
pub fn fault_message(code: u32) -> &'static str {
    match code {
        INDEX_OUT_OF_RANGE => "an index lies outside its axis",
        _ => "a kernel met impossible data",
    }
}

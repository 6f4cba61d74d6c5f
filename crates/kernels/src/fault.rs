//! What kernels say about impossible data.

/// An index lies outside its axis.
pub const INDEX_OUT_OF_RANGE: u32 = 1;

/// Words of a fault record before its codes. The first is 1 as soon as there is a code.
pub const FAULT_HEADER_WORDS: usize = 4;

/// The size of the fault record of a batch of at most so many Commands.
pub const fn fault_record_bytes(commands: usize) -> usize {
    (FAULT_HEADER_WORDS + commands) * size_of::<u32>()
}

/// The words for a code of a fault record; see the crate's documentation.
pub fn fault_message(code: u32) -> &'static str {
    match code {
        INDEX_OUT_OF_RANGE => "an index lies outside its axis",
        _ => "a kernel met impossible data",
    }
}

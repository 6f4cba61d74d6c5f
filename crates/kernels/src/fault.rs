//! What kernels say about impossible data.

/// An index lies outside its axis.
pub const INDEX_OUT_OF_RANGE: u32 = 1;

/// The words for the code in a fault record; see the crate's documentation.
pub fn fault_message(code: u32) -> &'static str {
    match code {
        INDEX_OUT_OF_RANGE => "an index lies outside its axis",
        _ => "a kernel met impossible data",
    }
}

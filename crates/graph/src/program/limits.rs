//! What a model may use.

use std::time::Duration;

/// What a model may use when it is compiled and called. A model that needs more gives an error; nothing is harmed.
///
/// ```
/// use millstream_graph::Limits;
///
/// let limits = Limits { tensor_bytes: 1 << 30, ..Limits::default() };
/// assert_eq!(limits.trips, 1 << 24);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Operators that a body may become when branches and loops are put in place.
    pub operators: usize,
    /// Times that a call may find shapes in contents and go on from there, one after the other.
    pub stages: usize,
    /// Bytes of one tensor.
    pub tensor_bytes: usize,
    /// Iterations of one loop.
    pub trips: u64,
    /// Time for all iterations of one loop. A loop that takes longer ends with an error.
    pub loop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            operators: 1 << 20,
            stages: 1024,
            tensor_bytes: 1 << 40,
            trips: 1 << 24,
            loop_time: Duration::from_secs(600),
        }
    }
}

//! Commands that their data makes impossible.

use std::panic::resume_unwind;

/// Ends the Command with a fault: the queue catches it and hands the message to whoever waits.
///
/// It unwinds without a panic's report on the error stream, since a caller's data is not a defect of
/// this program.
#[cold]
pub(super) fn fail(message: String) -> ! {
    resume_unwind(Box::new(message))
}

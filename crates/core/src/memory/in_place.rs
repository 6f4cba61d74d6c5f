//! Memory that host and device share: written and read in place where the device does not use it.

use super::Buffer;
use super::block::Reading;
use crate::{Layout, Result, Timepoint, plan};

/// How often a read in place waits for writes. Where others keep writing, it is left to a recorded copy.
const ATTEMPTS: usize = 4;

impl Buffer {
    /// Copies bytes, part after part, to the beginning of memory that was just allocated, where the host sees it and the device does
    /// not use it. Gives `false` if that cannot be. Only for a buffer that nobody else knows.
    pub(crate) fn write_first(&self, parts: &[&[u8]]) -> bool {
        let block = self.block();
        // Parts may be the same memory again and again, so that their sum need not fit.
        let sum = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
        let Some(bytes) = sum.filter(|&bytes| bytes <= self.bytes()) else { return false };
        let Some(host) = block.host() else { return false };
        if plan::is_traced() || !block.is_idle_since_allocation() {
            return false;
        }
        let mut at = host.as_ptr();
        for part in parts {
            // SAFETY: the block has room for the bytes of all parts where the host sees it, and `at` is behind those before this
            // one. The device is through with everything that used it before, and nobody else has the buffer.
            at = unsafe {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at.add(part.len())
            };
        }
        block.set_covered(bytes);
        true
    }

    /// Whether the elements of a layout may be read in place: the host sees them, and they lie as a caller wants them.
    pub(crate) fn is_readable_in_place(&self, layout: &Layout) -> bool {
        let fits = layout.extent_bytes() <= self.bytes() && !layout.is_empty();
        let plain = layout.is_contiguous() && layout.dtype().per_byte() == 1;
        self.block().host().is_some() && fits && plain && !plan::is_traced()
    }

    /// Waits for the elements of a layout and passes them on where they lie. `None` if they cannot be read in place; then `read` was
    /// not called.
    ///
    /// # Errors
    ///
    /// The fault of a Command that should have written them, a timeout, or a device that is gone.
    pub(crate) fn read_in_place(
        &self,
        layout: &Layout,
        read: impl FnOnce(&[u8]),
    ) -> Result<Option<Timepoint>> {
        let mut read = Some(read);
        for _ in 0..ATTEMPTS {
            match self.block().try_read(layout, &mut read)? {
                Reading::Done(point) => return Ok(Some(point)),
                Reading::WaitFor(point) => point.wait_passed()?,
                Reading::Elsewhere => break,
            }
        }
        Ok(None)
    }
}

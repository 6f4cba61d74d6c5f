//! Transfers between host and device, and the device's clock.

use super::{BufferLike, Command, HostBytes, HostRole, Op, Operand, TensorSpec};
use crate::Result;

impl<B> Command<B> {
    /// Claims the host bytes that the Command reads or writes. Called once, when it is recorded.
    ///
    /// # Errors
    ///
    /// Bytes that an earlier Command uses in a way that excludes this one.
    pub(crate) fn claim_host(&self) -> Result<()> {
        match &self.op {
            Op::Upload { source, .. } => source.claim(HostRole::Source),
            Op::Download { target } => target.claim(HostRole::Target),
            _ => Ok(()),
        }
    }
}

impl<B: BufferLike> Command<B> {
    /// Copies dense row-major bytes of the host to `dst`.
    ///
    /// # Errors
    ///
    /// A number of bytes that is not the dense size of `dst`, bytes that are not backed by memory, or an operand that
    /// does not fit its buffer.
    pub fn upload(dst: Operand<B>, source: HostBytes) -> Result<Self> {
        let spec = TensorSpec::of(&dst.layout);
        Self::new(Op::Upload { source, spec }, [dst], [])
    }

    /// Copies the elements of `src` to dense row-major bytes of the host.
    ///
    /// # Errors
    ///
    /// A number of bytes that is not the dense size of `src`, bytes that are not backed by memory, or an operand that
    /// does not fit its buffer. Bytes that another Command uses are refused when this Command is recorded.
    pub fn download(target: HostBytes, src: Operand<B>) -> Result<Self> {
        Self::new(Op::Download { target }, [], [src])
    }

    /// Writes the device's clock, in nanoseconds, to one `i64`.
    ///
    /// # Errors
    ///
    /// A `dst` that is not one `i64`.
    pub fn timestamp(dst: Operand<B>) -> Result<Self> {
        Self::new(Op::Timestamp, [dst], [])
    }
}

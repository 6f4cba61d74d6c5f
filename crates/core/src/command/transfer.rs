//! Transfers between host and device, and the device's clock.

use super::check::Check;
use super::{BufferLike, Command, HostBytes, HostRole, Op, Operand};
use crate::{DType, Result};

impl<B> Command<B> {
    /// Settles what the Command does with bytes of the host. Once, when it is recorded.
    ///
    /// # Errors
    ///
    /// Bytes that a Command recorded before uses in a way that does not go with this one.
    pub(crate) fn claim_host(&self) -> Result<()> {
        match &self.op {
            Op::Upload { source } => source.claim(HostRole::Source),
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
    /// A number of bytes other than the elements of `dst` take, bytes that there is no memory for, or an
    /// operand that does not fit its buffer.
    pub fn upload(dst: Operand<B>, source: HostBytes) -> Result<Self> {
        source.check_backed()?;
        Check("upload").that(source.len() == dst.layout.dense_bytes(), || {
            format!(
                "{} bytes given, {:?} takes {}",
                source.len(),
                dst.layout,
                dst.layout.dense_bytes()
            )
        })?;
        Self::assemble(Op::Upload { source }, [dst], [])
    }

    /// Copies the elements of `src` to dense row-major bytes of the host.
    ///
    /// # Errors
    ///
    /// A number of bytes other than the elements of `src` take, bytes that there is no memory for, or an
    /// operand that does not fit its buffer. Bytes that another Command uses are refused when this one is
    /// recorded.
    pub fn download(target: HostBytes, src: Operand<B>) -> Result<Self> {
        target.check_backed()?;
        Check("download").that(target.len() == src.layout.dense_bytes(), || {
            format!(
                "{} bytes of room, {:?} takes {}",
                target.len(),
                src.layout,
                src.layout.dense_bytes()
            )
        })?;
        Self::assemble(Op::Download { target }, [], [src])
    }

    /// Writes the device's clock, in nanoseconds, to one `i64`.
    ///
    /// # Errors
    ///
    /// A `dst` that is not one `i64`.
    pub fn timestamp(dst: Operand<B>) -> Result<Self> {
        let check = Check("timestamp");
        check.dtype(&dst.layout, DType::I64)?;
        check.that(dst.layout.elements() == 1, || {
            format!("needs one element, got {:?}", dst.layout.shape())
        })?;
        Self::assemble(Op::Timestamp, [dst], [])
    }
}

//! Elements as they lie in files.

use std::borrow::Cow;

use millstream_core::DType;

/// Elements of a file, in the order of bytes of this machine.
pub(crate) fn from_file(bytes: &[u8], dtype: DType, big_endian: bool) -> Cow<'_, [u8]> {
    let mut bytes = Cow::from(bytes);
    if big_endian != cfg!(target_endian = "big") && dtype.size() > 1 {
        bytes.to_mut().chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    bytes
}

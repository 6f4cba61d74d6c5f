//! Elements on the host and in files.

use std::borrow::Cow;

use millstream_core::DType;

use crate::{Error, Result};

/// Room on the host for some elements, or an error where there is none: a lack of it must not end the process.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    match room.try_reserve_exact(count) {
        Ok(()) => Ok(room),
        Err(_) => {
            let requested = count.saturating_mul(size_of::<T>());
            Err(Error::OutOfHostMemory { requested })
        }
    }
}

/// The same element `rows` times `columns` times.
pub(crate) fn filled<T: Copy>(value: T, rows: usize, columns: usize) -> Result<Vec<T>> {
    let count = rows.saturating_mul(columns);
    let mut values = room(count)?;
    values.resize(count, value);
    Ok(values)
}

/// What an iterator gives, which is known to be `count` elements.
pub(crate) fn collected<T>(count: usize, values: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut collected = room(count)?;
    collected.extend(values.take(count));
    Ok(collected)
}

/// Elements of a file, in the order of bytes of this machine.
pub(crate) fn from_file(bytes: &[u8], dtype: DType, big_endian: bool) -> Result<Cow<'_, [u8]>> {
    if big_endian == cfg!(target_endian = "big") || dtype.size() == 1 {
        return Ok(bytes.into());
    }
    let mut swapped = room(bytes.len())?;
    swapped.extend_from_slice(bytes);
    swapped.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    Ok(swapped.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_nobody_has_is_an_error() {
        assert!(room::<u64>(usize::MAX).unwrap_err().is_retryable());
        assert!(filled(0u8, usize::MAX, usize::MAX).is_err());
        assert!(collected(usize::MAX, std::iter::empty::<u64>()).is_err());
        assert_eq!(filled(7, 2, 3).unwrap(), [7; 6]);
        assert_eq!(collected(2, 0..9).unwrap(), [0, 1]);
    }
}

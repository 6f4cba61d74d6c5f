//! Elements on the host and in files.

use std::borrow::Cow;

use millstream_core::DType;

use crate::{Error, Result};

/// An empty list with room for some elements. If there is no memory, it is an error and does not end the process.
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

/// The items of an iterator that is known to have `count` of them.
pub(crate) fn collected<T>(count: usize, values: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut collected = room(count)?;
    collected.extend(values.take(count));
    Ok(collected)
}

/// Elements of a file, in this machine's byte order.
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
mod tests;

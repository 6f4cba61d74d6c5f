//! Lists whose memory may be lacking.

use std::sync::OnceLock;

use crate::kernels::shared::fault::{KernelFault, Result};
use crate::memory;

/// What a thread can always have.
const LEAST_LIMIT: usize = 64 << 20;

/// Bytes that one thread may use at a time: its share of half the memory of the machine. More would be
/// promised by many systems, which then end the process when it is touched.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (memory::total() / (2 * cores)).max(LEAST_LIMIT)
    })
}

/// Makes room for so many elements in all, or says that there is none.
pub(crate) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result {
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes > limit() || list.try_reserve_exact(count.saturating_sub(list.len())).is_err() {
        return Err(KernelFault::scratch(bytes));
    }
    Ok(())
}

/// A list of so many equal elements.
pub(crate) fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    list.resize(count, value);
    Ok(list)
}

/// A list of the elements of an iterator.
pub(crate) fn collected<T>(elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, elements.len())?;
    list.extend(elements);
    Ok(list)
}

/// Adds an element to a list whose length is not known beforehand.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result {
    if list.len() == list.capacity() {
        reserve(list, (2 * list.len()).max(16))?;
    }
    list.push(value);
    Ok(())
}

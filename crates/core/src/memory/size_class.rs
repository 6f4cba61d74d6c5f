//! Size classes: four steps per power of two, so that at most a fifth of a block is wasted.

/// The smallest block. Every class is a multiple of 64, so blocks keep the alignment of their slab.
const SMALLEST: usize = 256;

/// The largest size that has a class.
pub(crate) const LARGEST: usize = 1 << 62;

/// How many classes there are.
pub(crate) const COUNT: usize = (62 - 8) * 4 + 1;

/// The class of the smallest block that holds `bytes`.
pub(crate) fn class_of(bytes: usize) -> usize {
    if bytes <= SMALLEST {
        return 0;
    }
    let exponent = (bytes - 1).ilog2();
    let step = 1usize << (exponent - 2);
    let steps = (bytes - (1 << exponent)).div_ceil(step);
    (exponent as usize - 8) * 4 + steps
}

/// The class of memory that a caller keeps. It counts as no bytes, and is never handed out.
pub(crate) const WRAPPED: usize = u32::MAX as usize;

/// The size of a class's blocks.
pub(crate) fn class_bytes(class: usize) -> usize {
    if class == WRAPPED {
        return 0;
    }
    match class.checked_sub(1) {
        None => SMALLEST,
        Some(index) => {
            let base = SMALLEST << (index / 4);
            base + (index % 4 + 1) * (base / 4)
        }
    }
}

/// The size of a segment that blocks of a class are carved from, where slabs have about `slab` bytes.
pub(crate) fn slab_bytes(class: usize, slab: usize) -> usize {
    let block = class_bytes(class);
    block * (slab / block).clamp(1, 256)
}

#[cfg(test)]
mod tests;

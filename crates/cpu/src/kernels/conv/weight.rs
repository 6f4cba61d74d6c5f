//! The weights of a convolution.

use std::ops::Range;

use super::gather::uninit;
use super::window::Tap;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::SendPtr;
use crate::kernels::shared::scratch::collected;

/// Weights as a matrix for each group: a row per output channel, a column per input channel and tap.
pub(super) struct Weight<T> {
    first: SendPtr<T>,
    group: usize,
    row: usize,
    channel: usize,
    /// Where the taps of a channel lie.
    taps: Vec<usize>,
    /// Whether the elements of a row are neighbors.
    dense: bool,
}

impl<T: Stored> Weight<T> {
    /// `strides` are those of groups, output channels and input channels.
    pub fn new(first: *mut T, [group, row, channel]: [usize; 3], taps: &[Tap]) -> Result<Self> {
        let taps = collected(taps.iter().map(|tap| tap.weight))?;
        let dense =
            taps.iter().enumerate().all(|(index, &tap)| index == tap) && channel == taps.len();
        Ok(Weight { first: SendPtr::new(first), group, row, channel, taps, dense })
    }

    /// Whether the weights of neighboring output channels are neighbors.
    pub fn is_last(&self, groups: usize, rows: usize) -> bool {
        match (groups, rows) {
            (1, 1) => true,
            (_, 1) => self.group == 1,
            _ => self.row == 1,
        }
    }

    /// The weight of an output channel of a tap of the first input channel of a group, and the distance to the next input
    /// channel.
    ///
    /// # Safety
    ///
    /// They belong to the weights.
    pub unsafe fn column(&self, group: usize, row: usize, tap: usize) -> (*const T, usize) {
        let place = group * self.group + row * self.row + self.taps[tap];
        // SAFETY: passed on.
        (unsafe { self.first.get().add(place) }.cast_const(), self.channel)
    }

    /// Whether rows are read in place.
    pub fn is_direct(&self) -> bool {
        T::DIRECT && self.dense
    }

    /// Some columns of some rows of a group in the type that is computed in, with the distance between
    /// rows; copied to `scratch` where they cannot be read in place.
    ///
    /// # Safety
    ///
    /// The rows and columns belong to the weights, which nobody writes, and `scratch` has room for them
    /// unless the weights are direct.
    pub unsafe fn rows(
        &self,
        group: usize,
        (row, rows): (usize, usize),
        columns: Range<usize>,
        scratch: &mut [T::Compute],
    ) -> (*const T::Compute, usize) {
        // SAFETY: passed on. Weights without columns have no elements a pointer could go to.
        let first = unsafe { self.first.get().add(group * self.group + row * self.row) };
        if self.is_direct() {
            // SAFETY: passed on; the type is the one computed in.
            return (unsafe { first.add(columns.start) }.cast_const().cast(), self.row);
        }
        let count = columns.len();
        for (index, to) in scratch.chunks_exact_mut(count).take(rows).enumerate() {
            // SAFETY: passed on.
            unsafe {
                let row = first.add(index * self.row).cast_const();
                if self.dense {
                    let from = std::slice::from_raw_parts(row.add(columns.start), count);
                    T::widen_run(from, uninit(to));
                    continue;
                }
                for (step, to) in columns.clone().zip(to) {
                    let (channel, tap) = (step / self.taps.len(), step % self.taps.len());
                    *to = row.add(channel * self.channel + self.taps[tap]).read().widen();
                }
            }
        }
        (scratch.as_ptr(), count)
    }

    /// The weight of a tap of one input channel.
    ///
    /// # Safety
    ///
    /// As for [`rows`](Self::rows).
    pub unsafe fn at(&self, group: usize, row: usize, tap: usize) -> T::Compute {
        let place = group * self.group + row * self.row + self.taps[tap];
        // SAFETY: passed on.
        unsafe { self.first.get().add(place).read() }.widen()
    }
}

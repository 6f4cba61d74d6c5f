//! Where the taps of windows lie along one axis.

/// One spatial axis.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
    /// Elements of the input, and their stride.
    pub size: usize,
    pub step: usize,
    /// Windows, and the strides of the outputs.
    pub windows: usize,
    pub outputs: [usize; 2],
}

impl Axis {
    /// An axis of one element.
    pub const NONE: Axis = Axis {
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
        size: 1,
        step: 0,
        windows: 1,
        outputs: [0; 2],
    };

    /// The taps of a window that lie inside the input, from the first to one past the last.
    pub fn inside(&self, window: usize) -> (usize, usize) {
        let start = window * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.size + self.before).saturating_sub(start).div_ceil(self.dilation);
        let end = end.min(self.kernel);
        (first.min(end), end)
    }

    /// How many taps of a window lie inside the input or its padding.
    pub fn padded(&self, window: usize) -> usize {
        let end = self.size + self.before + self.after;
        end.saturating_sub(window * self.stride).div_ceil(self.dilation).min(self.kernel)
    }

    /// The coordinate of a tap that lies inside the input.
    pub fn place(&self, window: usize, tap: usize) -> usize {
        window * self.stride + tap * self.dilation - self.before
    }

    /// Those windows of a range for which a tap lies inside the input.
    pub fn reached(&self, tap: usize, start: usize, end: usize) -> (usize, usize) {
        let ahead = tap * self.dilation;
        let first = self.before.saturating_sub(ahead).div_ceil(self.stride).max(start);
        let limit = (self.size + self.before).saturating_sub(ahead).div_ceil(self.stride);
        let end = limit.min(end);
        (first.min(end), end)
    }
}

#[cfg(test)]
mod tests;

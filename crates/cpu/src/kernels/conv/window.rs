//! Where the taps of a window fall.

use millstream_core::{ConvParams, Layout};

use crate::kernels::shared::fault::Result;
use crate::kernels::shared::scratch::{collected, push, reserve};

/// Spatial axes; those that an operation does not have come first, with size 1.
pub(super) const AXES: usize = 3;

/// A spatial axis: output `j` reads position `j · step + offset` for every tap.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub outputs: usize,
    /// Size and stride of the input.
    pub size: usize,
    pub stride: usize,
    pub step: usize,
    taps: Vec<TapOffset>,
    /// The outputs of the window are outputs `first`, `first + every`, … of the operation.
    pub first: usize,
    pub every: usize,
}

/// A tap on one axis: its offset in the input, and where it lies in the weight.
type TapOffset = (isize, usize);

/// A tap of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub offsets: [isize; AXES],
    /// Where it lies in the weight of one channel, in elements.
    pub weight: usize,
}

const NONE: Axis =
    Axis { outputs: 1, size: 1, stride: 0, step: 1, taps: Vec::new(), first: 0, every: 1 };

/// A window over three axes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub axes: [Axis; AXES],
    /// The taps in the row-major order of the kernel.
    pub taps: Vec<Tap>,
}

impl Window {
    /// The window of a convolution.
    pub fn of_conv(
        params: &ConvParams,
        dst: &Layout,
        src: &Layout,
        weight: &Layout,
    ) -> Result<Self> {
        Self::new(usize::from(params.spatial), |axis| {
            let (kernel, stride) = (weight.shape()[axis + 2], weight.strides()[axis + 2]);
            let before = params.pad_before[axis] as isize;
            let tap = |t: usize| (t as isize * params.dilation[axis] as isize - before, t * stride);
            Ok(Axis {
                outputs: dst.shape()[axis + 2],
                size: src.shape()[axis + 2],
                stride: src.strides()[axis + 2],
                step: params.stride[axis] as usize,
                taps: collected((0..kernel).map(tap))?,
                first: 0,
                every: 1,
            })
        })
    }

    /// The windows of a transposed convolution. Outputs that are a stride apart meet the same taps,
    /// so that each set of them is a convolution with steps of 1. There may be as many as outputs, so
    /// they are made one at a time.
    pub fn of_transpose(
        params: &ConvParams,
        dst: &Layout,
        src: &Layout,
        weight: &Layout,
    ) -> impl Iterator<Item = Result<Self>> {
        let spatial = usize::from(params.spatial);
        // A stride beyond the output leaves sets without any.
        let sets =
            move |axis: usize| (params.stride[axis] as usize).min(dst.shape()[axis + 2].max(1));
        let count: usize = (0..spatial).map(sets).product();
        let window = move |index: usize| {
            Self::new(spatial, |axis| {
                let before: usize = (0..axis).map(sets).product();
                let first = index / before % sets(axis);
                let step = params.stride[axis] as isize;
                let (kernel, stride) = (weight.shape()[axis + 2], weight.strides()[axis + 2]);
                let shift = first as isize + params.pad_before[axis] as isize;
                let mut taps = Vec::new();
                for t in 0..kernel {
                    let distance = shift - t as isize * params.dilation[axis] as isize;
                    if distance.rem_euclid(step) == 0 {
                        push(&mut taps, (distance.div_euclid(step), t * stride))?;
                    }
                }
                Ok(Axis {
                    outputs: (dst.shape()[axis + 2] - first).div_ceil(step as usize),
                    size: src.shape()[axis + 2],
                    stride: src.strides()[axis + 2],
                    step: 1,
                    taps,
                    first,
                    every: step as usize,
                })
            })
        };
        (0..count).map(window)
    }

    fn new(spatial: usize, axis: impl Fn(usize) -> Result<Axis>) -> Result<Self> {
        let mut axes = [NONE; AXES];
        for (index, place) in axes.iter_mut().enumerate() {
            *place = match (index + spatial).checked_sub(AXES) {
                Some(real) => axis(real)?,
                None => Axis { taps: vec![(0, 0)], ..NONE },
            };
        }
        let mut taps = Vec::new();
        let count = axes.iter().fold(1, |count: usize, axis| count.saturating_mul(axis.taps.len()));
        reserve(&mut taps, count)?;
        for &(first, a) in &axes[0].taps {
            for &(second, b) in &axes[1].taps {
                for &(third, c) in &axes[2].taps {
                    taps.push(Tap { offsets: [first, second, third], weight: a + b + c });
                }
            }
        }
        Ok(Window { axes, taps })
    }

    /// The same with all places on one axis, if the window is a single element and the places of every operand are evenly far
    /// from each other.
    pub fn flattened(mut self, layouts: &[&Layout]) -> Self {
        let whole = |axis: &Axis| axis.step == 1 && axis.every == 1 && axis.outputs == axis.size;
        let single = self.taps.len() == 1 && self.taps[0].offsets == [0; AXES];
        if !single || !self.axes.iter().all(whole) || !layouts.iter().all(|layout| is_even(layout))
        {
            return self;
        }
        let outputs = self.outputs();
        for axis in &mut self.axes {
            (axis.outputs, axis.size) = (1, 1);
        }
        let last = &mut self.axes[AXES - 1];
        (last.outputs, last.size) = (outputs, outputs);
        self
    }

    /// Taps that follow each other along the last axis.
    pub fn taps_of_a_row(&self) -> usize {
        self.axes[AXES - 1].taps.len()
    }

    /// Outputs of one channel.
    pub fn outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.outputs).product()
    }

    /// Strides of an operand of the shape of the output on the window's axes, and where it begins.
    pub fn output_strides(&self, layout: &Layout) -> ([usize; AXES], usize) {
        let spatial = layout.rank() - 2;
        let mut start = 0;
        let strides = std::array::from_fn(|index| match (index + spatial).checked_sub(AXES) {
            Some(real) => {
                let stride = layout.strides()[real + 2];
                start += self.axes[index].first * stride;
                stride * self.axes[index].every
            }
            None => 0,
        });
        (strides, start)
    }

    /// The part of a run of outputs on the last axis whose input exists.
    pub fn inside(&self, start: isize, count: usize) -> std::ops::Range<usize> {
        let axis = &self.axes[AXES - 1];
        let (size, step) = (axis.size as isize, axis.step as isize);
        let from = if start < 0 { (-start + step - 1) / step } else { 0 };
        let to = if start >= size { 0 } else { (size - start + step - 1) / step };
        let to = (to as usize).min(count);
        (from as usize).min(to)..to
    }
}

/// Whether the places of a layout are evenly far from each other, in row-major order.
fn is_even(layout: &Layout) -> bool {
    let places = layout.shape().iter().zip(layout.strides()).skip(2).rev();
    let mut next = None;
    places.filter(|(size, _)| **size != 1).all(|(size, stride)| {
        let fits = next.is_none_or(|next| next == Some(*stride));
        next = Some(stride.checked_mul(*size));
        fits
    }) && layout.shape()[layout.rank() - 1] != 1
}

/// A run of outputs along the last axis, as a part of a tile of columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The first column of the tile.
    pub column: usize,
    pub count: usize,
    pub batch: usize,
    pub place: [usize; AXES],
}

impl Window {
    /// The runs of `count` columns from `first` on. Columns are the outputs of one channel in row-major
    /// order, of one batch element after another.
    pub fn segments(&self, first: usize, count: usize, to: &mut Vec<Segment>) {
        to.clear();
        let [_, high, wide] = [0, 1, 2].map(|axis| self.axes[axis].outputs);
        let outputs = self.outputs();
        let mut column = 0;
        while column < count {
            let (batch, rest) = ((first + column) / outputs, (first + column) % outputs);
            let place = [rest / (high * wide), rest / wide % high, rest % wide];
            let run = (wide - place[2]).min(count - column);
            to.push(Segment { column, count: run, batch, place });
            column += run;
        }
    }
}

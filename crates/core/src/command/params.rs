//! Parameters of the larger operations.

use super::RecurrentVariant;
use crate::{MAX_RANK, Scalar};

/// Spatial axes that convolution and pooling know.
pub const MAX_SPATIAL: usize = 3;

/// Geometry of a convolution. Axes beyond `spatial` hold 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvParams {
    /// Number of spatial axes, 1 to 3.
    pub spatial: u8,
    /// Step of the window.
    pub stride: [u32; MAX_SPATIAL],
    /// Zeros before the first element.
    pub pad_before: [u32; MAX_SPATIAL],
    /// Zeros after the last element.
    pub pad_after: [u32; MAX_SPATIAL],
    /// Distance between taps.
    pub dilation: [u32; MAX_SPATIAL],
    /// Channels are split in this many independent groups.
    pub groups: u32,
    /// Added to the end of the output of a transposed convolution; not used by others. What no tap reaches is 0, and
    /// gets the bias.
    pub output_padding: [u32; MAX_SPATIAL],
}

impl ConvParams {
    /// Steps and distances of 1, no padding, one group.
    pub fn new(spatial: usize) -> Self {
        Self {
            spatial: spatial as u8,
            stride: [1; MAX_SPATIAL],
            pad_before: [0; MAX_SPATIAL],
            pad_after: [0; MAX_SPATIAL],
            dilation: [1; MAX_SPATIAL],
            groups: 1,
            output_padding: [0; MAX_SPATIAL],
        }
    }
}

/// What pooling takes from its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean, with or without the padding, which is zero.
    Average {
        /// Count padded positions.
        include_padding: bool,
    },
}

/// How the place of a largest element is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PoolOrder {
    /// In the row-major order of the spatial axes, within its own channel.
    #[default]
    Channel,
    /// In the row-major order of the whole input.
    Whole,
    /// Through the whole input, with the spatial axes of each channel in column-major order.
    WholeByColumns,
}

/// Geometry of pooling. Global pooling is a window of the whole input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolParams {
    /// What is taken from the window.
    pub kind: PoolKind,
    /// Number of spatial axes, 1 to 3.
    pub spatial: u8,
    /// Window size.
    pub kernel: [u32; MAX_SPATIAL],
    /// Step of the window.
    pub stride: [u32; MAX_SPATIAL],
    /// Padding before the first element.
    pub pad_before: [u32; MAX_SPATIAL],
    /// Padding after the last element.
    pub pad_after: [u32; MAX_SPATIAL],
    /// Distance between taps.
    pub dilation: [u32; MAX_SPATIAL],
    /// One more window where that begins inside the input or the padding before it, though it does not fit.
    pub ceil: bool,
    /// Whether the place of each largest element is given too.
    pub indices: bool,
    /// How places are counted.
    pub order: PoolOrder,
}

/// How a scattered update meets the value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterReduction {
    /// Replaces it; with duplicate indices the last one in row-major order stays.
    Replace,
    /// Adds to it.
    Add,
    /// Multiplies it.
    Multiply,
    /// Keeps the larger.
    Max,
    /// Keeps the smaller.
    Min,
}

/// Interpolation of a resize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResizeMode {
    /// The nearest element.
    Nearest(NearestRounding),
    /// Between two elements per axis.
    Linear,
    /// Between four elements per axis, with this coefficient.
    Cubic(f32),
}

/// Which neighbor is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NearestRounding {
    /// Halves go down.
    PreferFloor,
    /// Halves go up.
    PreferCeil,
    /// Always down.
    Floor,
    /// Always up.
    Ceil,
}

/// How output coordinates map to input coordinates, by ONNX's names. `x` is the coordinate in the
/// output, `from` and `to` are the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoordinateMode {
    /// `(x + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As [`HalfPixel`](Self::HalfPixel), moved by `from / 2 · (1 - to / (scale · from))`, so that the
    /// middles meet.
    HalfPixelSymmetric,
    /// As [`HalfPixel`](Self::HalfPixel), and 0 in an output of size 1.
    PytorchHalfPixel,
    /// `x · (from - 1) / (to - 1)`, and 0 in an output of size 1.
    AlignCorners,
    /// `x · (from - 1) / (from · scale - 1)`: as [`AlignCorners`](Self::AlignCorners), with a size of the output
    /// that is not rounded; 0 where that is 1 or less.
    AlignCornersByScale,
    /// `x / scale`.
    Asymmetric,
    /// `start · (from - 1) + x · (end - start) · (from - 1) / (to - 1)`, and the middle of the region in
    /// an output of size 1.
    CropAndResize,
}

/// Parameters of a resize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeParams {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinate mapping.
    pub coordinates: CoordinateMode,
    /// Output size over input size, per axis; of a crop, over the size of the region. A scale need not
    /// divide the sizes exactly, and coordinates are made from the scale as it is.
    pub scales: [f64; MAX_RANK],
    /// The output's size, per axis; 1 beyond the rank.
    pub sizes: [usize; MAX_RANK],
    /// Region of interest for [`CoordinateMode::CropAndResize`]: start and end per axis, as fractions
    /// of the input's last coordinate.
    pub region: [(f32, f32); MAX_RANK],
    /// Value where a crop reaches outside the input, converted to the element type.
    pub extrapolation: f32,
    /// Weights outside the input count as zero and the others are scaled to sum to one; else the edge
    /// element stands for all outside.
    pub exclude_outside: bool,
    /// Stretch the filter when shrinking, so that every input element counts.
    pub antialias: bool,
}

/// What padding is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// One value.
    Constant(Scalar),
    /// The edge element.
    Edge,
    /// The mirror image without the edge, from one end to the other and back.
    Reflect,
    /// The elements again, from the other end on.
    Wrap,
}

/// Parameters of padding. Negative widths crop; widths beyond the rank are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PadParams {
    /// What the padding is filled with.
    pub mode: PadMode,
    /// Elements before the first, per axis.
    pub before: [i64; MAX_RANK],
    /// Elements after the last, per axis.
    pub after: [i64; MAX_RANK],
}

/// Kind of recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecurrentCell {
    /// Long short-term memory: `c = f · c + i · g`, `h = o · tanh c`.
    Lstm,
    /// Gated recurrent unit: `h = (1 - z) · n + z · h`.
    Gru {
        /// Apply the reset gate after the hidden product and its bias (PyTorch's way) rather than to
        /// the hidden state before it.
        linear_before_reset: bool,
    },
    /// `h = tanh(…)`.
    RnnTanh,
    /// `h = max(…, 0)`.
    RnnRelu,
}

impl RecurrentCell {
    /// How many gates there are: rows of the weights per element of the hidden state.
    pub const fn gates(self) -> usize {
        match self {
            RecurrentCell::Lstm => 4,
            RecurrentCell::Gru { .. } => 3,
            RecurrentCell::RnnTanh | RecurrentCell::RnnRelu => 1,
        }
    }
}

/// Direction of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecurrentDirection {
    /// From the first step to the last.
    Forward,
    /// From the last step to the first.
    Reverse,
    /// Forward as the first direction, reverse as the second.
    Both,
}

impl RecurrentDirection {
    /// How many directions there are.
    pub const fn count(self) -> usize {
        match self {
            RecurrentDirection::Forward | RecurrentDirection::Reverse => 1,
            RecurrentDirection::Both => 2,
        }
    }
}

/// Parameters of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentParams {
    /// Kind of cell.
    pub cell: RecurrentCell,
    /// Direction.
    pub direction: RecurrentDirection,
    /// Whether biases are given.
    pub bias: bool,
    /// Whether a first hidden state is given.
    pub initial_hidden: bool,
    /// Whether a first cell state is given.
    pub initial_cell: bool,
    /// Whether sequence lengths are given.
    pub lengths: bool,
    /// How the layer differs from the usual one.
    pub variant: RecurrentVariant,
}

//! Parameters of the larger operations.

use super::RecurrentVariant;
use crate::{MAX_RANK, Scalar};

/// The most spatial axes that convolution and pooling have.
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
    /// Channels are split into this many independent groups.
    pub groups: u32,
    /// Elements added at the end of each axis of a transposed convolution's output; others ignore it. Elements that
    /// no tap reaches are 0 before the bias is added.
    pub output_padding: [u32; MAX_SPATIAL],
}

impl ConvParams {
    /// Stride and dilation 1, no padding, one group.
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

/// What pooling computes from its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean. Padding counts as zeros, or does not count.
    Average {
        /// Whether padding counts.
        include_padding: bool,
    },
}

/// How the index of a largest element is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PoolOrder {
    /// In the row-major order of the spatial axes, within its own channel.
    #[default]
    Channel,
    /// In the row-major order of the whole input.
    Whole,
    /// In the whole input, with the spatial axes of each channel in column-major order.
    WholeByColumns,
}

/// Geometry of pooling. Global pooling is a window of the whole input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolParams {
    /// What is computed from the window.
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
    /// Whether there is one more window that does not fit as a whole. It must begin inside the input or the padding
    /// before it.
    pub ceil: bool,
    /// Whether the index of each largest element is an output too.
    pub indices: bool,
    /// How indices are counted.
    pub order: PoolOrder,
}

/// How a scattered update is combined with the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterReduction {
    /// Replaces it. Of updates with the same index, the last one in row-major order stays.
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
    /// Linear, from two elements per axis.
    Linear,
    /// Cubic, from four elements per axis, with this coefficient.
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
    /// As [`HalfPixel`](Self::HalfPixel), moved by `from / 2 · (1 - to / (scale · from))`, so that the centers of
    /// input and output coincide.
    HalfPixelSymmetric,
    /// As [`HalfPixel`](Self::HalfPixel), and 0 in an output of size 1.
    PytorchHalfPixel,
    /// `x · (from - 1) / (to - 1)`, and 0 in an output of size 1.
    AlignCorners,
    /// `x · (from - 1) / (from · scale - 1)`: as [`AlignCorners`](Self::AlignCorners) with an output size that is not
    /// rounded. 0 if that size is 1 or less.
    AlignCornersByScale,
    /// `x / scale`.
    Asymmetric,
    /// `start · (from - 1) + x · (end - start) · (from - 1) / (to - 1)`. In an output of size 1, the center of the
    /// region.
    CropAndResize,
}

/// Parameters of a resize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeParams {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinate mapping.
    pub coordinates: CoordinateMode,
    /// Output size over input size, per axis; for a crop, over the size of the region. The output size may be
    /// rounded, and coordinates are computed from the scale as it is given. They are computed in `f32`, as
    /// onnxruntime does: what lies between two elements then falls on the same side.
    pub scales: [f64; MAX_RANK],
    /// The output size per axis; 1 beyond the rank.
    pub sizes: [usize; MAX_RANK],
    /// Region of interest for [`CoordinateMode::CropAndResize`]: start and end per axis, as fractions
    /// of the input's last coordinate.
    pub region: [(f32, f32); MAX_RANK],
    /// The value of elements outside of the input when cropping, converted to the element type.
    pub extrapolation: f32,
    /// Whether weights outside of the input count as zero, with the others scaled to sum to one. If not, the edge
    /// element stands for all elements outside.
    pub exclude_outside: bool,
    /// Whether the filter is stretched when shrinking, so that every input element counts.
    pub antialias: bool,
}

/// What padding is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// One value.
    Constant(Scalar),
    /// The edge element.
    Edge,
    /// The mirror image without the edge element, again and again.
    Reflect,
    /// The elements from the other end, again and again.
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
        /// Whether the reset gate is applied after the hidden product and its bias, as in PyTorch. If not, it is
        /// applied to the hidden state before the product.
        linear_before_reset: bool,
    },
    /// `h = tanh(…)`.
    RnnTanh,
    /// `h = max(…, 0)`.
    RnnRelu,
}

impl RecurrentCell {
    /// How many gates there are: the weights have this many rows per element of the hidden state.
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
    /// Both; the first direction is forward and the second is reverse.
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
    /// Whether an initial hidden state is given.
    pub initial_hidden: bool,
    /// Whether an initial cell state is given.
    pub initial_cell: bool,
    /// Whether sequence lengths are given.
    pub lengths: bool,
    /// How the layer differs from the usual one.
    pub variant: RecurrentVariant,
}

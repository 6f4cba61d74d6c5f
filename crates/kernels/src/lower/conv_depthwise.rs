//! Depthwise convolutions of two axes.

use millstream_core::{ConvParams, DType};

use super::conv::ConvLaunch;
use super::matmul_split_k::is_float;
use crate::program::Definition;
use crate::{Key, Limits, Program};

/// Outputs of a thread, neighbors along the last axis.
const WIDTH: usize = 4;
/// The most taps along an axis. More would take too many registers.
const MAX_TAPS: usize = 7;

pub(crate) const PROGRAM: Definition = Definition {
    name: "conv_depthwise",
    text: include_str!("../../programs/conv_depthwise.kernel"),
    constants: &["DTYPE", "ACT", "TAPS_Y", "TAPS_X", "STEP_X", "WIDE"],
    params: ConvLaunch::declaration,
};

/// What decides whether a convolution is one of these.
pub(super) struct Depthwise<'a> {
    pub params: &'a ConvParams,
    /// Of output, input and weight.
    pub dtypes: [DType; 3],
    /// Input channels per group.
    pub channels: usize,
    /// The shapes of output and weight.
    pub dst: &'a [usize],
    pub weight: &'a [usize],
    /// The number of the activation.
    pub act: i32,
    pub wide: bool,
}

impl Depthwise<'_> {
    /// Key, groups and threads; `None` for any other convolution.
    pub fn launch(&self, limits: &Limits) -> Option<(Key, [u32; 3], u32)> {
        let Self { params, dtypes: [dtype, src, weight], .. } = *self;
        let fits = self.channels == 1
            && params.spatial == 2
            && is_float(dtype)
            && (src, weight) == (dtype, dtype)
            && params.dilation[1] == 1
            && (1..=2).contains(&params.stride[1]);
        let &[_, _, taps_y, taps_x] = self.weight else { return None };
        let &[batch, channels, height, width] = self.dst else { return None };
        if !fits || taps_y.max(taps_x) > MAX_TAPS {
            return None;
        }
        let constants = [
            dtype as i32,
            self.act,
            taps_y as i32,
            taps_x as i32,
            params.stride[1] as i32,
            self.wide.into(),
        ];
        let items = batch * channels * height * width.div_ceil(WIDTH);
        let threads = limits.usual_threads();
        let groups = [limits.groups_for(items, threads), 1, 1];
        Some((Key::new(Program::ConvDepthwise, &constants), groups, threads))
    }
}

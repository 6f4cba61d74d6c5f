//! Convolutions of every kind.

use millstream_core::{
    Activation, BoundCommand, ConvIntegerOperands, ConvOperands, ConvParams, Epilogue, Layout,
    MAX_SPATIAL, Operand, RawBuffer, Rescale,
};
use smallvec::smallvec;

use super::conv_depthwise::Depthwise;
use super::conv_pointwise::Pointwise;
use super::conv_tensor_cores;
use super::epilogue::activation_code;
use super::matmul::Tile;
use super::matmul_split_k::{self, VECTOR};
use super::{matmul_matrices, rescale};
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

/// Axes of an operand: batch, channels and spatial axes.
pub(super) const AXES: usize = MAX_SPATIAL + 2;

params! {
    /// The params of `conv`, `conv_matrices`, `conv_tensor_cores`, `conv_split_k` and `conv_direct`.
    ConvLaunch {
        /// Offsets of output, input, weight, bias and residual. For integers, the last two are the zero points.
        offset: [u64; 5],
        dst_stride: [u64; AXES],
        src_stride: [u64; AXES],
        weight_stride: [u64; AXES],
        residual_stride: [u64; AXES],
        bias_stride: u64,
        groups: u64,
        /// Input channels per group.
        channels: u64,
        /// Output channels per group.
        outputs: u64,
        /// Positions of the window in the whole batch.
        positions: u64,
        /// Input channels per group times taps.
        k: u64,
        out_size: [u64; MAX_SPATIAL],
        in_size: [u64; MAX_SPATIAL],
        taps: [u64; MAX_SPATIAL],
        step: [u64; MAX_SPATIAL],
        dilation: [u64; MAX_SPATIAL],
        pad: [u64; MAX_SPATIAL],
        scale: f32,
        first: f32,
        second: f32,
        /// The number of rows of tiles.
        tiles: u32,
        has_bias: u32,
        has_residual: u32,
        act: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "conv",
    text: include_str!("../../programs/conv.kernel"),
    constants: &["DST", "SRC", "WEIGHT", "SPATIAL", "TILE_M", "TILE_N", "SLICES", "WIDE"],
    params: ConvLaunch::declaration,
};

pub(crate) const DIRECT_PROGRAM: Definition = Definition {
    name: "conv_direct",
    text: include_str!("../../programs/conv_direct.kernel"),
    constants: &["DST", "SRC", "WEIGHT", "SPATIAL", "TRANSPOSED", "WIDE"],
    params: ConvLaunch::declaration,
};

pub(crate) const SPLIT_K_PROGRAM: Definition = Definition {
    name: "conv_split_k",
    text: include_str!("../../programs/conv_split_k.kernel"),
    constants: &["DTYPE", "ROWS", "COLUMNS", "THREADS", "SPATIAL", "DENSE", "WIDE"],
    params: ConvLaunch::declaration,
};

pub(crate) const MATRICES_PROGRAM: Definition = Definition {
    name: "conv_matrices",
    text: include_str!("../../programs/conv_matrices.kernel"),
    constants: &["DTYPE", "SPATIAL", "TILE_M", "TILE_N", "A_MODE", "THREADS", "WIDE"],
    params: ConvLaunch::declaration,
};

/// `dst ← src, weight, [bias], [residual]`, plain or transposed.
pub(super) fn lower(
    command: &BoundCommand,
    params: &ConvParams,
    epilogue: &Epilogue,
    transposed: bool,
    limits: &Limits,
) -> Lowered {
    let ConvOperands { dst, bias, residual, .. } = ConvOperands::of(command);
    let conv = Conv { command, dst, params, bias, residual, transposed };
    conv.lower(epilogue.scale, epilogue.activation, limits)
}

/// The sums of integers, followed by their rescaling.
pub(super) fn lower_integer(
    command: &BoundCommand,
    params: &ConvParams,
    rescale: Option<&Rescale>,
    limits: &Limits,
) -> Lowered {
    let operands = ConvIntegerOperands::of(command);
    let dst = operands.dst;
    // Zero points take the places of bias and residual.
    let (bias, residual) = (operands.src_zero, operands.weight_zero);
    let conv = |dst| Conv { command, dst, params, bias, residual, transposed: false };
    let (Some(rescale), [Some(src_scale), Some(weight_scale)]) =
        (rescale, [operands.src_scale, operands.weight_scale])
    else {
        return conv(dst).lower(1.0, Activation::None, limits);
    };
    let mut lowered = Lowered::default();
    if dst.layout.is_empty() {
        return lowered;
    }
    let (sums, place) = rescale::sums(dst, &mut lowered);
    lowered.launches = conv(&sums).lower(1.0, Activation::None, limits).launches;
    // The output stands in for absent zero points here too.
    let [to, _, _, src_zero, weight_zero] = &mut lowered.launches[0].slots[..] else {
        unreachable!("a convolution has five buffers")
    };
    *to = place;
    if bias.is_none() {
        *src_zero = place;
    }
    if residual.is_none() {
        *weight_zero = place;
    }
    let (shape, channels) = (dst.layout.shape(), weight_scale.layout);
    // One number for each output channel, along the second axis.
    let mut strides = [0; AXES];
    strides[1] = channels.strides()[0];
    let weight_scale =
        Layout::strided(channels.dtype(), shape, &strides[..shape.len()], channels.offset())
            .map(|layout| Operand::new(weight_scale.buffer, layout))
            .expect("there is an output of this shape");
    let extras = rescale::Extras {
        rescale,
        scales: [rescale::repeated(src_scale, shape), weight_scale],
        bias: operands.bias,
        residual: operands.residual,
        dst_scale: operands.dst_scale,
        dst_zero: operands.dst_zero,
    };
    rescale::finish(dst, (&sums, place), &extras, &mut lowered, limits);
    lowered
}

struct Conv<'a> {
    command: &'a BoundCommand,
    dst: &'a Operand<RawBuffer>,
    params: &'a ConvParams,
    bias: Option<&'a Operand<RawBuffer>>,
    residual: Option<&'a Operand<RawBuffer>>,
    transposed: bool,
}

/// The strides of an operand; 0 for axes that it does not have.
pub(super) fn strides(operand: &Operand<RawBuffer>) -> [u64; AXES] {
    let strides = operand.layout.strides();
    std::array::from_fn(|axis| strides.get(axis).map_or(0, |&stride| stride as u64))
}

/// The spatial sizes of a shape; 1 for axes that it does not have.
pub(super) fn spatial(shape: &[usize]) -> [u64; MAX_SPATIAL] {
    std::array::from_fn(|axis| shape.get(axis + 2).map_or(1, |&size| size as u64))
}

impl Conv<'_> {
    fn lower(&self, scale: f32, activation: Activation, limits: &Limits) -> Lowered {
        let (dst, inputs) = (self.dst, self.command.inputs());
        if dst.layout.is_empty() {
            return Lowered::default();
        }
        let (src, weight) = (&inputs[0], &inputs[1]);
        let dtype = dst.layout.dtype();
        let groups = self.params.groups as usize;
        let channels = src.layout.shape()[1] / groups;
        let outputs = dst.layout.shape()[1] / groups;
        let positions = dst.layout.elements() / dst.layout.shape()[1];
        let taps: usize = weight.layout.shape()[2..].iter().product();
        let wide = is_wide([dst, src, weight].into_iter().chain(self.residual)) || self.is_far();
        if !self.transposed
            && let Some(launch) = self.pointwise().launch(scale, activation, wide, limits)
        {
            return Lowered { launches: smallvec![launch], workspace: 0 };
        }
        let (act, first, second) = activation_code(activation);
        let direct = self.transposed || (groups > 1 && outputs < 8);
        let k = channels * taps;
        let multiplies = !direct && matmul_split_k::is_float(dtype);
        let wide_step = (2 + usize::from(self.params.spatial)) * if wide { 8 } else { 4 };
        let matrix = (!direct)
            .then(|| {
                conv_tensor_cores::Tile::choose(
                    [outputs, positions, k],
                    groups,
                    dtype,
                    wide_step,
                    limits,
                )
            })
            .flatten();
        let small = (multiplies && matrix.is_none())
            .then(|| self.split_k_tile(outputs, positions, groups, k, wide, limits))
            .flatten();
        let matrices = (multiplies && matrix.is_none() && small.is_none() && self.is_dense())
            .then(|| matmul_matrices::Tile::choose(outputs, positions, k, groups, limits))
            .flatten();
        let mut tile = Tile::choose(outputs, positions, groups, dtype, limits);
        // The tile with the most slices leaves little of 32 KiB for the stage along k.
        if limits.shared_bytes < 40 << 10 && tile.n < 32 {
            tile.slices /= 2;
        }
        let [rows, columns] = match (matrix, small, matrices) {
            (Some(matrix), ..) => matrix.groups(outputs, positions),
            (None, Some(small), _) => small.groups(outputs, positions),
            (None, None, Some(tile)) => tile.groups(outputs, positions),
            (None, None, None) => tile.groups(outputs, positions),
        };
        let offset = |operand: &Operand<RawBuffer>| operand.layout.offset() as u64;
        let launch = ConvLaunch {
            offset: [
                offset(dst),
                offset(src),
                offset(weight),
                self.bias.map_or(0, offset),
                self.residual.map_or(0, offset),
            ],
            dst_stride: strides(dst),
            src_stride: strides(src),
            weight_stride: strides(weight),
            residual_stride: self.residual.map_or([0; AXES], strides),
            bias_stride: self.bias.map_or(0, |bias| strides(bias)[1]),
            groups: groups as u64,
            channels: channels as u64,
            outputs: outputs as u64,
            positions: positions as u64,
            k: k as u64,
            out_size: spatial(dst.layout.shape()),
            in_size: spatial(src.layout.shape()),
            taps: spatial(weight.layout.shape()),
            step: self.params.stride.map(u64::from),
            dilation: self.params.dilation.map(u64::from),
            pad: self.params.pad_before.map(u64::from),
            scale,
            first,
            second,
            tiles: rows as u32,
            has_bias: self.bias.is_some().into(),
            has_residual: self.residual.is_some().into(),
            act: act as u32,
        };
        let [to, from, by] = [dst, src, weight].map(|operand| operand.layout.dtype() as i32);
        let axes = i32::from(self.params.spatial);
        let depthwise = Depthwise {
            params: self.params,
            dtypes: [dst, src, weight].map(|operand| operand.layout.dtype()),
            channels,
            dst: dst.layout.shape(),
            weight: weight.layout.shape(),
            act,
            wide,
        };
        let depthwise = (direct && !self.transposed).then(|| depthwise.launch(limits)).flatten();
        let (key, groups, threads) = if let Some(depthwise) = depthwise {
            depthwise
        } else if direct {
            let constants = [to, from, by, axes, self.transposed.into(), wide.into()];
            let threads = limits.usual_threads();
            let groups = limits.groups_for(dst.layout.elements(), threads);
            (Key::new(Program::ConvDirect, &constants), [groups, 1, 1], threads)
        } else if let Some(tile) = matrix {
            let dense = i32::from(self.takes_vectors(k, conv_tensor_cores::VECTOR));
            let constants = tile.constants([to, axes, dense, wide.into()]);
            let groups = [columns as u32, groups.min(65535) as u32, rows as u32];
            (Key::new(Program::ConvTensorCores, &constants), groups, tile.threads())
        } else if let Some(tile) = small {
            let [rows_of_lane, columns_of_lane, threads] = tile.constants(limits);
            let dense = i32::from(self.takes_vectors(k, VECTOR));
            let constants = [to, rows_of_lane, columns_of_lane, threads, axes, dense, wide.into()];
            let groups = [rows as u32, groups.min(65535) as u32, columns as u32];
            (Key::new(Program::ConvSplitK, &constants), groups, tile.threads(limits))
        } else if let Some(tile) = matrices {
            let side = tile.side as i32;
            // Weights are neighbors along k; bit 1 says that 16 bytes can be read at once.
            let vectors = self.takes_vectors(k, 16 / dtype.size());
            let mode = 1 | i32::from(vectors) << 1;
            let constants = [to, axes, side, side, mode, tile.threads() as i32, wide.into()];
            let groups = [(rows * columns) as u32, groups.min(65535) as u32, 1];
            (Key::new(Program::ConvMatrices, &constants), groups, tile.threads())
        } else {
            let [m, n, slices] = [tile.m, tile.n, tile.slices].map(|size| size as i32);
            let constants = [to, from, by, axes, m, n, slices, wide.into()];
            let groups = [(rows * columns) as u32, groups.min(65535) as u32, 1];
            (Key::new(Program::Conv, &constants), groups, tile.threads())
        };
        let extra = |operand: Option<&Operand<RawBuffer>>| Slot::from(operand.unwrap_or(dst));
        let slots = smallvec![
            Slot::from(dst),
            Slot::from(src),
            Slot::from(weight),
            extra(self.bias),
            extra(self.residual),
        ];
        let launch = Launch { key, groups, threads, slots, params: launch.pack() };
        Lowered { launches: smallvec![launch], workspace: 0 }
    }

    fn pointwise(&self) -> Pointwise<'_> {
        let [src, weight] = [0, 1].map(|input| &self.command.inputs()[input]);
        let Self { dst, params, bias, residual, .. } = *self;
        Pointwise { params, dst, src, weight, bias, residual }
    }

    /// The split-k tile of a small convolution; `None` for any other.
    fn split_k_tile(
        &self,
        outputs: usize,
        positions: usize,
        groups: usize,
        k: usize,
        wide: bool,
        limits: &Limits,
    ) -> Option<matmul_split_k::Tile> {
        let mut tile = matmul_split_k::Tile::choose(outputs, positions, k, groups, limits)?;
        let word = if wide { 8 } else { 4 };
        let step = (2 + usize::from(self.params.spatial)) * word;
        while tile.slices > 1 && tile.shared_bytes(step) > limits.shared_bytes as usize {
            tile.slices /= 2;
        }
        Some(tile)
    }

    /// Whether the weights of an output are dense.
    fn is_dense(&self) -> bool {
        let layout = &self.command.inputs()[1].layout;
        let strides = layout.strides();
        let mut dense = 1;
        for axis in (1..layout.rank()).rev() {
            if layout.shape()[axis] > 1 && strides[axis] != dense {
                return false;
            }
            dense *= layout.shape()[axis];
        }
        true
    }

    /// Whether the weights of an output are dense, and so many can be loaded at once.
    fn takes_vectors(&self, k: usize, vector: usize) -> bool {
        let weight = &self.command.inputs()[1];
        let layout = &weight.layout;
        let start = weight.buffer.address + layout.start_bytes();
        self.is_dense()
            && k.is_multiple_of(vector)
            && (layout.shape()[0] == 1 || layout.strides()[0].is_multiple_of(vector))
            && start.is_multiple_of(vector * layout.dtype().size())
    }

    /// Whether padding or strides are so large that 32-bit positions would wrap around into the input.
    fn is_far(&self) -> bool {
        let (dst, inputs) = (self.dst, self.command.inputs());
        let (small, large) = if self.transposed { (&inputs[0], dst) } else { (dst, &inputs[0]) };
        (0..usize::from(self.params.spatial)).any(|axis| {
            let number = |values: &[u32; MAX_SPATIAL]| u64::from(values[axis]);
            let size = |operand: &Operand<RawBuffer>| operand.layout.shape()[axis + 2] as u64;
            let kernel = inputs[1].layout.shape()[axis + 2] as u64;
            let steps = size(small).saturating_mul(number(&self.params.stride));
            let taps = kernel.saturating_mul(number(&self.params.dilation));
            steps.saturating_add(taps).saturating_add(number(&self.params.pad_before)) + size(large)
                >= 1 << 31
        })
    }
}

#[cfg(test)]
mod tests;

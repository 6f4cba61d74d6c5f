//! Deformable convolutions.

use millstream_core::{
    BoundCommand, DType, DeformConvOperands, DeformConvParams, MAX_SPATIAL, Operand, RawBuffer,
};
use smallvec::smallvec;

use super::conv::{AXES, spatial, strides};
use super::matmul::Tile;
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `deform_conv`.
    DeformConvLaunch {
        /// Offsets of output, input, weight, offset, bias and mask.
        offset: [u64; 6],
        stride: [[u64; AXES]; 6],
        groups: u64,
        /// Input channels per group.
        channels: u64,
        /// Output channels per group.
        outputs: u64,
        /// Input channels that share offsets.
        together: u64,
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
        /// The number of rows of tiles.
        tiles: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "deform_conv",
    text: include_str!("../../programs/deform_conv.kernel"),
    constants: &["DTYPE", "BIAS", "MASK", "TILE_M", "TILE_N", "SLICES", "WIDE"],
    params: DeformConvLaunch::declaration,
};

pub(super) fn lower(command: &BoundCommand, params: &DeformConvParams, limits: &Limits) -> Lowered {
    let DeformConvOperands { dst, src, weight, offset, bias, mask } =
        DeformConvOperands::of(command);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    // The output stands in for absent operands. The kernel does not read it as such.
    let operands: [&Operand<RawBuffer>; 6] =
        [dst, src, weight, offset, bias.unwrap_or(dst), mask.unwrap_or(dst)];
    let (conv, groups) = (&params.conv, params.conv.groups as usize);
    let all_channels = src.layout.shape()[1];
    let (outputs, channels) = (dst.layout.shape()[1] / groups, all_channels / groups);
    let positions = dst.layout.elements() / dst.layout.shape()[1];
    let taps: usize = weight.layout.shape()[2..].iter().product();
    // Sums are kept in `f32`.
    let tile = Tile::choose(outputs, positions, groups, DType::F32, limits);
    let [rows, columns] = tile.groups(outputs, positions);
    let launch = DeformConvLaunch {
        offset: operands.map(|operand| operand.layout.offset() as u64),
        stride: operands.map(strides),
        groups: groups as u64,
        channels: channels as u64,
        outputs: outputs as u64,
        together: (all_channels / params.offset_groups as usize) as u64,
        positions: positions as u64,
        k: (channels * taps) as u64,
        out_size: spatial(dst.layout.shape()),
        in_size: spatial(src.layout.shape()),
        taps: spatial(weight.layout.shape()),
        step: conv.stride.map(u64::from),
        dilation: conv.dilation.map(u64::from),
        pad: conv.pad_before.map(u64::from),
        tiles: rows as u32,
    };
    let [m, n, slices] = [tile.m, tile.n, tile.slices].map(|size| size as i32);
    let (bias, mask) = (bias.is_some().into(), mask.is_some().into());
    let constants = [dst.layout.dtype() as i32, bias, mask, m, n, slices, is_wide(operands).into()];
    let launch = Launch {
        key: Key::new(Program::DeformConv, &constants),
        groups: [(rows * columns) as u32, groups.min(65535) as u32, 1],
        threads: tile.threads(),
        slots: operands.map(Slot::from).into_iter().collect(),
        params: launch.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

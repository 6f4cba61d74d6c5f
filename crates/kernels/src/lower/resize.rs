//! Interpolation: first a table of the taps along each axis, then the sums.

use millstream_core::{
    BoundCommand, CoordinateMode, DType, MAX_RANK, NearestRounding, ResizeMode, ResizeParams,
    Scalar,
};
use smallvec::{SmallVec, smallvec};

use super::copy::lower_copy;
use super::index::{repeated, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `resize_taps`, for the axes that change.
    TapsParams {
        /// The number of records.
        count: u64,
        from: [u64; MAX_RANK],
        to: [u64; MAX_RANK],
        /// The bits of an `f64`.
        scale: [u64; MAX_RANK],
        /// The offset of each axis's records, and the bytes of a record.
        offset: [u64; MAX_RANK],
        record: [u64; MAX_RANK],
        /// The region of a crop.
        start: [f32; MAX_RANK],
        end: [f32; MAX_RANK],
        /// The most taps of a record.
        taps: [u32; MAX_RANK],
        mode: u32,
        coordinates: u32,
        cubic: f32,
        exclude_outside: u32,
        antialias: u32,
    }
}

params! {
    /// The params of `resize`.
    ResizeKernelParams {
        /// Output and input.
        walk: Walk<2>,
        /// The offset of each axis's records, and the bytes of a record.
        offset: [u64; MAX_RANK],
        record: [u64; MAX_RANK],
        /// The last coordinate in the input.
        last: [u64; MAX_RANK],
        /// The value outside of the input when cropping: its bytes, repeated to 8, and the number.
        outside_bits: u64,
        outside: f32,
    }
}

pub(crate) const TAPS: Definition = Definition {
    name: "resize_taps",
    text: include_str!("../../programs/resize_taps.kernel"),
    constants: &["DOUBLE"],
    params: TapsParams::declaration,
};

pub(crate) const PROGRAM: Definition = Definition {
    name: "resize",
    text: include_str!("../../programs/resize.kernel"),
    constants: &["NEAREST", "TYPE", "RANK", "SCALED", "AXES", "WIDE"],
    params: ResizeKernelParams::declaration,
};

/// One axis of output and input.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    sizes: [usize; 2],
    strides: [usize; 2],
    /// The axis of the operands, if it changes.
    scaled: Option<usize>,
}

pub(super) fn lower(command: &BoundCommand, params: &ResizeParams, limits: &Limits) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let mut axes = axes(command, params);
    let changed = axes.iter().filter(|axis| axis.scaled.is_some()).count();
    if changed == 0 {
        return lower_copy(dst, src, limits);
    }
    let dtype = dst.layout.dtype();
    let nearest = matches!(params.mode, ResizeMode::Nearest(_));
    let (mut ratio, mut kind) = (1, dtype as i32);
    if nearest {
        let mut unit = dtype.size();
        if axes[0].scaled.is_none() && axes[0].strides == [1, 1] {
            let outer = axes[1..].iter().flat_map(|axis| axis.strides);
            unit = widest_unit([dst, src], outer.chain([axes[0].sizes[0]]));
        }
        (ratio, kind) = (unit / dtype.size(), unit as i32);
        for (at, axis) in axes.iter_mut().enumerate() {
            let units = if at == 0 && ratio > 1 { &mut axis.sizes } else { &mut axis.strides };
            units.iter_mut().for_each(|count| *count /= ratio);
        }
    }
    let mut taps = Table::new(params, dtype);
    let mut launch_params = ResizeKernelParams {
        walk: Walk {
            count: axes.iter().map(|axis| axis.sizes[0] as u64).product(),
            shape: [1; MAX_RANK],
            offset: [dst, src].map(|operand| (operand.layout.offset() / ratio) as u64),
            stride: [[0; MAX_RANK]; 2],
        },
        offset: [0; MAX_RANK],
        record: [0; MAX_RANK],
        last: [0; MAX_RANK],
        outside_bits: repeated(&Scalar::from(params.extrapolation).to_bytes(dtype)[..dtype.size()]),
        outside: params.extrapolation,
    };
    let mut scaled = 0;
    for (at, axis) in axes.iter().enumerate() {
        launch_params.walk.shape[at] = axis.sizes[0] as u64;
        (0..2).for_each(|k| launch_params.walk.stride[k][at] = axis.strides[k] as u64);
        if let Some(place) = axis.scaled {
            scaled |= 1 << at;
            (launch_params.offset[at], launch_params.record[at]) =
                taps.add(params, place, axis.sizes);
            launch_params.last[at] = axis.sizes[1] as u64 - 1;
        }
    }
    let mut lowered = Lowered::default();
    let table = lowered.reserve(taps.bytes);
    let threads = limits.usual_threads();
    lowered.launches.push(Launch {
        key: Key::new(Program::ResizeTaps, &[(dtype == DType::F64 && !nearest).into()]),
        groups: [limits.groups_for(taps.params.count as usize, threads), 1, 1],
        threads,
        slots: smallvec![table],
        params: taps.params.pack(),
    });
    let wide = is_wide([dst, src]).into();
    let rank = if axes.len() > 4 { MAX_RANK } else { axes.len() };
    let constants = [nearest.into(), kind, rank as i32, scaled, changed as i32, wide];
    lowered.launches.push(Launch {
        key: Key::new(Program::Resize, &constants),
        groups: [limits.groups_for(launch_params.walk.count as usize, threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src), table],
        params: launch_params.pack(),
    });
    lowered
}

/// The axes, in the order of the output's strides with the innermost first. Axes that do not change are merged.
fn axes(command: &BoundCommand, params: &ResizeParams) -> SmallVec<[Axis; MAX_RANK]> {
    let (to, from) = (&command.outputs()[0].layout, &command.inputs()[0].layout);
    let mut all: SmallVec<[Axis; MAX_RANK]> = (0..to.rank())
        .map(|axis| {
            let sizes = [to.shape()[axis], from.shape()[axis]];
            let crops = params.coordinates == CoordinateMode::CropAndResize;
            let whole =
                if crops { params.region[axis] == (0.0, 1.0) } else { params.scales[axis] == 1.0 };
            let kept = sizes[0] == sizes[1] && whole;
            let strides = [to.strides()[axis], from.strides()[axis]];
            Axis { sizes, strides, scaled: (!kept).then_some(axis) }
        })
        .filter(|axis| axis.scaled.is_some() || axis.sizes[0] != 1)
        .collect();
    all.sort_by_key(|axis| axis.strides[0]);
    let mut merged = SmallVec::<[Axis; MAX_RANK]>::new();
    for axis in all {
        match merged.last_mut() {
            Some(inner)
                if (inner.scaled, axis.scaled) == (None, None)
                    && (0..2).all(|k| axis.strides[k] == inner.strides[k] * inner.sizes[k]) =>
            {
                (0..2).for_each(|k| inner.sizes[k] *= axis.sizes[k]);
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// The table of records while it is being planned.
struct Table {
    params: TapsParams,
    axes: usize,
    bytes: usize,
    /// Bytes of a weight; 0 for the nearest element.
    weight: usize,
    /// The radius of the filter.
    reach: f64,
}

impl Table {
    fn new(params: &ResizeParams, dtype: DType) -> Self {
        let (mode, reach, cubic) = match params.mode {
            ResizeMode::Nearest(NearestRounding::PreferFloor) => (0, 0.0, 0.0),
            ResizeMode::Nearest(NearestRounding::PreferCeil) => (1, 0.0, 0.0),
            ResizeMode::Nearest(NearestRounding::Floor) => (2, 0.0, 0.0),
            ResizeMode::Nearest(NearestRounding::Ceil) => (3, 0.0, 0.0),
            ResizeMode::Linear => (4, 1.0, 0.0),
            ResizeMode::Cubic(coefficient) => (5, 2.0, coefficient),
        };
        let coordinates = match params.coordinates {
            CoordinateMode::HalfPixel => 0,
            CoordinateMode::HalfPixelSymmetric => 1,
            CoordinateMode::PytorchHalfPixel => 2,
            CoordinateMode::AlignCorners => 3,
            CoordinateMode::Asymmetric => 4,
            CoordinateMode::CropAndResize => 5,
            CoordinateMode::AlignCornersByScale => 6,
        };
        let params = TapsParams {
            count: 0,
            from: [0; MAX_RANK],
            to: [0; MAX_RANK],
            scale: [0; MAX_RANK],
            offset: [0; MAX_RANK],
            record: [0; MAX_RANK],
            start: [0.0; MAX_RANK],
            end: [0.0; MAX_RANK],
            taps: [0; MAX_RANK],
            mode,
            coordinates,
            cubic,
            exclude_outside: params.exclude_outside.into(),
            antialias: params.antialias.into(),
        };
        let weight = match (mode, dtype) {
            (0..4, _) => 0,
            (_, DType::F64) => 8,
            _ => 4,
        };
        Self { params, axes: 0, bytes: 0, weight, reach }
    }

    /// Adds an axis. Returns the offset of its records, and the bytes of a record.
    fn add(&mut self, params: &ResizeParams, axis: usize, [to, from]: [usize; 2]) -> (u64, u64) {
        let scale = params.scales[axis];
        let narrow = if params.antialias { scale.min(1.0) } else { 1.0 };
        // This many integers lie within the radius of any coordinate, and one more because of rounding.
        let taps = (2.0 * self.reach / narrow).ceil() as usize + 1;
        let record = (8 + taps * self.weight).next_multiple_of(8);
        let (at, own) = (self.axes, &mut self.params);
        own.count += to as u64;
        (own.to[at], own.from[at]) = (to as u64, from as u64);
        own.scale[at] = scale.to_bits();
        (own.start[at], own.end[at]) = params.region[axis];
        own.taps[at] = taps as u32;
        (own.offset[at], own.record[at]) = (self.bytes as u64, record as u64);
        self.axes += 1;
        self.bytes += to * record;
        (own.offset[at], own.record[at])
    }
}

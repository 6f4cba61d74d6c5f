//! Interpolation.

use millstream_core::{CoordinateMode, MAX_RANK, NearestRounding, Op, ResizeMode, ResizeParams};
use millstream_graph::{Array, Edge, Expanded, Expander};

use super::common::{Made, axis, fill, one, refuse, sizes, unknown};
use crate::Result;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Resize", resize), ("Upsample", upsample)];

/// How the coordinates of the output are those of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    Known(CoordinateMode),
    /// Corners meet; how depends on whether sizes or scales are given.
    AlignCorners,
    /// `(x + 0.5) / scale`, for the nearest element.
    HalfPixelForNearest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

/// The attributes.
#[derive(Clone, Debug)]
struct Resize {
    mode: ResizeMode,
    coordinates: Coordinates,
    policy: Policy,
    axes: Option<Vec<i64>>,
    exclude_outside: bool,
    extrapolation: f32,
    antialias: bool,
    /// In operator set 10 the element before is taken when an axis grows, and that behind when it shrinks.
    by_direction: bool,
}

/// What becomes of one axis.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    scale: f64,
    size: usize,
    region: (f32, f32),
}

fn nearest(node: &NodeDef<'_, '_>) -> Result<NearestRounding> {
    Ok(match node.attributes.string_or("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" | "" => NearestRounding::PreferFloor,
        "round_prefer_ceil" => NearestRounding::PreferCeil,
        "floor" => NearestRounding::Floor,
        "ceil" => NearestRounding::Ceil,
        other => return unknown("nearest_mode", other),
    })
}

fn resize(node: &mut NodeDef<'_, '_>) -> Made {
    let old = node.version < 11;
    let rounding = if old { NearestRounding::Floor } else { nearest(node)? };
    let cubic = node.attributes.float_or("cubic_coeff_a", -0.75)?;
    let mode = match node.attributes.string_or("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest(rounding),
        "linear" | "bilinear" => ResizeMode::Linear,
        "cubic" => ResizeMode::Cubic(cubic),
        other => return unknown("mode", other),
    };
    let usual = if old { "asymmetric" } else { "half_pixel" };
    let coordinates = match node.attributes.string_or("coordinate_transformation_mode", usual)? {
        "half_pixel" => Coordinates::Known(CoordinateMode::HalfPixel),
        "half_pixel_symmetric" => Coordinates::Known(CoordinateMode::HalfPixelSymmetric),
        "pytorch_half_pixel" => Coordinates::Known(CoordinateMode::PytorchHalfPixel),
        "asymmetric" => Coordinates::Known(CoordinateMode::Asymmetric),
        "tf_crop_and_resize" => Coordinates::Known(CoordinateMode::CropAndResize),
        "align_corners" => Coordinates::AlignCorners,
        "tf_half_pixel_for_nn" => Coordinates::HalfPixelForNearest,
        other => return unknown("coordinate_transformation_mode", other),
    };
    let policy = match node.attributes.string_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => Policy::Stretch,
        "not_larger" => Policy::NotLarger,
        "not_smaller" => Policy::NotSmaller,
        other => return unknown("keep_aspect_ratio_policy", other),
    };
    let resize = Resize {
        mode,
        coordinates,
        policy,
        axes: node.attributes.ints("axes")?.map(<[i64]>::to_vec),
        exclude_outside: node.attributes.flag("exclude_outside", false)?,
        extrapolation: node.attributes.float_or("extrapolation_value", 0.0)?,
        antialias: node.attributes.flag("antialias", false)?,
        by_direction: old,
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let given = if old { [None, numbers(at, inputs, 1)?, None] } else { given(at, inputs)? };
        one(resize.expand(at, input, given)?)
    })
}

/// An operator of older operator sets: nearest elements go down, and coordinates are divided by the scale.
fn upsample(node: &mut NodeDef<'_, '_>) -> Made {
    let mode = match node.attributes.string_or("mode", "nearest")? {
        "nearest" => ResizeMode::Nearest(NearestRounding::Floor),
        "linear" | "bilinear" => ResizeMode::Linear,
        other => return unknown("mode", other),
    };
    let mut attribute: Option<Vec<f64>> = node
        .attributes
        .floats("scales")?
        .map(|scales| scales.iter().map(|&one| one.into()).collect());
    if node.version < 7 {
        let (height, width) =
            (node.attributes.float("height_scale")?, node.attributes.float("width_scale")?);
        attribute = match (height, width) {
            (Some(height), Some(width)) => Some(vec![1.0, 1.0, height.into(), width.into()]),
            _ => attribute,
        };
    }
    let resize = Resize {
        mode,
        coordinates: Coordinates::Known(CoordinateMode::Asymmetric),
        policy: Policy::Stretch,
        axes: None,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        by_direction: false,
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let scales = match &attribute {
            Some(scales) => Some(scales.clone()),
            None => numbers(at, inputs, 1)?,
        };
        one(resize.expand(at, input, [None, scales, None])?)
    })
}

/// Region, scales and sizes, as far as they are given. What is empty is not given.
fn given(at: &Expander<'_>, inputs: Inputs<'_>) -> Expanded<[Option<Vec<f64>>; 3]> {
    let [scales, sizes] = [numbers(at, inputs, 2)?, numbers(at, inputs, 3)?];
    // The region is read only where it counts, and then its contents must be there.
    Ok([numbers(at, inputs, 1)?, scales, sizes])
}

/// The operation, on those axes that are chosen.
fn applied(
    at: &mut Expander<'_>,
    mut params: ResizeParams,
    input: Edge,
    axes: &[Scaled],
    is_chosen: impl Fn(&Scaled) -> bool,
) -> Expanded<Edge> {
    let shape = at.shape(input);
    for (axis, scaled) in axes.iter().enumerate() {
        let kept = Scaled { scale: 1.0, size: shape[axis], region: (0.0, 1.0) };
        let scaled = if is_chosen(scaled) { *scaled } else { kept };
        params.scales[axis] = scaled.scale;
        params.sizes[axis] = scaled.size;
        params.region[axis] = scaled.region;
    }
    at.apply(Op::Resize { params: Box::new(params) }, &[input])
}

fn numbers(at: &Expander<'_>, inputs: Inputs<'_>, index: usize) -> Expanded<Option<Vec<f64>>> {
    let Some(edge) = inputs.optional(index)? else { return Ok(None) };
    if at.shape(edge).contains(&0) {
        return Ok(None);
    }
    Ok(Some(at.content(edge)?.to_f64s()?))
}

impl Resize {
    fn expand(
        &self,
        at: &mut Expander<'_>,
        input: Edge,
        [region, scales, wanted]: [Option<Vec<f64>>; 3],
    ) -> Expanded<Edge> {
        let shape = at.shape(input);
        let by_scale = scales.is_some() && wanted.is_none();
        let axes = self.scaled_axes(&shape, region, scales, wanted)?;
        if axes.iter().any(|axis| axis.size == 0) {
            let shape: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
            let dtype = at.dtype(input);
            return fill(at, 0i64, dtype, &shape);
        }
        let crops = self.coordinates == Coordinates::Known(CoordinateMode::CropAndResize);
        // Whatever the scales are, as in onnxruntime: 1.1 makes 3 of 3 elements.
        if !crops && axes.iter().zip(&shape).all(|(axis, &size)| axis.size == size) {
            return Ok(input);
        }
        let coordinates = match self.coordinates {
            Coordinates::Known(known) => known,
            Coordinates::AlignCorners if by_scale => CoordinateMode::AlignCornersByScale,
            Coordinates::AlignCorners => CoordinateMode::AlignCorners,
            Coordinates::HalfPixelForNearest => return self.gathered(at, input, &axes),
        };
        let mut params = ResizeParams {
            mode: self.mode,
            coordinates,
            scales: [1.0; MAX_RANK],
            sizes: [1; MAX_RANK],
            region: [(0.0, 1.0); MAX_RANK],
            extrapolation: self.extrapolation,
            exclude_outside: self.exclude_outside,
            antialias: self.antialias,
        };
        let shrinks = |axis: &Scaled| axis.scale < 1.0;
        let by_direction = self.by_direction
            && matches!(self.mode, ResizeMode::Nearest(_))
            && axes.iter().any(shrinks);
        if !by_direction {
            return applied(at, params, input, &axes, |_| true);
        }
        params.mode = ResizeMode::Nearest(NearestRounding::Ceil);
        let shrunk = applied(at, params, input, &axes, shrinks)?;
        params.mode = ResizeMode::Nearest(NearestRounding::Floor);
        applied(at, params, shrunk, &axes, |axis| !shrinks(axis))
    }

    /// What becomes of every axis.
    fn scaled_axes(
        &self,
        shape: &[usize],
        region: Option<Vec<f64>>,
        scales: Option<Vec<f64>>,
        wanted: Option<Vec<f64>>,
    ) -> Expanded<Vec<Scaled>> {
        let along: Vec<usize> = match &self.axes {
            Some(axes) => {
                axes.iter().map(|&one| axis(one, shape.len())).collect::<Expanded<_>>()?
            }
            None => (0..shape.len()).collect(),
        };
        let mut axes: Vec<Scaled> =
            shape.iter().map(|&size| Scaled { scale: 1.0, size, region: (0.0, 1.0) }).collect();
        let crops = self.coordinates == Coordinates::Known(CoordinateMode::CropAndResize);
        if let (true, Some(region)) = (crops, region) {
            if region.len() != 2 * along.len() {
                return refuse("the region has not a start and an end for each axis");
            }
            for (index, &axis) in along.iter().enumerate() {
                let (start, end) = (region[index], region[along.len() + index]);
                axes[axis].region = (start as f32, end as f32);
            }
        }
        let part = |axis: &Scaled| if crops { axis.region.1 - axis.region.0 } else { 1.0 };
        match (scales, wanted) {
            (_, Some(wanted)) => {
                if wanted.len() != along.len() {
                    return refuse("there is not one size for each axis");
                }
                let whole: Vec<i64> = wanted.iter().map(|&size| size as i64).collect();
                let wanted = self.fitted(shape, &along, &sizes(&whole)?);
                for (&axis, (size, scale)) in along.iter().zip(wanted) {
                    let part = f64::from(part(&axes[axis]));
                    axes[axis] = Scaled { scale: scale / part, size, ..axes[axis] };
                }
            }
            (Some(scales), None) => {
                if scales.len() != along.len() {
                    return refuse("there is not one scale for each axis");
                }
                for (&axis, &scale) in along.iter().zip(&scales) {
                    // Rounded, as the scale is: 20 / 12 makes 20 of 12 elements, not 19.
                    let size = scale as f32 * part(&axes[axis]) * shape[axis] as f32;
                    if !size.is_finite() || size < 0.0 {
                        return refuse(format!("a scale of {scale}"));
                    }
                    axes[axis] = Scaled { scale, size: size.floor() as usize, ..axes[axis] };
                }
            }
            (None, None) => return refuse("neither sizes nor scales are given"),
        }
        Ok(axes)
    }

    /// Sizes and scales for sizes that are wanted: as they are, or with one scale for all.
    fn fitted(&self, shape: &[usize], along: &[usize], wanted: &[usize]) -> Vec<(usize, f64)> {
        let ratio = |axis: usize, size: usize| f64::from(size as f32 / shape[axis] as f32);
        let ratios = along.iter().zip(wanted).map(|(&axis, &size)| ratio(axis, size));
        let one = match self.policy {
            Policy::Stretch => {
                return wanted.iter().copied().zip(ratios).collect();
            }
            Policy::NotLarger => ratios.fold(f64::INFINITY, f64::min),
            Policy::NotSmaller => ratios.fold(0.0, f64::max),
        };
        // Halves go up.
        let size = |axis: usize| (one as f32 * shape[axis] as f32).round() as usize;
        along.iter().map(|&axis| (size(axis), one)).collect()
    }

    /// The nearest elements by index, for coordinates that the operation does not have.
    fn gathered(&self, at: &mut Expander<'_>, input: Edge, axes: &[Scaled]) -> Expanded<Edge> {
        let ResizeMode::Nearest(rounding) = self.mode else {
            return refuse("these coordinates are for the nearest element");
        };
        let mut result = input;
        for (axis, scaled) in axes.iter().enumerate() {
            let from = at.shape(result)[axis];
            if scaled.size == from && scaled.scale == 1.0 {
                continue;
            }
            let place = |x: usize| -> i64 {
                let exact = (x as f32 + 0.5) / scaled.scale as f32;
                let rounded = match rounding {
                    NearestRounding::Floor => exact.floor(),
                    NearestRounding::Ceil => exact.ceil(),
                    NearestRounding::PreferFloor => (exact - 0.5).ceil(),
                    NearestRounding::PreferCeil => (exact + 0.5).floor(),
                };
                (rounded as i64).clamp(0, from as i64 - 1)
            };
            let places: Vec<i64> = (0..scaled.size).map(place).collect();
            let places = at.constant(Array::vector(&places)?);
            result = at.apply(Op::Gather { axis: axis as u8 }, &[result, places])?;
        }
        Ok(result)
    }
}

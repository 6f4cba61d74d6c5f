//! Which elements of the input make an element of the output, along one axis.

use millstream_core::{
    CoordinateMode, NearestRounding, Operand, RawBuffer, ResizeMode, ResizeParams,
};

use crate::kernels::shared::fault::Result;
use crate::kernels::shared::scratch::{collected, reserve};

/// One axis with its sizes.
#[derive(Clone, Copy)]
pub(super) struct Scaled {
    coordinates: CoordinateMode,
    from: usize,
    to: usize,
    scale: f64,
    region: (f32, f32),
}

/// Elements of the input and their weights, for each element of the output.
pub(super) struct Taps {
    /// Where the taps of each output begin in the list, and the end of the list.
    starts: Vec<usize>,
    list: Vec<(usize, f64)>,
    outside: Vec<bool>,
}

impl Taps {
    /// The taps of one output; none outside the input.
    pub fn at(&self, output: usize) -> Option<&[(usize, f64)]> {
        let taps = &self.list[self.starts[output]..self.starts[output + 1]];
        (!self.outside[output]).then_some(taps)
    }
}

impl Scaled {
    /// Every axis of a command.
    pub fn all(
        params: &ResizeParams,
        dst: &Operand<RawBuffer>,
        src: &Operand<RawBuffer>,
    ) -> Vec<Self> {
        let axis = |axis: usize| Scaled {
            coordinates: params.coordinates,
            from: src.layout.shape()[axis],
            to: dst.layout.shape()[axis],
            scale: params.scales[axis],
            region: params.region[axis],
        };
        (0..dst.layout.rank()).map(axis).collect()
    }

    /// Whether each element of the output is the element of the input at its own place.
    pub fn is_kept(&self) -> bool {
        let crops = self.coordinates == CoordinateMode::CropAndResize;
        let whole = if crops { self.region == (0.0, 1.0) } else { self.scale == 1.0 };
        self.from == self.to && whole
    }

    /// The coordinate in the input, computed in `f32`.
    fn coordinate(&self, x: usize) -> f64 {
        let (x, from, to) = (x as f32, self.from as f32, self.to as f32);
        let scale = self.scale as f32;
        let half_pixel = (x + 0.5) / scale - 0.5;
        f64::from(match self.coordinates {
            CoordinateMode::HalfPixel => half_pixel,
            CoordinateMode::HalfPixelSymmetric => {
                let adjustment = to / (scale * from);
                from / 2.0 * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
            }
            CoordinateMode::PytorchHalfPixel if self.to > 1 => half_pixel,
            CoordinateMode::AlignCorners if self.to > 1 => x * (from - 1.0) / (to - 1.0),
            CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners => 0.0,
            CoordinateMode::AlignCornersByScale => {
                let last = from * scale - 1.0;
                if last > 0.0 { x * (from - 1.0) / last } else { 0.0 }
            }
            CoordinateMode::Asymmetric => x / scale,
            CoordinateMode::CropAndResize => {
                let (start, end) = self.region;
                if self.to > 1 {
                    start * (from - 1.0) + x * (end - start) * (from - 1.0) / (to - 1.0)
                } else {
                    0.5 * (start + end) * (from - 1.0)
                }
            }
        })
    }

    /// Whether a coordinate lies outside what a crop can show.
    fn is_outside(&self, coordinate: f64) -> bool {
        let last = self.from as f64 - 1.0;
        self.coordinates == CoordinateMode::CropAndResize && !(0.0..=last).contains(&coordinate)
    }

    /// The nearest element for each output; none outside the input.
    pub fn nearest(&self, rounding: NearestRounding) -> Result<Vec<Option<usize>>> {
        let nearest = |x: usize| {
            if self.is_kept() {
                return Some(x);
            }
            let at = self.coordinate(x);
            let place = match rounding {
                NearestRounding::PreferFloor => (at - 0.5).ceil(),
                NearestRounding::PreferCeil => (at + 0.5).floor(),
                NearestRounding::Floor => at.floor(),
                NearestRounding::Ceil => at.ceil(),
            };
            // Negative numbers become 0.
            (!self.is_outside(at)).then(|| (place as usize).min(self.from - 1))
        };
        collected((0..self.to).map(nearest))
    }

    /// The elements that are interpolated between.
    pub fn taps(&self, params: &ResizeParams) -> Result<Taps> {
        let mut taps = Taps { starts: Vec::new(), list: Vec::new(), outside: Vec::new() };
        reserve(&mut taps.starts, self.to.saturating_add(1))?;
        reserve(&mut taps.outside, self.to)?;
        taps.starts.push(0);
        let is_linear =
            params.mode == ResizeMode::Linear && !params.antialias && !params.exclude_outside;
        // When shrinking, the filter is as wide as in the output.
        let narrow = if params.antialias { self.scale.min(1.0) } else { 1.0 };
        let (reach, coefficient) = match params.mode {
            ResizeMode::Cubic(coefficient) => (2.0, f64::from(coefficient)),
            _ => (1.0, 0.0),
        };
        let weight = |distance: f64| match params.mode {
            ResizeMode::Cubic(_) => cubic(distance, coefficient),
            _ => (1.0 - distance).max(0.0),
        };
        // As many as the filter reaches, but no more than there are, and one beyond each edge.
        let most =
            ((2.0 * reach / narrow) as usize).saturating_add(3).min(self.from.saturating_add(2));
        reserve(&mut taps.list, self.to.saturating_mul(if self.is_kept() { 1 } else { most }))?;
        for x in 0..self.to {
            let at = self.coordinate(x);
            let outside = self.is_outside(at);
            taps.outside.push(outside);
            if self.is_kept() {
                taps.list.push((x, 1.0));
            } else if !outside && is_linear && at >= self.from as f64 - 1.0 {
                // The element at the end stands for both neighbors.
                taps.list.extend([(self.from - 1, 0.5); 2]);
            } else if !outside {
                let first = taps.list.len();
                self.add(&mut taps.list, at, reach / narrow, params.exclude_outside, |distance| {
                    weight(distance * narrow)
                });
                let own = &mut taps.list[first..];
                let sum: f64 = own.iter().map(|tap| tap.1).sum();
                if params.antialias || params.exclude_outside {
                    own.iter_mut().for_each(|tap| tap.1 /= sum);
                }
            }
            taps.starts.push(taps.list.len());
        }
        Ok(taps)
    }

    /// Adds the elements within reach of a coordinate. What lies outside is left out or is the edge.
    fn add(
        &self,
        list: &mut Vec<(usize, f64)>,
        at: f64,
        reach: f64,
        exclude_outside: bool,
        weight: impl Fn(f64) -> f64,
    ) {
        let last = self.from as i64 - 1;
        let first = list.len();
        for place in (at - reach).floor() as i64..=(at + reach).ceil() as i64 {
            let weight = weight((place as f64 - at).abs());
            let inside = (0..=last).contains(&place);
            if weight == 0.0 || (exclude_outside && !inside) {
                continue;
            }
            let place = place.clamp(0, last) as usize;
            match list[first..].last_mut() {
                // Everything outside is the edge element.
                Some(tap) if tap.0 == place => tap.1 += weight,
                _ => list.push((place, weight)),
            }
        }
        // Far outside there is only the edge.
        if list[first..].iter().map(|tap| tap.1).sum::<f64>() == 0.0 {
            list.truncate(first);
            list.push(((at.max(0.0) as usize).min(last as usize), 1.0));
        }
    }
}

/// The weight at a distance, with a coefficient that sets how far it swings below zero.
fn cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

//! Recipes of norms, padding, pooling and resizing.

use millstream_core::{
    CoordinateMode, MAX_RANK, NearestRounding, Op, PadMode, PadParams, PoolKind, PoolOrder,
    PoolParams, ResizeMode, ResizeParams, Scalar,
};

use super::recipe::{Recipe, pick};
use crate::cases::{FLOATS, NUMBERS, TYPES};
use crate::{Case, Generator, ops};

impl Recipe {
    pub(super) fn norm(mut self) -> Case {
        self.need_rank(2);
        let dtype = pick(&FLOATS, self.dtype);
        let (weight, bias) = (self.flag(0), self.flag(1));
        let rank = self.shape.len();
        let (op, tail, parameters) = if self.flag(2) {
            let axes = 1 + usize::from(self.op) % rank;
            let op = Op::RmsNorm { axes: axes as u8, epsilon: 1e-5, weight };
            (op, self.shape[rank - axes..].to_vec(), usize::from(weight))
        } else {
            let channels = self.shape[1];
            let divides = |groups: &usize| channels.is_multiple_of(*groups);
            let groups = [3, 2, 1].into_iter().find(divides).expect("1 divides every number");
            let op = Op::GroupNorm { groups: groups as u32, epsilon: 1e-5, weight, bias };
            (op, vec![channels], usize::from(weight) + usize::from(bias))
        };
        let layout = self.arrangements[1].layout(dtype, &self.shape);
        let mut case = self.begin(op, dtype);
        case = case.input(layout, &self.plain(1, &layout, (-2.0, 3.0)));
        for input in 2..2 + parameters {
            let layout = self.arrangements[input].layout(dtype, &tail);
            case = case.input(layout, &self.plain(input, &layout, (-1.5, 1.5)));
        }
        self.finish(case)
    }

    pub(super) fn pad(self) -> Case {
        let dtype = pick(&TYPES, self.dtype);
        let modes =
            [PadMode::Edge, PadMode::Reflect, PadMode::Wrap, PadMode::Constant(Scalar::Int(1))];
        let mut params =
            PadParams { mode: pick(&modes, self.op), before: [0; MAX_RANK], after: [0; MAX_RANK] };
        let mut generator = Generator::new(self.seed);
        let mut changed = 0;
        for (axis, &size) in self.shape.iter().enumerate() {
            // A few axes are enough, and something is left of each.
            if size == 0 || changed == 3 || !self.flag(axis as u8) {
                continue;
            }
            changed += 1;
            let before = generator.below(4) as i64 - 1;
            let before = before.max(1 - size as i64);
            let left = size as i64 + before.min(0);
            let after = (generator.below(4) as i64 - 1).max(1 - left);
            (params.before[axis], params.after[axis]) = (before, after);
        }
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let case = self.begin(ops::pad(params), dtype);
        self.finish(case.input(source, &self.values(1, &source, (-9.0, 9.0))))
    }

    pub(super) fn window(self) -> Case {
        if self.flag(0) { self.pool() } else { self.resize() }
    }

    fn pool(mut self) -> Case {
        self.need_rank(3);
        self.shape.truncate(5);
        let spatial = self.shape.len() - 2;
        let average = PoolKind::Average { include_padding: self.flag(1) };
        let kind = if self.flag(2) { PoolKind::Max } else { average };
        let indices = kind == PoolKind::Max && self.flag(1);
        let dtype = pick(&FLOATS, self.dtype);
        let mut generator = Generator::new(self.seed);
        let orders = [PoolOrder::Channel, PoolOrder::Whole, PoolOrder::WholeByColumns];
        let mut params = PoolParams {
            kind,
            spatial: spatial as u8,
            kernel: [1; 3],
            stride: [1; 3],
            pad_before: [0; 3],
            pad_after: [0; 3],
            dilation: [1; 3],
            ceil: self.flag(3),
            indices,
            order: pick(&orders, self.choice >> 4),
        };
        for axis in 0..spatial {
            self.shape[axis + 2] = self.shape[axis + 2].max(1);
            let size = self.shape[axis + 2];
            let kernel = 1 + generator.below(size.min(4));
            let padding = [0; 2].map(|_| generator.below(kernel.min(2)));
            let stride = 1 + generator.below(3);
            params.kernel[axis] = kernel as u32;
            params.stride[axis] = stride as u32;
            params.pad_before[axis] = padding[0] as u32;
            params.pad_after[axis] = padding[1] as u32;
        }
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let case = self.begin(ops::pool(params), dtype);
        self.finish(case.input(source, &self.plain(1, &source, (-4.0, 4.0))))
    }

    fn resize(mut self) -> Case {
        self.need_rank(1);
        let modes = [
            ResizeMode::Linear,
            ResizeMode::Nearest(NearestRounding::PreferCeil),
            ResizeMode::Cubic(-0.75),
            ResizeMode::Nearest(NearestRounding::Floor),
        ];
        let coordinates = [
            CoordinateMode::HalfPixel,
            CoordinateMode::AlignCorners,
            CoordinateMode::AlignCornersByScale,
            CoordinateMode::Asymmetric,
            CoordinateMode::CropAndResize,
        ];
        let mut params = ResizeParams {
            mode: pick(&modes, self.op),
            coordinates: pick(&coordinates, self.choice >> 4),
            scales: [1.0; MAX_RANK],
            region: [(0.0, 1.0); MAX_RANK],
            extrapolation: 1.5,
            exclude_outside: self.flag(1),
            antialias: self.flag(2),
            sizes: [1; MAX_RANK],
        };
        let mut generator = Generator::new(self.seed);
        params.sizes[..self.shape.len()].copy_from_slice(&self.shape);
        // Two axes at most, wherever they are.
        for axis in [self.inner % self.shape.len(), self.shape.len() - 1] {
            self.shape[axis] = self.shape[axis].max(1);
            params.sizes[axis] = 1 + generator.below(5);
            params.scales[axis] = params.sizes[axis] as f64 / self.shape[axis] as f64;
            params.region[axis] = (0.25, 1.125);
        }
        let dtype = pick(&NUMBERS, self.dtype);
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let case = self.begin(ops::resize(params), dtype);
        self.finish(case.input(source, &self.plain(1, &source, (-4.0, 4.0))))
    }
}

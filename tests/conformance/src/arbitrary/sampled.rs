//! Recipes of operations that sample, sort out and select, and of types that are only stored.

use millstream_core::{
    ConvParams, DType, DeformConvParams, GridMode, GridPadding, Layout, MAX_RANK, Op,
};

use super::recipe::{Recipe, pick};
use crate::cases::FLOATS;
use crate::{Case, Generator, Value, ops, small};

const SAMPLED: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

impl Recipe {
    pub(super) fn sampled(self) -> Case {
        match self.op % 5 {
            0 => self.unique(),
            1 => self.suppress(),
            2 => self.grid_sample(),
            3 => self.deform_conv(),
            _ => self.packed(),
        }
    }

    fn unique(self) -> Case {
        let dtype = pick(&DType::COMPUTED, self.dtype);
        let rank = self.shape.len();
        // An axis that has elements has rows, and rows of nothing are all alike.
        let axis = self.inner.checked_rem(rank).filter(|_| self.flag(0));
        let op = Op::Unique { axis: axis.map(|axis| axis as u8), sorted: self.flag(1) };
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let mut generator = Generator::new(self.seed);
        let number = |_| match (dtype.is_float(), generator.below(3)) {
            (true, few) => Value::Float(few as f64 - 1.0),
            (false, few) => Value::Int(few as i128 % 2),
        };
        let values: Vec<Value> = (0..source.elements()).map(number).collect();
        self.finish(self.begin(op, dtype).input(source, &values))
    }

    fn suppress(mut self) -> Case {
        self.need_rank(3);
        let [batch, classes, boxes] = [self.shape[0], self.shape[1], self.shape[2]];
        let score = self.flag(0).then_some(0.3);
        let most = if self.flag(1) { usize::MAX } else { self.inner };
        let overlap = if self.flag(2) { 0.5 } else { 0.1 };
        let op = Op::NonMaxSuppression { most, overlap, score, centered: self.flag(3) };
        let mut generator = Generator::new(self.seed);
        // Of a coarse grid, so that many overlap and many scores are the same.
        let mut numbers = |count: usize, of: usize, step: f32| -> Vec<Value> {
            let number = |place: usize| Value::Float(f64::from(place as f32 * step));
            (0..count).map(|_| number(generator.below(of))).collect()
        };
        let corners = self.arrangements[1].layout(DType::F32, &[batch, boxes, 4]);
        let scores = self.arrangements[3].layout(DType::F32, &[batch, classes, boxes]);
        let [places, values] = [(corners.elements(), 9, 0.25), (scores.elements(), 8, 0.125)]
            .map(|(count, of, step)| numbers(count, of, step));
        self.finish(self.begin(op, DType::F32).input(corners, &places).input(scores, &values))
    }

    /// Places within, around the edges, far outside, and nowhere.
    fn places(&self, layout: &Layout, reach: f64) -> Vec<Value> {
        let mut values = self.plain(2, layout, (-reach, reach));
        let special = [0.0, 1.0, -1.0, 0.5, 1e4, f64::INFINITY, f64::NAN];
        let mut generator = Generator::new(self.seed ^ 0x61d5);
        for value in &mut values {
            if generator.below(8) == 0 {
                *value = Value::Float(special[generator.below(special.len())]);
            }
        }
        values
    }

    fn grid_sample(mut self) -> Case {
        self.need_rank(4);
        self.shape.truncate(4 + usize::from(self.flag(0)));
        let dtype = pick(&SAMPLED, self.dtype);
        let modes = [GridMode::Nearest, GridMode::Linear, GridMode::Cubic];
        let paddings = [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection];
        let (mode, padding) = (pick(&modes, self.choice >> 2), pick(&paddings, self.choice >> 4));
        let op = Op::GridSample { mode, padding, align_corners: self.flag(1) };
        let axes = self.shape.len() - 2;
        self.shape[2..].iter_mut().for_each(|size| *size = (*size).max(1));
        let mut grid = vec![self.shape[0]];
        grid.extend((0..axes).map(|axis| (self.inner + axis) % 4));
        grid.push(axes);
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let grid = self.arrangements[3].layout(dtype, &grid);
        let case = self.begin(op, dtype).input(source, &self.plain(1, &source, (-4.0, 4.0)));
        self.finish(case.input(grid, &self.places(&grid, 1.4)))
    }

    fn deform_conv(mut self) -> Case {
        self.need_rank(4);
        self.shape.truncate(4);
        self.shape.iter_mut().for_each(|size| *size = (*size).min(6));
        let dtype = pick(&SAMPLED, self.dtype);
        let mut generator = Generator::new(self.seed ^ 0x77);
        let [groups, offset_groups] = [0; 2].map(|_| 1 + generator.below(3));
        let channels = groups * offset_groups * generator.below(3);
        let (outputs, taps) = (groups * generator.below(3), [0; 2].map(|_| 1 + generator.below(3)));
        self.shape[1] = channels;
        let mut conv = ConvParams { groups: groups as u32, ..ConvParams::new(2) };
        for (axis, &taps) in taps.iter().enumerate() {
            conv.stride[axis] = 1 + generator.below(3) as u32;
            conv.dilation[axis] = 1 + generator.below(2) as u32;
            // Enough for one window, whatever the input.
            conv.pad_before[axis] = generator.below(2) as u32;
            conv.pad_after[axis] = (taps as u32 - 1) * conv.dilation[axis] + 1;
        }
        let (bias, mask) = (self.flag(0), self.flag(1));
        let params = DeformConvParams { conv, offset_groups: offset_groups as u32, bias, mask };
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let weight = [outputs, channels / groups, taps[0], taps[1]];
        let weight = self.arrangements[2].layout(dtype, &weight);
        let plain = ops::conv(false, conv, Default::default());
        let made = plain.infer(&[&source, &weight]).expect("a valid convolution")[0];
        let out = made.shape();
        let moved = offset_groups * taps[0] * taps[1];
        let of = |channels: usize| [out[0], channels, out[2], out[3]];
        let offset = self.arrangements[3].layout(dtype, &of(2 * moved));
        let mut case = self
            .begin(Op::DeformConv { params: Box::new(params) }, dtype)
            .input(source, &self.plain(1, &source, (-1.0, 1.0)))
            .input(weight, &self.plain(2, &weight, (-1.0, 1.0)))
            .input(offset, &self.places(&offset, 2.5));
        if bias {
            let layout = self.arrangements[4].layout(dtype, &[outputs]);
            case = case.input(layout, &self.plain(4, &layout, (-1.0, 1.0)));
        }
        if mask {
            let layout = self.arrangements[4].layout(dtype, &of(moved));
            case = case.input(layout, &self.plain(5, &layout, (-1.0, 1.0)));
        }
        self.finish(case)
    }

    /// To and from numbers of 4 bits, which lie densely.
    fn packed(mut self) -> Case {
        self.shape.truncate(MAX_RANK - 1);
        let stored = pick(&[DType::I4, DType::U4, DType::F4E2M1], self.dtype);
        let float = pick(&FLOATS, self.choice >> 2);
        let scale = pick(&SAMPLED, self.choice >> 4);
        let axis = self.inner.checked_rem(self.shape.len()).filter(|_| self.flag(0));
        let mut each: Vec<usize> = axis.iter().map(|&axis| self.shape[axis]).collect();
        let block = axis.filter(|_| self.flag(1)).map(|axis| {
            let block = 1 + self.inner % 5;
            each = self.shape.clone();
            each[axis] = self.shape[axis].div_ceil(block);
            block as u32
        });
        let (zero, back) = (self.flag(6), self.flag(7));
        let mut generator = Generator::new(self.seed ^ 0x4b17);
        let mut dense = |shape: &[usize]| {
            let layout = Layout::contiguous(stored, shape).expect("a small shape");
            let code = |_| small::value(stored, generator.below(16) as u8);
            (layout, (0..layout.elements()).map(code).collect::<Vec<Value>>())
        };
        let (to, (input, values)) = if back {
            (float, dense(&self.shape))
        } else {
            let layout = self.arrangements[1].layout(float, &self.shape);
            (stored, (layout, self.plain(1, &layout, (-6.0, 9.0))))
        };
        let scales = self.arrangements[3].layout(scale, &each);
        let mut case = self
            .begin(ops::quantize(axis, to, zero, block), stored)
            .input(input, &values)
            .input(scales, &self.plain(3, &scales, (0.25, 1.0)));
        if zero {
            let (layout, zeros) = dense(&each);
            case = case.input(layout, &zeros);
        }
        if back { self.finish(case) } else { case.outputs(&[crate::View::Dense]).build() }
    }
}

//! Recipes of operations that choose elements by value or by index.

use millstream_core::{DType, Op, Scalar, ScatterReduction};

use super::recipe::{Recipe, pick};
use crate::cases::{NUMBERS, TYPES};
use crate::chains::random;
use crate::{Case, Generator, Value, ops};

impl Recipe {
    pub(super) fn select(self) -> Case {
        if self.flag(0) {
            let dtype = pick(&NUMBERS, self.dtype);
            let limit = |flag: u8, value: i64| self.flag(flag).then_some(Scalar::Int(value));
            let op = Op::Clip { min: limit(1, -2), max: limit(2, 3) };
            let layout = self.arrangements[1].input(dtype, &self.shape);
            let values = self.values(1, &layout, (-5.0, 5.0));
            return self.start(op, dtype, &self.shape).input(layout, &values).build();
        }
        let dtype = pick(&TYPES, self.dtype);
        let mut case = self.start(Op::Where, dtype, &self.shape);
        for (input, dtype) in [(1, DType::Bool), (2, dtype), (3, dtype)] {
            let layout = self.arrangements[input].input(dtype, &self.shape);
            case = case.input(layout, &self.values(input, &layout, (-5.0, 5.0)));
        }
        case.build()
    }

    pub(super) fn chain(self) -> Case {
        let first = pick(&TYPES, self.dtype);
        let types = [first, first, pick(&TYPES, self.op), DType::Bool, first, DType::F32];
        let mut generator = Generator::new(self.seed ^ 0xc4a1);
        let (chain, read) = random(&mut generator, &types, 1 + self.inner % 16);
        let mut case = self.start(Op::Chain { chain: chain.clone() }, chain.dtype(), &self.shape);
        for (place, &dtype) in read.iter().zip(chain.inputs()) {
            let layout = self.arrangements[1 + place % 4].input(dtype, &self.shape);
            case = case.input(layout, &self.values(*place, &layout, (-5.0, 5.0)));
        }
        case.build()
    }

    pub(super) fn cumsum(mut self) -> Case {
        self.need_rank(1);
        let dtype = pick(&NUMBERS, self.dtype);
        let axis = usize::from(self.op) % self.shape.len();
        let (exclusive, reverse) = (self.flag(0), self.flag(1));
        let product = self.flag(3);
        let op = Op::CumSum { axis: axis as u8, exclusive, reverse, product };
        let place = usize::from(!self.flag(2));
        let layout = self.arrangements[place].layout(dtype, &self.shape);
        let range = if product { (0.7, 1.4) } else { (-4.0, 4.0) };
        let values = self.plain(1, &layout, range);
        if place == 0 {
            self.start(op, dtype, &self.shape).in_place(&values).build()
        } else {
            self.finish(self.begin(op, dtype).input(layout, &values))
        }
    }

    /// Indices for an axis, which has at least one element.
    fn indices(&self, count: usize, size: usize) -> Vec<Value> {
        let mut generator = Generator::new(self.seed ^ 0x5bd1);
        (0..count).map(|_| Value::Int(generator.below(2 * size) as i128 - size as i128)).collect()
    }

    fn index_type(&self) -> DType {
        if self.flag(7) { DType::I32 } else { DType::I64 }
    }

    pub(super) fn gather(mut self) -> Case {
        self.need_rank(1);
        let dtype = pick(&TYPES, self.dtype);
        let axis = usize::from(self.op) % self.shape.len();
        self.shape[axis] = self.shape[axis].max(1);
        let count = self.inner % 6;
        let (op, by) = if self.flag(0) {
            let mut by = self.shape.clone();
            by[axis] = count;
            (Op::GatherElements { axis: axis as u8 }, by)
        } else {
            // The output has at most eight axes.
            let by = if self.shape.len() == 8 { vec![count] } else { vec![count, 2] };
            (Op::Gather { axis: axis as u8 }, by)
        };
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let indices = self.arrangements[2].layout(self.index_type(), &by);
        let places = self.indices(indices.elements(), self.shape[axis]);
        let case = self.begin(op, dtype);
        let case = case.input(source, &self.values(1, &source, (-9.0, 9.0)));
        self.finish(case.input(indices, &places))
    }

    /// A part of an axis that is replaced, in place or not.
    fn cache_write(mut self) -> Case {
        let dtype = pick(&TYPES, self.dtype);
        let axis = 1 + usize::from(self.op) % (self.shape.len() - 1);
        self.shape[axis] = self.shape[axis].max(1);
        let circular = self.flag(0);
        let op = Op::CacheWrite { axis: axis as u8, circular, positions: true };
        let mut part = self.shape.clone();
        part[axis] = self.inner % (self.shape[axis] + 1);
        let update = self.arrangements[2].layout(dtype, &part);
        let positions = self.arrangements[3].layout(self.index_type(), &self.shape[..1]);
        let mut generator = Generator::new(self.seed ^ 0x2f0b);
        let room = if circular { 4 * self.shape[axis] } else { self.shape[axis] - part[axis] + 1 };
        let places: Vec<_> =
            (0..self.shape[0]).map(|_| Value::Int(generator.below(room) as i128)).collect();
        let case = if self.flag(1) {
            let layout = self.arrangements[0].layout(dtype, &self.shape);
            let values = self.values(1, &layout, (-3.0, 3.0));
            self.start(op, dtype, &self.shape).in_place(&values)
        } else {
            let layout = self.arrangements[1].layout(dtype, &self.shape);
            self.begin(op, dtype).input(layout, &self.values(1, &layout, (-3.0, 3.0)))
        };
        let case = case.input(update, &self.values(2, &update, (-3.0, 3.0)));
        let case = case.input(positions, &places);
        if self.flag(1) { case.build() } else { self.finish(case) }
    }

    pub(super) fn reverse(self) -> Case {
        let dtype = pick(&TYPES, self.dtype);
        let rank = self.shape.len();
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let values = self.values(1, &source, (-9.0, 9.0));
        if self.flag(0) && rank > 1 {
            let axis = usize::from(self.op) % rank;
            let batch = (axis + 1 + self.inner % (rank - 1)) % rank;
            let lengths =
                self.arrangements[2].layout(self.index_type(), &self.shape[batch..=batch]);
            let mut generator = Generator::new(self.seed ^ 0x5bd1);
            let length = |_| Value::Int(generator.below(self.shape[axis] + 1) as i128);
            let count: Vec<Value> = (0..self.shape[batch]).map(length).collect();
            let case = self.begin(ops::reverse(&[axis], Some(batch)), dtype);
            return self.finish(case.input(source, &values).input(lengths, &count));
        }
        let axes: Vec<usize> = (0..rank).filter(|&axis| self.op >> axis & 1 == 1).collect();
        self.finish(self.begin(ops::reverse(&axes, None), dtype).input(source, &values))
    }

    pub(super) fn scatter(mut self) -> Case {
        if self.flag(5) && self.shape.len() >= 2 {
            return self.cache_write();
        }
        self.need_rank(1);
        let dtype = pick(&TYPES, self.dtype);
        let axis = usize::from(self.op) % self.shape.len();
        self.shape[axis] = self.shape[axis].max(1);
        let mut reduction = pick(&ScatterReduction::ALL, self.choice);
        if !reduction.takes(dtype) {
            reduction = ScatterReduction::Replace;
        }
        let count = self.inner % 6;
        let (op, by, updates) = if self.flag(6) {
            let mut by = self.shape.clone();
            by[axis] = count;
            (Op::ScatterElements { axis: axis as u8, reduction }, by.clone(), by)
        } else {
            self.shape[0] = self.shape[0].max(1);
            (Op::ScatterNd { reduction }, vec![count, 1], [&[count], &self.shape[1..]].concat())
        };
        let size = if self.flag(6) { self.shape[axis] } else { self.shape[0] };
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let indices = self.arrangements[2].layout(self.index_type(), &by);
        let updates = self.arrangements[3].layout(dtype, &updates);
        let case = self
            .begin(op, dtype)
            .input(source, &self.values(1, &source, (-3.0, 3.0)))
            .input(indices, &self.indices(indices.elements(), size))
            .input(updates, &self.values(3, &updates, (-3.0, 3.0)));
        self.finish(case)
    }

    pub(super) fn compact(self) -> Case {
        let dtype = pick(&DType::COMPUTED, self.dtype);
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let values = self.values(1, &source, (-1.0, 1.0));
        if self.flag(0) {
            return self.finish(self.begin(Op::NonZero, dtype).input(source, &values));
        }
        let axis = usize::from(self.op).checked_rem(self.shape.len()).filter(|_| self.flag(1));
        let size = axis.map_or(source.elements(), |axis| self.shape[axis]);
        let condition = self.arrangements[3].layout(DType::Bool, &[self.inner.min(size)]);
        let flags = self.plain(3, &condition, (0.0, 1.0));
        let op = Op::Compress { axis: axis.map(|axis| axis as u8) };
        self.finish(self.begin(op, dtype).input(source, &values).input(condition, &flags))
    }

    pub(super) fn top_k(mut self) -> Case {
        self.need_rank(1);
        let dtype = pick(&NUMBERS, self.dtype);
        let axis = usize::from(self.op) % self.shape.len();
        let k = self.inner % (self.shape[axis] + 1);
        let (largest, sorted) = (self.flag(0), self.flag(1));
        let op = Op::TopK { axis: axis as u8, k, largest, sorted };
        let source = self.arrangements[1].layout(dtype, &self.shape);
        let case = self.begin(op, dtype);
        self.finish(case.input(source, &self.values(1, &source, (-4.0, 4.0))))
    }
}

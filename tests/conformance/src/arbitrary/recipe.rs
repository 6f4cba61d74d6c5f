//! From a handful of numbers to a valid case.

use millstream_core::{BinaryOp, DType, Distribution, Layout, Op, ReduceOp, Scalar};

use crate::cases::matmul::ACTIVATIONS;
use crate::cases::{FLOATS, TYPES, UNARY_OPS, domain};
use crate::generator::special_values;
use crate::value::encode_all;
use crate::{Case, CaseBuilder, Generator, Value, layout, ops};

/// Elements of an output at most, so that a run of many cases stays quick.
const MAX_ELEMENTS: usize = 1500;

/// How an operand lies in memory.
#[derive(Clone, Debug)]
pub(super) struct Arrangement {
    /// Sorting axes by these gives their order in memory.
    pub order: Vec<u8>,
    pub steps: Vec<usize>,
    pub offset: usize,
    /// Axes that are broadcast, for an input that may be.
    pub ones: u8,
    /// Leading axes that are left out, for an input that may be broadcast.
    pub dropped: usize,
}

impl Arrangement {
    pub(super) fn layout(&self, dtype: DType, shape: &[usize]) -> Layout {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| self.order[axis]);
        let mut room = 1;
        let steps: Vec<usize> = (0..shape.len())
            .map(|axis| {
                // A step on every axis would take memory without showing anything new.
                let step = if room > 4 { 1 } else { self.steps[axis] };
                room *= step;
                step
            })
            .collect();
        layout(dtype, shape, &order, &steps, self.offset)
    }

    /// A layout that broadcasts to the shape.
    pub(super) fn input(&self, dtype: DType, shape: &[usize]) -> Layout {
        let size =
            |(axis, &size): (usize, &usize)| if self.ones >> axis & 1 == 1 { 1 } else { size };
        let small: Vec<usize> = shape.iter().enumerate().map(size).collect();
        self.layout(dtype, &small[self.dropped.min(small.len())..])
    }
}

/// Everything that an arbitrary case is made from. Each number is brought into range where it is
/// used, so that every recipe is valid and shrinking never leaves the valid ones.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub kind: u8,
    pub op: u8,
    pub dtype: u8,
    pub choice: u8,
    pub shape: Vec<usize>,
    pub arrangements: Vec<Arrangement>,
    pub inner: usize,
    pub seed: u64,
}

pub(super) fn pick<T: Copy>(list: &[T], index: u8) -> T {
    list[usize::from(index) % list.len()]
}

impl Recipe {
    pub fn case(mut self) -> Case {
        while self.shape.iter().product::<usize>() > MAX_ELEMENTS {
            let largest = self.shape.iter_mut().max().expect("a product above 1 has a factor");
            *largest /= 2;
        }
        match self.kind % 23 {
            0 => self.fill(),
            1 => self.copy(),
            2 | 3 => self.unary(),
            4 | 5 => self.binary(),
            6 => self.reduce(),
            7 => self.softmax(),
            8 => self.layer_norm(),
            9 | 10 => self.matmul(),
            11 => self.select(),
            12 => self.cumsum(),
            13 => self.norm(),
            14 => self.gather(),
            15 => self.scatter(),
            16 if self.flag(7) => self.compact(),
            16 => self.top_k(),
            17 => self.pad(),
            18 => self.window(),
            19 => self.chain(),
            20 | 21 => self.sampled(),
            _ if self.flag(6) => self.reverse(),
            _ => self.transfer(),
        }
    }

    /// A case without operands, named after one of its types.
    pub(super) fn begin(&self, op: Op, dtype: DType) -> CaseBuilder {
        CaseBuilder::new(format!("arbitrary/{}/{dtype}", op.kind().name()), op)
    }

    /// The case, with the outputs that its inputs make.
    pub(super) fn finish(&self, case: CaseBuilder) -> Case {
        let arrangements = [0, 2, 3, 4].map(|place| &self.arrangements[place]);
        let layout = |place: usize, dtype, shape: &[usize]| {
            arrangements[place % arrangements.len()].layout(dtype, shape)
        };
        case.outputs_by(layout).build()
    }

    /// A case with an output that inputs lie in, or broadcast to.
    pub(super) fn start(&self, op: Op, dtype: DType, shape: &[usize]) -> CaseBuilder {
        self.begin(op, dtype).output(self.arrangements[0].layout(dtype, shape))
    }

    pub(super) fn flag(&self, bit: u8) -> bool {
        self.choice >> bit & 1 == 1
    }

    /// Values of a range, with a special one here and there.
    pub(super) fn values(
        &self,
        input: usize,
        layout: &Layout,
        (low, high): (f64, f64),
    ) -> Vec<Value> {
        let mut generator = Generator::new(self.seed.wrapping_add(input as u64));
        let special = special_values(layout.dtype());
        let mut values = generator.elements(layout.dtype(), layout.elements(), low, high);
        for value in &mut values {
            if generator.below(16) == 0 {
                *value = special[generator.below(special.len())];
            }
        }
        values
    }

    /// Values of a range only, for operations that mix many elements.
    pub(super) fn plain(
        &self,
        input: usize,
        layout: &Layout,
        (low, high): (f64, f64),
    ) -> Vec<Value> {
        let mut generator = Generator::new(self.seed.wrapping_add(input as u64));
        generator.elements(layout.dtype(), layout.elements(), low, high)
    }

    fn fill(self) -> Case {
        let dtype = pick(&TYPES, self.dtype);
        let value = Scalar::Int(i64::from(self.choice) % 2);
        if self.flag(1) && !self.shape.is_empty() && dtype != DType::Bool {
            let (axis, step) = (usize::from(self.op) % self.shape.len(), Scalar::Float(0.7));
            return self
                .finish(self.begin(ops::iota(axis, value, step, dtype, &self.shape), dtype));
        }
        self.finish(self.begin(ops::fill(value, dtype, &self.shape), dtype))
    }

    fn copy(self) -> Case {
        let (from, to) = (pick(&TYPES, self.dtype), pick(&TYPES, self.op));
        let case = self.start(Op::Copy { dtype: to, saturate: true }, to, &self.shape);
        let input = self.arrangements[1].input(from, &self.shape);
        case.input(input, &self.values(1, &input, (-300.0, 300.0))).build()
    }

    fn unary(self) -> Case {
        let op = pick(UNARY_OPS, self.op);
        let legal: Vec<_> = TYPES.into_iter().filter(|&dtype| op.output(dtype).is_some()).collect();
        let input = pick(&legal, self.dtype);
        let output = op.output(input).expect("only legal types are left");
        let case = self.start(Op::Unary { op }, output, &self.shape);
        if self.flag(0) && input == output {
            let layout = self.arrangements[0].layout(input, &self.shape);
            return case.in_place(&self.values(1, &layout, domain(op))).build();
        }
        let layout = self.arrangements[1].input(input, &self.shape);
        case.input(layout, &self.values(1, &layout, domain(op))).build()
    }

    fn binary(self) -> Case {
        let op = pick(&BinaryOp::ALL, self.op);
        let legal: Vec<_> = TYPES.into_iter().filter(|&dtype| op.output(dtype).is_some()).collect();
        let input = pick(&legal, self.dtype);
        let output = op.output(input).expect("only legal types are left");
        let case = self.start(Op::Binary { op }, output, &self.shape);
        let range = (-5.0, 5.0);
        let b = self.arrangements[2].input(input, &self.shape);
        let b_values = self.values(2, &b, range);
        if self.flag(0) && input == output {
            let layout = self.arrangements[0].layout(input, &self.shape);
            let case = case.in_place(&self.values(1, &layout, range));
            return if self.flag(1) {
                case.again(0).build()
            } else {
                case.input(b, &b_values).build()
            };
        }
        let a = self.arrangements[1].input(input, &self.shape);
        case.input(a, &self.values(1, &a, range)).input(b, &b_values).build()
    }

    fn reduce(self) -> Case {
        let rank = self.shape.len();
        let mut axes: Vec<usize> = (0..rank).filter(|&axis| self.choice >> axis & 1 == 1).collect();
        // Whether a result is asked for that has no elements to combine.
        let nothing = |axes: &[usize]| {
            let mut kept = (0..rank).filter(|axis| !axes.contains(axis));
            self.shape.contains(&0) && kept.all(|axis| self.shape[axis] > 0)
        };
        let mut op = pick(&ReduceOp::ALL, self.op);
        if op.is_index() {
            axes.truncate(1);
        }
        if nothing(&axes) && !op.has_identity() || op.is_index() && axes.is_empty() {
            op = ReduceOp::Sum;
        }
        let legal: Vec<_> = TYPES.into_iter().filter(|&dtype| op.output(dtype).is_some()).collect();
        let input = pick(&legal, self.dtype);
        let source = self.arrangements[1].layout(input, &self.shape);
        let range = if op == ReduceOp::Prod { (0.7, 1.4) } else { (-4.0, 4.0) };
        let case = self.begin(ops::reduce(op, &axes), input);
        self.finish(case.input(source, &self.plain(1, &source, range)))
    }

    fn softmax(mut self) -> Case {
        self.need_rank(1);
        let dtype = pick(&FLOATS, self.dtype);
        let axis = usize::from(self.op) % self.shape.len();
        let op = Op::Softmax { axis: axis as u8, log: self.flag(0) };
        if self.flag(1) {
            let layout = self.arrangements[0].layout(dtype, &self.shape);
            let case = self.start(op, dtype, &self.shape);
            return case.in_place(&self.plain(1, &layout, (-9.0, 9.0))).build();
        }
        let layout = self.arrangements[1].layout(dtype, &self.shape);
        let case = self.begin(op, dtype);
        self.finish(case.input(layout, &self.plain(1, &layout, (-9.0, 9.0))))
    }

    fn layer_norm(mut self) -> Case {
        self.need_rank(1);
        let dtype = pick(&FLOATS, self.dtype);
        let axes = 1 + usize::from(self.op) % self.shape.len();
        let (weight, bias) = (self.flag(0), self.flag(1));
        let moments = self.flag(2);
        let op = Op::LayerNorm { axes: axes as u8, epsilon: 1e-5, weight, bias, moments };
        let layout = self.arrangements[1].layout(dtype, &self.shape);
        let mut case = self.begin(op, dtype);
        case = case.input(layout, &self.plain(1, &layout, (-2.0, 3.0)));
        for input in (2..4).filter(|&input| self.flag(input as u8 - 2)) {
            let tail = &self.shape[self.shape.len() - axes..];
            let layout = self.arrangements[input].layout(dtype, tail);
            case = case.input(layout, &self.plain(input, &layout, (-1.5, 1.5)));
        }
        self.finish(case)
    }

    fn matmul(mut self) -> Case {
        self.need_rank(2);
        let dtype = pick(&FLOATS, self.dtype);
        let lead = self.shape.len() - 2;
        let (m, n, k) = (self.shape[lead], self.shape[lead + 1], self.inner);
        let scale = if self.flag(2) { 0.5 } else { 1.0 };
        let activation = pick(&ACTIVATIONS, self.op);
        let op = ops::matmul(scale, self.flag(0), self.flag(1), activation);
        let mut case = self.start(op, dtype, &self.shape);
        for (input, matrix) in [(1, [m, k]), (2, [k, n])] {
            // Only the leading axes broadcast.
            let mut arrangement = self.arrangements[input].clone();
            arrangement.dropped = arrangement.dropped.min(lead);
            arrangement.ones &= ((1u16 << lead) - 1) as u8;
            let layout = arrangement.input(dtype, &[&self.shape[..lead], &matrix].concat());
            case = case.input(layout, &self.plain(input, &layout, (-1.0, 1.0)));
        }
        for input in (3..5).filter(|&input| self.flag(input as u8 - 3)) {
            let layout = self.arrangements[input].input(dtype, &self.shape);
            case = case.input(layout, &self.plain(input, &layout, (-2.0, 2.0)));
        }
        case.build()
    }

    fn transfer(self) -> Case {
        let dtype = pick(&TYPES, self.dtype);
        let layout = self.arrangements[1].layout(dtype, &self.shape);
        let values = self.values(1, &layout, (-9.0, 9.0));
        match self.op % 3 {
            0 => {
                let case = self.begin(ops::upload(dtype, &self.shape), dtype);
                self.finish(case.host(encode_all(dtype, &values)))
            }
            1 => self.begin(ops::download(&layout), dtype).input(layout, &values).build(),
            _ => {
                let distribution = if self.flag(0) {
                    Distribution::Uniform { low: -1.0, high: 2.0 }
                } else {
                    Distribution::Normal { mean: 1.0, deviation: 2.0 }
                };
                let dtype = pick(&FLOATS, self.dtype);
                let op = ops::random(distribution, (self.seed, 11), dtype, &self.shape);
                self.finish(self.begin(op, dtype))
            }
        }
    }

    pub(super) fn need_rank(&mut self, rank: usize) {
        while self.shape.len() < rank {
            self.shape.push(2);
        }
    }
}

//! Chains of elementwise operations.

use millstream_core::{BinaryOp, Chain, ChainStep, ChainTerm, DType, Op, Scalar, UnaryOp};

use super::elementwise::GEOMETRIES;
use super::{FLOATS, LARGE, NUMBERS, TYPES};
use crate::chains::random;
use crate::{Case, CaseBuilder, Generator, View};

const X: ChainTerm = ChainTerm::Input(0);
const Y: ChainTerm = ChainTerm::Input(1);

fn step(place: u8) -> ChainTerm {
    ChainTerm::Step(place)
}

fn op(inputs: &[DType], steps: &[ChainStep]) -> Op {
    Op::Chain { chain: Chain::new(inputs, steps).expect("a chain that fits") }
}

/// A case with inputs of these shapes and views.
fn case(name: String, op: Op, output: View, shape: &[usize], inputs: &[(&[usize], View)]) -> Case {
    let Op::Chain { chain } = &op else { panic!("{op:?} is no chain") };
    let chain = chain.clone();
    let mut generator = Generator::named(&name);
    let mut case = CaseBuilder::new(name, op).output(output.layout(chain.dtype(), shape));
    for (&dtype, (shape, view)) in chain.inputs().iter().zip(inputs) {
        let layout = view.layout(dtype, shape);
        case = case.input(layout, &generator.elements(dtype, layout.elements(), -5.0, 5.0));
    }
    case.build()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        // Each geometry for one type at least, and for f32 all of them.
        let every = if dtype == DType::F32 { 1 } else { 5 };
        for geometry in GEOMETRIES.iter().skip(dtype as usize % every).step_by(every) {
            let name = format!("chain/{dtype}/{}", geometry.name);
            let op = op(&[dtype; 2], &choice());
            cases.push(case(name, op, geometry.output, geometry.shape, &[geometry.a, geometry.b]));
        }
    }
    cases.extend(FLOATS.iter().map(|&dtype| functions(dtype)));
    cases.extend([1, 2, 3, 5, 8, 12, 16].iter().flat_map(|&steps| [lines(steps), wide(steps)]));
    cases.extend((0..24).map(drawn));
    cases.extend(in_place());
    cases.push(casts());
    cases.push(large());
    cases
}

/// Arithmetic, a comparison, a choice and limits.
fn choice() -> Vec<ChainStep> {
    vec![
        ChainStep::binary(BinaryOp::Add, X, Y),
        ChainStep::binary(BinaryOp::Less, step(0), Y),
        ChainStep::where_(step(1), X, step(0)),
        ChainStep::clip(Some(Scalar::Int(-3)), Some(Scalar::Int(4)), step(2)),
        ChainStep::binary(BinaryOp::Sub, step(3), step(0)),
    ]
}

/// Functions with parameters, each in its own step.
fn functions(dtype: DType) -> Case {
    let steps = [
        ChainStep::unary(UnaryOp::ThresholdedRelu { alpha: 1.0 }, X),
        ChainStep::clip(None, Some(Scalar::Float(2.5)), step(0)),
        ChainStep::binary(BinaryOp::Max, step(1), Y),
        ChainStep::unary(UnaryOp::ThresholdedRelu { alpha: 0.25 }, step(2)),
        ChainStep::binary(BinaryOp::Add, step(3), X),
        ChainStep::unary(UnaryOp::Selu { alpha: 1.5, gamma: 1.25 }, step(4)),
    ];
    let inputs: [(&[usize], View); 2] = [(&[6, 20], View::Dense), (&[20], View::Dense)];
    case(
        format!("chain/{dtype}/functions"),
        op(&[dtype; 2], &steps),
        View::Dense,
        &[6, 20],
        &inputs,
    )
}

/// One step after the other.
fn lines(steps: u8) -> Case {
    let before = |place: u8| if place == 0 { X } else { step(place - 1) };
    let one = |place: u8| match place % 4 {
        0 => ChainStep::binary(BinaryOp::Add, before(place), Y),
        1 => ChainStep::unary(UnaryOp::Relu, before(place)),
        2 => ChainStep::binary(BinaryOp::Sub, Y, before(place)),
        _ => ChainStep::clip(Some(Scalar::Float(-1.5)), None, before(place)),
    };
    let steps: Vec<ChainStep> = (0..steps).map(one).collect();
    let inputs: [(&[usize], View); 2] = [(&[7, 33], View::Dense), (&[7, 1], View::Dense)];
    let name = format!("chain/f32/line-{}", steps.len());
    case(name, op(&[DType::F32; 2], &steps), View::Dense, &[7, 33], &inputs)
}

/// As many inputs as there can be, each laid out in its own way.
fn wide(steps: u8) -> Case {
    let inputs = usize::from(steps).min(8);
    let one = |place: u8| {
        let input = ChainTerm::Input(place % inputs as u8);
        match place {
            0 => ChainStep::unary(UnaryOp::Neg, input),
            // Results long before are read again.
            place if place > 8 => {
                ChainStep::binary(BinaryOp::Max, step(place - 1), step(place - 7))
            }
            place => ChainStep::binary(BinaryOp::Sub, step(place - 1), input),
        }
    };
    let steps: Vec<ChainStep> = (0..steps).map(one).collect();
    let shapes: [(&[usize], View); 8] = [
        (&[4, 3, 8], View::Dense),
        (&[8], View::Dense),
        (&[4, 3, 8], View::Transposed),
        (&[4, 1, 1], View::Shifted),
        (&[], View::Dense),
        (&[3, 8], View::Mixed),
        (&[4, 3, 8], View::Stepped),
        (&[3, 1], View::Dense),
    ];
    let name = format!("chain/f16/wide-{}", steps.len());
    let op = op(&[DType::F16; 8][..inputs], &steps);
    case(name, op, View::Dense, &[4, 3, 8], &shapes[..inputs])
}

/// Steps that nobody thought of.
fn drawn(number: usize) -> Case {
    let name = format!("chain/drawn-{number}");
    let mut generator = Generator::named(&name);
    let first = TYPES[number % TYPES.len()];
    let other = TYPES[generator.below(TYPES.len())];
    let types = [first, DType::F32, first, DType::Bool, other];
    let (chain, read) = random(&mut generator, &types, 1 + number % 16);
    let shapes: [(&[usize], View); 5] = [
        (&[5, 24], View::Dense),
        (&[24], View::Dense),
        (&[5, 1], View::Dense),
        (&[5, 24], View::Stepped),
        (&[], View::Dense),
    ];
    let inputs: Vec<_> = read.iter().map(|&place| shapes[place]).collect();
    let output = if number.is_multiple_of(3) { View::Shifted } else { View::Dense };
    case(name, Op::Chain { chain }, output, &[5, 24], &inputs)
}

fn in_place() -> Vec<Case> {
    let mut generator = Generator::new(91);
    let values: [_; 2] = std::array::from_fn(|_| generator.elements(DType::F32, 63, -5.0, 5.0));
    let layout = View::Mixed.layout(DType::F32, &[9, 7]);
    let other = View::Dense.layout(DType::F32, &[9, 7]);
    let start = |name: &str| {
        let op = op(&[DType::F32; 2], &choice());
        CaseBuilder::new(format!("chain/f32/in-place-of-{name}"), op).output(layout)
    };
    vec![
        start("first").in_place(&values[0]).input(other, &values[1]).build(),
        start("second").input(other, &values[0]).in_place(&values[1]).build(),
        start("both").in_place(&values[0]).again(0).build(),
    ]
}

/// Through all types, with a sum in each.
fn casts() -> Case {
    let mut steps = Vec::new();
    let mut last = X;
    for dtype in [DType::F16, DType::I32, DType::BF16, DType::I8, DType::F64, DType::U8, DType::I64]
    {
        let at = steps.len() as u8;
        steps.push(ChainStep::cast(dtype, last));
        steps.push(ChainStep::binary(BinaryOp::Add, step(at), step(at)));
        last = step(at + 1);
    }
    steps.push(ChainStep::cast(DType::Bool, last));
    steps.push(ChainStep::where_(step(14), Y, X));
    let inputs: [(&[usize], View); 2] = [(&[3, 50], View::Dense), (&[50], View::Dense)];
    let op = op(&[DType::F32; 2], &steps);
    case("chain/f32/casts".into(), op, View::Dense, &[3, 50], &inputs)
}

/// Enough that a device splits the work, with a row that repeats.
fn large() -> Case {
    let shape: &[usize] = &[3, LARGE / 3];
    let inputs: [(&[usize], View); 2] = [(shape, View::Dense), (&shape[1..], View::Dense)];
    case("chain/f32/large".into(), op(&[DType::F32; 2], &choice()), View::Dense, shape, &inputs)
}

use super::super::tests::{f32s, operand, rejected};
use super::*;
use crate::command::BoundCommand;

const X: ChainTerm = ChainTerm::Input(0);
const Y: ChainTerm = ChainTerm::Input(1);
const F32: DType = DType::F32;

fn step(place: u8) -> ChainTerm {
    ChainTerm::Step(place)
}

fn refused(chain: Result<Chain>, message: &str) {
    let error = chain.expect_err(message).to_string();
    assert!(error.contains(message), "{error}");
}

/// Clips, adds and shrinks, with one number of each step open.
fn sample(max: f64, op: BinaryOp, slope: f32, last: ChainTerm) -> Chain {
    let steps = [
        ChainStep::clip(None, Some(Scalar::Float(max)), X),
        ChainStep::binary(op, step(0), Y),
        ChainStep::unary(UnaryOp::LeakyRelu { slope }, step(1)),
        ChainStep::binary(BinaryOp::Mul, step(2), last),
    ];
    Chain::new(&[F32, F32], &steps).unwrap()
}

#[test]
fn chains_are_equal_by_value_and_every_part_counts() {
    let chain = sample(2.0, BinaryOp::Add, 0.1, X);
    let others = [
        sample(3.0, BinaryOp::Add, 0.1, X),
        sample(2.0, BinaryOp::Sub, 0.1, X),
        sample(2.0, BinaryOp::Add, 0.2, X),
        sample(2.0, BinaryOp::Add, 0.1, Y),
        sample(2.0, BinaryOp::Add, 0.1, step(1)),
    ];
    let op = |chain: &Chain| Op::Chain { chain: chain.clone() };
    let hash = |op: Op| {
        let mut hasher = std::hash::DefaultHasher::new();
        op.hash(&mut hasher);
        hasher.finish()
    };
    let again = sample(2.0, BinaryOp::Add, 0.1, X);
    assert_eq!(op(&chain), op(&again));
    assert_eq!(hash(op(&chain)), hash(op(&again)));
    for other in &others {
        assert_ne!(op(&chain), op(other), "{other:?}");
        assert_ne!(hash(op(&chain)), hash(op(other)), "{other:?}");
    }
    let zero = |zero: f32| sample(2.0, BinaryOp::Add, zero, X);
    assert_ne!(zero(0.0), zero(-0.0));
    let cast = |dtype, to| Chain::new(&[dtype], &[ChainStep::cast(to, X)]).unwrap();
    assert_ne!(cast(F32, DType::F16), cast(F32, DType::BF16));
    assert_ne!(cast(F32, DType::I8), cast(DType::F64, DType::I8));
}

#[test]
fn a_step_that_does_not_fit_is_named() {
    let relu = |term| ChainStep::unary(UnaryOp::Relu, term);
    let one = |inputs: &[DType], step| Chain::new(inputs, &[step]);
    refused(one(&[DType::Bool], relu(X)), "step 0 is unary with src bool, expected src to be");
    refused(
        one(&[F32], relu(step(0))),
        "step 0 is Unary { op: Relu } of Step(0), expected one of 1",
    );
    refused(one(&[F32], relu(Y)), "of Input(1), expected one of 1 inputs or 0 earlier steps");
    let add = |a, b| ChainStep::binary(BinaryOp::Add, a, b);
    refused(
        Chain::new(&[F32, DType::F16], &[relu(X), relu(Y), add(step(0), step(1))]),
        "step 2 is binary with b f16, expected b to be f32",
    );
    refused(one(&[F32], ChainStep::where_(X, X, X)), "step 0 is where with condition f32");
    let half = Some(Scalar::Float(0.5));
    refused(one(&[DType::I32], ChainStep::clip(half, None, X)), "step 0 is clip with min 0.5");
}

#[test]
fn nothing_is_left_unread_and_sizes_are_bounded() {
    let relu = |term| ChainStep::unary(UnaryOp::Relu, term);
    refused(Chain::new(&[F32, F32], &[relu(X)]), "input_1 is read by none");
    refused(Chain::new(&[F32], &[relu(X), relu(X)]), "step 0 is read by none");
    refused(Chain::new(&[], &[relu(X)]), "inputs is 0, expected 1 to 8");
    refused(Chain::new(&[F32; 9], &[relu(X)]), "inputs is 9");
    refused(Chain::new(&[F32], &[]), "steps is 0, expected 1 to 16");
    let long = |count: u8| -> Vec<ChainStep> {
        (0..count).map(|at| relu(if at == 0 { X } else { step(at - 1) })).collect()
    };
    assert!(Chain::new(&[F32], &long(16)).is_ok());
    refused(Chain::new(&[F32], &long(17)), "steps is 17");
}

#[test]
fn inputs_of_a_command_have_the_types_of_the_chain_and_broadcast() {
    let chain = sample(2.0, BinaryOp::Add, 0.1, X);
    let make = |dst, inputs: &[Operand<crate::RawBuffer>]| -> Result<BoundCommand> {
        Command::chain(&chain, dst, inputs.iter().copied())
    };
    let (dst, row) = (f32s(1, &[2, 3]), f32s(3, &[3]));
    let command = make(dst, &[f32s(2, &[2, 1]), row]).unwrap();
    assert_eq!(command.inputs()[0].layout.strides(), [1, 0]);
    assert_eq!(command.inputs()[1].layout.strides(), [0, 1]);
    assert!(make(dst, &[dst, row]).is_ok());
    rejected(make(dst, &[row]), "inputs is 1, expected 2 (input_0, input_1)");
    rejected(make(dst, &[row, operand(3, DType::F16, &[3])]), "input_1 is f16[3], expected f32");
    rejected(make(dst, &[row, f32s(3, &[2])]), "input_1 is f32[2]");
    rejected(make(operand(1, DType::F16, &[2, 3]), &[row, row]), "dst is f16[2, 3], expected f32");
    // Three operands are touched, and each element goes through four steps.
    assert_eq!(make(dst, &[row, row]).unwrap().work(), 18 + 24);
}

#[test]
fn an_operation_is_no_larger_for_it() {
    assert_eq!(size_of::<Chain>(), size_of::<usize>());
}

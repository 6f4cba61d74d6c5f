use millstream_core::{
    BinaryOp, Chain, ChainStep, ChainTerm, Command, DType, Layout, Operand, RawBuffer, Scalar,
    UnaryOp,
};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::streaming;
use crate::kernels::shared::testing::{FLOATS, Tensor, assert_same_bits_in_any_order, noise, run};

const X: ChainTerm = ChainTerm::Input(0);

fn step(place: u8) -> ChainTerm {
    ChainTerm::Step(place)
}

/// Runs the steps of a chain one by one, as Commands of their own.
fn one_by_one(chain: &Chain, dst: &Tensor, inputs: &[&Tensor]) {
    let mut made: Vec<Tensor> = Vec::new();
    for (place, step) in chain.steps().iter().enumerate() {
        let is_last = place + 1 == chain.steps().len();
        let result = Tensor::output(chain.results()[place], dst.layout.shape());
        let target = if is_last { dst.operand() } else { result.operand() };
        let operands: Vec<Operand<RawBuffer>> = step
            .terms()
            .iter()
            .map(|term| match term {
                ChainTerm::Input(at) => inputs[usize::from(*at)].operand(),
                ChainTerm::Step(at) => made[usize::from(*at)].operand(),
            })
            .collect();
        run(Command::new(step.to_op(), [target], operands));
        made.push(result);
    }
}

/// Whether a chain gives the bits of its steps.
#[track_caller]
fn check(chain: &Chain, output: Layout, inputs: &[&Tensor]) {
    let (dst, expected) = (Tensor::uninit(output), Tensor::uninit(output));
    one_by_one(chain, &expected, inputs);
    let command = Command::chain(chain, dst.operand(), inputs.iter().map(|input| input.operand()));
    let command = command.unwrap();
    let bytes = on_every_isa(|| {
        assert_same_bits_in_any_order(&command, &dst);
        dst.bytes()
    });
    assert!(bytes.iter().all(|bytes| *bytes == expected.bytes()), "{chain:?}");
    streaming::always(|| assert_same_bits_in_any_order(&command, &dst));
    assert_eq!(dst.bytes(), expected.bytes(), "{chain:?}");
}

fn dense(dtype: DType, shape: &[usize]) -> Layout {
    Layout::contiguous(dtype, shape).unwrap()
}

/// Arithmetic, a function, a comparison, a choice and limits.
fn mixed(dtype: DType) -> Chain {
    let [y, z] = [ChainTerm::Input(1), ChainTerm::Input(2)];
    let steps = [
        ChainStep::binary(BinaryOp::Mul, X, y),
        ChainStep::binary(BinaryOp::Add, step(0), z),
        ChainStep::unary(UnaryOp::Tanh, step(1)),
        ChainStep::binary(BinaryOp::Less, step(1), step(2)),
        ChainStep::where_(step(3), step(0), step(2)),
        ChainStep::clip(Some(Scalar::Float(-0.3)), Some(Scalar::Float(0.7)), step(4)),
        ChainStep::binary(BinaryOp::Sub, step(5), X),
    ];
    Chain::new(&[dtype; 3], &steps).unwrap()
}

#[test]
fn a_chain_has_the_bits_of_its_steps_in_every_type() {
    let shape = [3, 37, 131];
    for dtype in FLOATS {
        let input = |shape: &[usize], seed| {
            Tensor::floats(dtype, shape, &noise(shape.iter().product(), seed))
        };
        let (x, row, one) = (input(&shape, 1), input(&[131], 2), input(&[1], 3));
        check(&mixed(dtype), dense(dtype, &shape), &[&x, &row, &one]);
        let column = input(&[3, 37, 1], 4);
        check(&mixed(dtype), dense(dtype, &shape), &[&x, &column, &row]);
    }
}

#[test]
fn layouts_do_not_matter() {
    let values = noise(9 * 260, 5);
    let (wide, tall) = (dense(DType::F32, &[9, 260]), dense(DType::F32, &[260, 9]));
    let transposed = tall.transpose(0, 1).unwrap();
    let gaps = Layout::strided(DType::F32, &[9, 260], &[2, 20], 1).unwrap();
    for output in [wide, transposed, gaps] {
        for input in [wide, transposed, gaps] {
            let x = Tensor::floats_strided(input, &values);
            let y = Tensor::floats_strided(transposed, &noise(9 * 260, 6));
            let one = Tensor::floats(DType::F32, &[9, 1], &noise(9, 7));
            check(&mixed(DType::F32), output, &[&x, &y, &one]);
        }
    }
}

#[test]
fn types_change_along_a_chain_and_each_result_is_rounded() {
    let steps = [
        ChainStep::cast(DType::F16, X),
        ChainStep::binary(BinaryOp::Add, step(0), step(0)),
        ChainStep::cast(DType::F64, step(1)),
        ChainStep::unary(UnaryOp::Square, step(2)),
        ChainStep::cast(DType::BF16, step(3)),
        ChainStep::unary(UnaryOp::Exp, step(4)),
        ChainStep::cast(DType::I32, step(5)),
        ChainStep::binary(BinaryOp::Mul, step(6), ChainTerm::Input(1)),
        ChainStep::cast(DType::Bool, step(7)),
        ChainStep::unary(UnaryOp::Not, step(8)),
        ChainStep::where_(step(9), step(6), step(7)),
        ChainStep::cast(DType::I8, step(10)),
        ChainStep::cast(DType::I8, step(11)),
        ChainStep::unary(UnaryOp::Relu, step(12)),
        ChainStep::cast(DType::I64, step(13)),
    ];
    let chain = Chain::new(&[DType::F32, DType::I32], &steps).unwrap();
    let x = Tensor::floats(DType::F32, &[5000], &noise(5000, 8));
    let y: Vec<i32> = (0..5000).map(|at| at % 7 - 3).collect();
    check(&chain, dense(DType::I64, &[5000]), &[&x, &Tensor::new(&[5000], &y)]);
}

#[test]
fn bits_that_are_no_number_are_kept() {
    // A signalling NaN, which arithmetic would change.
    let bits: Vec<half::f16> = [0x7D01u16, 0xFC01, 0x3C00].map(half::f16::from_bits).to_vec();
    let x = Tensor::new(&[3], &bits);
    let condition = Tensor::bools(&[3], &[1, 0, 1]);
    let choose =
        [ChainStep::where_(ChainTerm::Input(1), X, X), ChainStep::cast(DType::F16, step(0))];
    let chain = Chain::new(&[DType::F16, DType::Bool], &choose).unwrap();
    check(&chain, dense(DType::F16, &[3]), &[&x, &condition]);
}

#[test]
fn a_result_may_replace_any_input() {
    let values = noise(4000, 9);
    let chain = mixed(DType::F32);
    let fresh = || -> Vec<Tensor> {
        (0..3)
            .map(|at| {
                Tensor::floats(
                    DType::F32,
                    &[4000],
                    &values[at..].iter().chain(&values[..at]).copied().collect::<Vec<_>>(),
                )
            })
            .collect()
    };
    let inputs = fresh();
    let expected = Tensor::output(DType::F32, &[4000]);
    one_by_one(&chain, &expected, &inputs.iter().collect::<Vec<_>>());
    for replaced in 0..3 {
        let inputs = fresh();
        let dst = inputs[replaced].operand();
        run(Command::chain(&chain, dst, inputs.iter().map(|input| input.operand())));
        assert_eq!(inputs[replaced].bytes(), expected.bytes(), "{replaced}");
    }
}

#[test]
fn nothing_and_one_element_work() {
    let steps = [ChainStep::unary(UnaryOp::Relu, X), ChainStep::unary(UnaryOp::Neg, step(0))];
    let chain = Chain::new(&[DType::F32], &steps).unwrap();
    let empty = Tensor::output(DType::F32, &[2, 0]);
    run(Command::chain(&chain, empty.operand(), [empty.operand()]));
    let one = Tensor::floats(DType::F32, &[], &[3.0]);
    check(&chain, Layout::scalar(DType::F32), &[&one]);
}

/// As [`check`], but for which NaN a result is: of two, the compiler may take either.
#[track_caller]
fn check_numbers(chain: &Chain, shape: &[usize], inputs: &[&Tensor]) {
    let layout = dense(DType::F32, shape);
    let (dst, expected) = (Tensor::uninit(layout), Tensor::uninit(layout));
    let bits = |tensor: &Tensor| -> Vec<u32> {
        let values = tensor.values::<f32>().into_iter();
        values.map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
    };
    one_by_one(chain, &expected, inputs);
    for found in on_every_isa(|| {
        let operands = inputs.iter().map(|input| input.operand());
        run(Command::chain(chain, dst.operand(), operands));
        bits(&dst)
    }) {
        assert!(found == bits(&expected), "{chain:?}");
    }
}

/// Every function that strips have, with numbers that are apt to be handled wrongly, in every order of operands.
#[test]
fn strips_have_the_bits_of_tiles() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        3.0,
        -3.0,
        6.5,
        -7.25,
        1e-40,
        -1e-40,
        1e38,
        -1e38,
        1e-20,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let count = special.len();
    let shape = [count, 300];
    let column: Vec<f64> = special.iter().flat_map(|&x| [x; 300]).collect();
    let row: Vec<f64> = special.iter().copied().cycle().take(300).collect();
    let bits: Vec<u8> = (0..300).map(|at| u8::from(at % 3 == 0)).collect();
    let inputs = [
        Tensor::floats(DType::F32, &shape, &column),
        Tensor::floats(DType::F32, &[300], &row),
        Tensor::floats(DType::F32, &[count, 1], &special),
    ];
    let condition = Tensor::bools(&[300], &bits);
    let [y, z, bools] = [1, 2, 3].map(ChainTerm::Input);
    let unary = [
        UnaryOp::Relu,
        UnaryOp::Neg,
        UnaryOp::Abs,
        UnaryOp::Square,
        UnaryOp::Sqrt,
        UnaryOp::Reciprocal,
        UnaryOp::LeakyRelu { slope: 0.1 },
        UnaryOp::HardSigmoid { alpha: 0.2, beta: 0.5 },
        UnaryOp::HardSwish,
    ];
    let limits = (Some(Scalar::Float(-0.0)), Some(Scalar::Float(0.1)));
    let mut firsts: Vec<ChainStep> = unary.iter().map(|&op| ChainStep::unary(op, X)).collect();
    firsts.push(ChainStep::clip(limits.0, limits.1, X));
    firsts.push(ChainStep::clip(limits.1, None, X));
    for op in
        [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Max, BinaryOp::Min]
    {
        firsts.extend([ChainStep::binary(op, X, y), ChainStep::binary(op, y, X)]);
        firsts.extend([ChainStep::binary(op, z, y), ChainStep::binary(op, y, y)]);
    }
    for first in firsts {
        // Both results are read again, so that one of them is kept.
        let steps = [
            first,
            ChainStep::binary(BinaryOp::Sub, step(0), X),
            ChainStep::where_(bools, step(1), step(0)),
            ChainStep::binary(BinaryOp::Max, y, step(2)),
            ChainStep::binary(BinaryOp::Add, step(3), z),
        ];
        let chain = Chain::new(&[DType::F32, DType::F32, DType::F32, DType::Bool], &steps).unwrap();
        let all = [&inputs[0], &inputs[1], &inputs[2], &condition];
        check_numbers(&chain, &shape, &all);
    }
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
        let steps = [
            ChainStep::unary(UnaryOp::Neg, X),
            ChainStep::binary(op, y, step(0)),
            ChainStep::where_(step(1), z, step(0)),
            ChainStep::binary(op, step(2), y),
            ChainStep::where_(step(3), step(0), X),
            ChainStep::binary(BinaryOp::Min, step(4), step(2)),
        ];
        let chain = Chain::new(&[DType::F32; 3], &steps).unwrap();
        let all = [&inputs[0], &inputs[1], &inputs[2]];
        check_numbers(&chain, &shape, &all);
    }
}

use millstream_core::{BinaryOp, Command, Layout, Operand, RawBuffer, UnaryOp};

use super::*;
use crate::{Dialect, source};

const LIMITS: Limits = Limits {
    max_threads: 256,
    shared_bytes: 32 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 8,
};

const X: ChainTerm = ChainTerm::Input(0);
const Y: ChainTerm = ChainTerm::Input(1);

fn launch(chain: &Chain) -> Launch {
    let operand = |address: usize, dtype: DType| {
        let layout = Layout::contiguous(dtype, &[64]).unwrap();
        Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, layout)
    };
    let inputs = chain.inputs().iter().enumerate();
    let inputs = inputs.map(|(place, &dtype)| operand((place + 2) << 16, dtype));
    let command = Command::chain(chain, operand(1 << 16, chain.dtype()), inputs).unwrap();
    super::super::lower(&command, 0, &LIMITS).unwrap().launches.remove(0)
}

fn chain(op: BinaryOp, a: ChainTerm, slope: f32, to: DType) -> Chain {
    let steps = [
        ChainStep::binary(op, X, Y),
        ChainStep::unary(UnaryOp::LeakyRelu { slope }, ChainTerm::Step(0)),
        ChainStep::binary(BinaryOp::Sub, a, ChainTerm::Step(1)),
        ChainStep::cast(to, ChainTerm::Step(2)),
    ];
    Chain::new(&[DType::F32, DType::F32], &steps).unwrap()
}

#[test]
fn chains_that_do_something_else_have_other_kernels() {
    let usual = || chain(BinaryOp::Add, X, 0.1, DType::F16);
    let first = launch(&usual());
    assert_eq!(first.key, launch(&usual()).key);
    let others = [
        chain(BinaryOp::Mul, X, 0.1, DType::F16),
        chain(BinaryOp::Add, Y, 0.1, DType::F16),
        chain(BinaryOp::Add, ChainTerm::Step(0), 0.1, DType::F16),
        chain(BinaryOp::Add, X, 0.1, DType::BF16),
    ];
    let text = |key: &Key| source(key, Dialect::Host);
    for other in &others {
        let key = launch(other).key;
        assert_ne!(first.key, key, "{other:?}");
        assert_ne!(text(&first.key), text(&key), "{other:?}");
    }
    let cast = |from| {
        let chain = Chain::new(&[from], &[ChainStep::cast(DType::F64, X)]).unwrap();
        launch(&chain).key
    };
    assert_ne!(cast(DType::F32), cast(DType::I32));
}

#[test]
fn numbers_are_params_and_do_not_ask_for_another_kernel() {
    let slope = |slope| launch(&chain(BinaryOp::Add, X, slope, DType::F16));
    assert_eq!(slope(0.1).key, slope(0.2).key);
    assert_ne!(slope(0.1).params, slope(0.2).params);
    let limits = |max: i64| {
        let clip = ChainStep::clip(None, Some(Scalar::Int(max)), X);
        launch(&Chain::new(&[DType::I8], &[clip]).unwrap())
    };
    assert_eq!(limits(3).key, limits(4).key);
    assert_ne!(limits(3).params, limits(4).params);
}

#[test]
fn the_longest_chain_fits_a_key() {
    let inputs = [DType::Bool; MAX_CHAIN_INPUTS];
    let steps: Vec<ChainStep> = (0..MAX_CHAIN_STEPS as u8)
        .map(|place| {
            let before = if place == 0 { X } else { ChainTerm::Step(place - 1) };
            ChainStep::where_(ChainTerm::Input(place % 8), before, before)
        })
        .collect();
    let chain = Chain::new(&inputs, &steps).unwrap();
    let packed = |place: usize| PackedStep::of(&chain.steps()[place], DType::Bool);
    for place in 0..MAX_CHAIN_STEPS {
        assert_eq!(PackedStep::unpack(packed(place).pack()), Some(packed(place)));
    }
    let key = launch(&chain).key;
    assert!(source(&key, Dialect::Cuda).contains("r15"));
}

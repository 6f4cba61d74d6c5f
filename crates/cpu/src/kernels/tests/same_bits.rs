//! Neither the instruction set, nor stores past the caches, nor the batch change a bit.

use millstream_core::{
    Axes, BinaryOp, BoundCommand, Command, DType, Distribution, Layout, Operand, RawBuffer,
    ReduceOp, Result, UnaryOp,
};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::streaming;
use crate::kernels::shared::testing::{FLOATS, Tensor, assert_same_bits_in_any_order, noise, run};

const SHAPE: [usize; 3] = [3, 37, 131];

type Build<'a> = dyn Fn(Operand<RawBuffer>, &Inputs) -> Result<BoundCommand> + 'a;

struct Inputs {
    a: Tensor,
    b: Tensor,
    weight: Tensor,
}

impl Inputs {
    fn new(dtype: DType) -> Self {
        let values = |seed| noise(SHAPE.iter().product(), seed).iter().map(|x| x * 7.0).collect();
        let values = |seed| -> Vec<f64> { values(seed) };
        Inputs {
            a: Tensor::floats(dtype, &SHAPE, &values(1)),
            b: Tensor::floats(dtype, &SHAPE, &values(2)),
            weight: Tensor::floats(dtype, &SHAPE[2..], &noise(SHAPE[2], 3)),
        }
    }
}

/// Calls `check` with many Commands and the shapes of their outputs.
fn each_command(mut check: impl FnMut(&str, &[usize], &Build<'_>)) {
    for op in [UnaryOp::Relu, UnaryOp::Exp, UnaryOp::Tanh, UnaryOp::Gelu, UnaryOp::Erf] {
        check(&format!("{op:?}"), &SHAPE, &|dst, i| Command::unary(op, dst, i.a.operand()));
    }
    check("add", &SHAPE, &|dst, i| {
        Command::binary(BinaryOp::Add, dst, i.a.operand(), i.b.operand())
    });
    check("copy", &SHAPE, &|dst, i| Command::copy(dst, i.a.operand()));
    for axis in 0..3 {
        for log in [false, true] {
            let name = format!("softmax {axis} {log}");
            check(&name, &SHAPE, &|dst, i| Command::softmax(dst, i.a.operand(), axis, log));
        }
        let mut shape = SHAPE;
        shape[axis] = 1;
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::L2] {
            check(&format!("{op:?} {axis}"), &shape, &|dst, i| {
                Command::reduce(op, dst, i.a.operand(), Axes::new(&[axis])?)
            });
        }
    }
    check("layer_norm", &SHAPE, &|dst, i| {
        let weight = Some(i.weight.operand());
        Command::layer_norm(dst, i.a.operand(), weight, weight, 1, 1e-5)
    });
    check("rms_norm", &SHAPE, &|dst, i| {
        Command::rms_norm(dst, i.a.operand(), Some(i.weight.operand()), 1, 1e-5)
    });
    check("group_norm", &SHAPE, &|dst, i| {
        Command::group_norm(dst, i.a.operand(), None, None, 37, 1e-5)
    });
    for distribution in [
        Distribution::Uniform { low: -1.0, high: 1.0 },
        Distribution::Normal { mean: 1.0, deviation: 3.0 },
    ] {
        check(&format!("{distribution:?}"), &SHAPE, &|dst, _| {
            Command::random(dst, distribution, 7, u64::MAX - 1001)
        });
    }
}

/// The bytes of a result that does not begin at the start of a line.
fn result(dtype: DType, shape: &[usize], inputs: &Inputs, build: &Build<'_>) -> Vec<u8> {
    let dense = Layout::contiguous(dtype, shape).unwrap();
    let dst = Tensor::uninit(Layout::strided(dtype, shape, dense.strides(), 3).unwrap());
    run(build(dst.operand(), inputs));
    dst.bytes()
}

#[test]
fn every_machine_gives_the_same_bits() {
    for dtype in FLOATS {
        let inputs = Inputs::new(dtype);
        each_command(|name, shape, build| {
            let results = on_every_isa(|| result(dtype, shape, &inputs, build));
            assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{name} {dtype}");
        });
    }
}

#[test]
fn stores_past_the_caches_give_the_same_bits() {
    for dtype in FLOATS {
        let inputs = Inputs::new(dtype);
        each_command(|name, shape, build| {
            let plain = result(dtype, shape, &inputs, build);
            for bytes in on_every_isa(|| streaming::always(|| result(dtype, shape, &inputs, build)))
            {
                assert_eq!(bytes, plain, "{name} {dtype}");
            }
        });
    }
}

#[test]
fn stores_past_the_caches_reach_other_threads() {
    let inputs = Inputs::new(DType::F32);
    each_command(|_, shape, build| {
        let dst = Tensor::output(DType::F32, shape);
        let command = build(dst.operand(), &inputs).unwrap();
        streaming::always(|| assert_same_bits_in_any_order(&command, &dst));
    });
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    for count in [1, 31, 64, 131, 512, 700] {
        let rows = 67;
        let values = noise(rows * count, 4);
        let alone =
            |row: usize| Tensor::floats(DType::F32, &[1, count], &values[row * count..][..count]);
        let all = Tensor::floats(DType::F32, &[rows, count], &values);
        let builds: [fn(&Tensor, &Tensor) -> Result<BoundCommand>; 4] = [
            |dst, src| Command::softmax(dst.operand(), src.operand(), 1, false),
            |dst, src| Command::layer_norm(dst.operand(), src.operand(), None, None, 1, 1e-5),
            |dst, src| Command::rms_norm(dst.operand(), src.operand(), None, 1, 1e-5),
            |dst, src| Command::unary(UnaryOp::Gelu, dst.operand(), src.operand()),
        ];
        for build in builds {
            let together = Tensor::output(DType::F32, &[rows, count]);
            run(build(&together, &all));
            let together = together.values::<f32>();
            for row in [0, 1, 40, 66] {
                let dst = Tensor::output(DType::F32, &[1, count]);
                run(build(&dst, &alone(row)));
                assert_eq!(dst.values::<f32>(), together[row * count..][..count]);
            }
        }
    }
}

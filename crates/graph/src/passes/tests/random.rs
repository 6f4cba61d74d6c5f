//! Random graphs: each pass on its own, all of them, and none give the same answers.

use millstream_core::ConvParams;
use proptest::prelude::*;

use super::*;
use crate::Pass;

/// One more node on edges that are there.
#[derive(Clone, Debug)]
enum Step {
    Unary(u8, usize),
    Binary(u8, usize, usize),
    /// With a constant of one number, of a row, or of a column.
    Constant(u8, usize, u8, u32),
    MatMul(usize, usize, u32),
    Transpose(usize),
    Reshape(usize),
    Softmax(usize),
    Norm(usize, bool),
    Attention(usize),
    Conv(usize, u32),
    Slice(usize),
    Concat(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edge = || any::<usize>();
    let step = prop_oneof![
        3 => (any::<u8>(), edge()).prop_map(|(op, a)| Step::Unary(op, a)),
        3 => (any::<u8>(), edge(), edge()).prop_map(|(op, a, b)| Step::Binary(op, a, b)),
        4 => (any::<u8>(), edge(), any::<u8>(), any::<u32>())
            .prop_map(|(op, a, kind, seed)| Step::Constant(op, a, kind, seed)),
        3 => (edge(), 1usize..9, any::<u32>()).prop_map(|(a, n, seed)| Step::MatMul(a, n, seed)),
        1 => edge().prop_map(Step::Transpose),
        1 => edge().prop_map(Step::Reshape),
        1 => edge().prop_map(Step::Softmax),
        1 => (edge(), any::<bool>()).prop_map(|(a, centered)| Step::Norm(a, centered)),
        1 => edge().prop_map(Step::Attention),
        1 => (edge(), any::<u32>()).prop_map(|(a, seed)| Step::Conv(a, seed)),
        1 => edge().prop_map(Step::Slice),
        1 => (edge(), edge()).prop_map(|(a, b)| Step::Concat(a, b)),
    ];
    prop::collection::vec(step, 1..14)
}

/// Functions that keep numbers small, so that differences are those of rounding.
const UNARY: [UnaryOp; 6] = [
    UnaryOp::Relu,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Gelu,
    UnaryOp::Silu,
    UnaryOp::HardSwish,
];
const BINARY: [BinaryOp; 4] = [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Sub, BinaryOp::Max];

/// All edges are matrices.
fn build(steps: &[Step]) -> (Writer, Vec<Edge>) {
    let mut w = Writer::new();
    let mut edges = vec![w.input(&[4, 6]), w.input(&[4, 6])];
    for step in steps {
        let pick = |index: usize| edges[index % edges.len()];
        let shape = |w: &Writer, edge: Edge| [w.graph.shape(edge)[0], w.graph.shape(edge)[1]];
        let made = match *step {
            Step::Unary(op, a) => w.unary(UNARY[usize::from(op) % UNARY.len()], pick(a)),
            Step::Binary(op, a, b) => {
                let (a, b) = (pick(a), pick(b));
                if shape(&w, a) != shape(&w, b) {
                    continue;
                }
                w.binary(BINARY[usize::from(op) % BINARY.len()], a, b)
            }
            Step::Constant(op, a, kind, seed) => {
                let a = pick(a);
                let [rows, columns] = shape(&w, a);
                let constant = match kind % 3 {
                    0 => w.number((seed % 13) as f32 * 0.25 - 1.5),
                    1 => w.weights(&[columns], seed % 1000),
                    _ => w.weights(&[rows, 1], seed % 1000),
                };
                w.binary(BINARY[usize::from(op) % BINARY.len()], a, constant)
            }
            Step::MatMul(a, n, seed) => {
                let a = pick(a);
                let weight = w.weights(&[shape(&w, a)[1], n], seed % 1000);
                w.matmul(a, weight)
            }
            Step::Transpose(a) => w.permute(pick(a), &[1, 0]),
            Step::Reshape(a) => {
                let a = pick(a);
                let [rows, columns] = shape(&w, a);
                if rows % 2 != 0 {
                    continue;
                }
                w.reshape(a, &[rows / 2, columns * 2])
            }
            Step::Softmax(a) => w.op(Op::Softmax { axis: 1, log: false }, &[pick(a)]),
            Step::Norm(a, centered) => norm(&mut w, pick(a), centered),
            Step::Attention(a) => {
                let a = pick(a);
                let key = w.permute(a, &[1, 0]);
                let scores = w.matmul(a, key);
                let scale = w.number(0.125);
                let scores = w.binary(BinaryOp::Mul, scores, scale);
                let shares = w.op(Op::Softmax { axis: 1, log: false }, &[scores]);
                w.matmul(shares, a)
            }
            Step::Conv(a, seed) => {
                let a = pick(a);
                let [rows, columns] = shape(&w, a);
                let image = w.reshape(a, &[1, rows, columns]);
                let weight = w.weights(&[rows, rows, 1], seed % 1000);
                let params = Box::new(ConvParams::new(1));
                let conv =
                    w.op(Op::Conv { params, epilogue: Epilogue::default() }, &[image, weight]);
                w.reshape(conv, &[rows, columns])
            }
            Step::Slice(a) => {
                let a = pick(a);
                let [_, columns] = shape(&w, a);
                if columns < 2 {
                    continue;
                }
                let view = View::Slice { axis: 1, start: 1, count: columns - 1, step: 1 };
                w.add(NodeOp::View(view), &[a])
            }
            Step::Concat(a, b) => {
                let (a, b) = (pick(a), pick(b));
                if shape(&w, a)[0] != shape(&w, b)[0] || shape(&w, a)[1] + shape(&w, b)[1] > 64 {
                    continue;
                }
                w.add(NodeOp::Concat { axis: 1 }, &[a, b])
            }
        };
        edges.push(made);
    }
    (w, edges)
}

fn norm(w: &mut Writer, x: Edge, centered: bool) -> Edge {
    let value = if centered {
        let mean = w.mean(x, &[1]);
        w.binary(BinaryOp::Sub, x, mean)
    } else {
        x
    };
    let square = w.binary(BinaryOp::Mul, value, value);
    let mean = w.mean(square, &[1]);
    let epsilon = w.number(0.1);
    let sum = w.binary(BinaryOp::Add, mean, epsilon);
    let root = w.unary(UnaryOp::Sqrt, sum);
    w.binary(BinaryOp::Div, value, root)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_pass_keeps_the_answers(steps in steps(), picked in any::<[usize; 2]>()) {
        let (w, edges) = build(&steps);
        let last = edges[edges.len() - 1];
        let outputs = [last, edges[picked[0] % edges.len()], edges[picked[1] % edges.len()]];
        let (_, expected) = w.run(&outputs, &Passes::none());
        // Numbers that grew beyond bounds are no test.
        prop_assume!(expected.iter().flatten().all(|value| value.abs() < 1e4));
        for pass in Pass::ALL {
            let (names, found) = w.run(&outputs, &Passes::only(pass));
            assert_close(&found, &expected, &names);
        }
        let (names, found) = w.run(&outputs, &Passes::all());
        assert_close(&found, &expected, &names);
    }
}

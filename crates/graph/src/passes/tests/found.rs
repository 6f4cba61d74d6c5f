//! What exporters write, and what becomes of it.

use millstream_core::{AttentionParams, ConvParams, Epilogue};

use super::*;

#[test]
fn a_layer_norm_of_single_operations() {
    for divided in [true, false] {
        let mut w = Writer::new();
        let x = w.input(&[2, 5, 16]);
        let mean = w.mean(x, &[2]);
        let centered = w.binary(BinaryOp::Sub, x, mean);
        let two = w.number(2.0);
        let square = if divided {
            w.binary(BinaryOp::Pow, centered, two)
        } else {
            w.binary(BinaryOp::Mul, centered, centered)
        };
        let variance = w.mean(square, &[2]);
        let epsilon = w.number(1e-5);
        let sum = w.binary(BinaryOp::Add, variance, epsilon);
        let root = w.unary(UnaryOp::Sqrt, sum);
        let normed = if divided {
            w.binary(BinaryOp::Div, centered, root)
        } else {
            let factor = w.unary(UnaryOp::Reciprocal, root);
            w.binary(BinaryOp::Mul, centered, factor)
        };
        let (weight, bias) = (w.weights(&[16], 1), w.weights(&[1, 1, 16], 2));
        let scaled = w.binary(BinaryOp::Mul, normed, weight);
        let shifted = w.binary(BinaryOp::Add, scaled, bias);
        assert_eq!(w.check(&[shifted]), ["layer_norm"]);
    }
}

#[test]
fn an_rms_norm_of_single_operations() {
    let mut w = Writer::new();
    let x = w.input(&[3, 8]);
    let square = w.binary(BinaryOp::Mul, x, x);
    let mean = w.mean(square, &[1]);
    let epsilon = w.number(1e-6);
    let sum = w.binary(BinaryOp::Add, mean, epsilon);
    let root = w.unary(UnaryOp::Rsqrt, sum);
    let normed = w.binary(BinaryOp::Mul, x, root);
    let weight = w.weights(&[8], 1);
    let scaled = w.binary(BinaryOp::Mul, weight, normed);
    assert_eq!(w.check(&[scaled]), ["rms_norm"]);
}

#[test]
fn a_norm_over_leading_axes_stays_as_it_is() {
    let mut w = Writer::new();
    let x = w.input(&[4, 6]);
    let square = w.binary(BinaryOp::Mul, x, x);
    let mean = w.mean(square, &[0]);
    let epsilon = w.number(1e-6);
    let sum = w.binary(BinaryOp::Add, mean, epsilon);
    let root = w.unary(UnaryOp::Sqrt, sum);
    let normed = w.binary(BinaryOp::Div, x, root);
    assert!(!has(&w.check(&[normed]), "rms_norm"));
}

/// `0.5 · x · (1 + erf(x / √2))` in three orders.
#[test]
fn gelu_in_every_order() {
    for order in 0..3 {
        let mut w = Writer::new();
        let x = w.input(&[4, 16]);
        let (root, one, half) = (w.number(std::f32::consts::SQRT_2), w.number(1.0), w.number(0.5));
        let scaled = w.binary(BinaryOp::Div, x, root);
        let erf = w.unary(UnaryOp::Erf, scaled);
        let gate = w.binary(BinaryOp::Add, erf, one);
        let result = match order {
            0 => {
                let product = w.binary(BinaryOp::Mul, x, gate);
                w.binary(BinaryOp::Mul, product, half)
            }
            1 => {
                let product = w.binary(BinaryOp::Mul, gate, half);
                w.binary(BinaryOp::Mul, x, product)
            }
            _ => {
                let product = w.binary(BinaryOp::Mul, x, half);
                w.binary(BinaryOp::Mul, product, gate)
            }
        };
        let (names, _) = w.run(&[result], &Passes::only(crate::Pass::Activations));
        assert_eq!(names, ["Gelu"], "order {order}");
        w.check(&[result]);
    }
}

#[test]
fn gelu_by_tanh_with_the_cube_as_products_and_as_a_power() {
    for power in [true, false] {
        let mut w = Writer::new();
        let x = w.input(&[33]);
        let cube = if power {
            let three = w.number(3.0);
            w.binary(BinaryOp::Pow, x, three)
        } else {
            let square = w.binary(BinaryOp::Mul, x, x);
            w.binary(BinaryOp::Mul, square, x)
        };
        let (factor, scale) = (w.number(0.044715), w.number(0.797_884_6));
        let cubic = w.binary(BinaryOp::Mul, cube, factor);
        let sum = w.binary(BinaryOp::Add, x, cubic);
        let argument = w.binary(BinaryOp::Mul, sum, scale);
        let tanh = w.unary(UnaryOp::Tanh, argument);
        let (one, half) = (w.number(1.0), w.number(0.5));
        let gate = w.binary(BinaryOp::Add, one, tanh);
        let product = w.binary(BinaryOp::Mul, x, gate);
        let result = w.binary(BinaryOp::Mul, half, product);
        assert_eq!(w.check(&[result]), ["GeluTanh"]);
    }
}

#[test]
fn silu_and_hard_swish() {
    let mut w = Writer::new();
    let x = w.input(&[4, 16]);
    let gate = w.unary(UnaryOp::Sigmoid, x);
    let silu = w.binary(BinaryOp::Mul, x, gate);
    let (three, six) = (w.number(3.0), w.number(6.0));
    let sum = w.binary(BinaryOp::Add, silu, three);
    let clipped = w.op(limits(0.0, 6.0), &[sum]);
    let product = w.binary(BinaryOp::Mul, silu, clipped);
    let swish = w.binary(BinaryOp::Div, product, six);
    let (names, _) = w.run(&[swish], &Passes::only(crate::Pass::Activations));
    assert_eq!(names, ["Silu", "HardSwish"]);
    w.check(&[swish]);
}

/// What an activation needs is read by others too: it is computed anyway, so nothing is won.
#[test]
fn a_gate_that_is_an_output_stays() {
    let mut w = Writer::new();
    let x = w.input(&[4, 16]);
    let gate = w.unary(UnaryOp::Sigmoid, x);
    let silu = w.binary(BinaryOp::Mul, x, gate);
    let names = w.check(&[silu, gate]);
    assert!(has(&names, "Sigmoid"), "{names:?}");
}

/// Query, key and value by one product each, heads by views, a mask that is added, and a projection with a residual.
#[test]
fn attention_with_its_projections() {
    let mut w = Writer::new();
    let (x, mask) = (w.input(&[2, 7, 24]), w.input(&[2, 1, 1, 7]));
    let heads = |w: &mut Writer, seed: u32, order: &[usize]| {
        let (weight, bias) = (w.weights(&[24, 24], seed), w.weights(&[24], seed + 9));
        let product = w.matmul(x, weight);
        let sum = w.binary(BinaryOp::Add, product, bias);
        let split = w.reshape(sum, &[2, 7, 3, 8]);
        w.permute(split, order)
    };
    let query = heads(&mut w, 1, &[0, 2, 1, 3]);
    let key = heads(&mut w, 2, &[0, 2, 3, 1]);
    let value = heads(&mut w, 3, &[0, 2, 1, 3]);
    let scores = w.matmul(query, key);
    let root = w.number(8f32.sqrt());
    let scaled = w.binary(BinaryOp::Div, scores, root);
    let masked = w.binary(BinaryOp::Add, scaled, mask);
    let shares = w.op(Op::Softmax { axis: 3, log: false }, &[masked]);
    let mixed = w.matmul(shares, value);
    let joined = w.permute(mixed, &[0, 2, 1, 3]);
    let joined = w.reshape(joined, &[2, 7, 24]);
    let (weight, bias) = (w.weights(&[24, 24], 4), w.weights(&[24], 5));
    let projected = w.matmul(joined, weight);
    let projected = w.binary(BinaryOp::Add, bias, projected);
    let result = w.binary(BinaryOp::Add, x, projected);
    let names = w.check(&[result]);
    let ops: Vec<_> = names
        .into_iter()
        .filter(|name| !["reshape", "permute", "slice", "broadcast"].contains(&name.as_str()))
        .collect();
    assert_eq!(ops, ["matmul_packed", "attention", "matmul_packed"]);
}

/// Heads joined with the batch, as PyTorch's layer writes it, and both sides scaled by the root of the scale.
#[test]
fn attention_of_rank_three() {
    let mut w = Writer::new();
    let [q, k, v] = [w.input(&[6, 5, 8]), w.input(&[6, 9, 8]), w.input(&[6, 9, 4])];
    let root = w.number(0.594_603_6);
    let q = w.binary(BinaryOp::Mul, q, root);
    let k = w.permute(k, &[0, 2, 1]);
    let k = w.binary(BinaryOp::Mul, k, root);
    let scores = w.matmul(q, k);
    let shares = w.op(Op::Softmax { axis: 2, log: false }, &[scores]);
    let mixed = w.matmul(shares, v);
    let names = w.check(&[mixed]);
    assert_eq!(
        names.iter().filter(|name| !["reshape", "permute"].contains(&name.as_str())).count(),
        1,
        "{names:?}"
    );
    assert!(has(&names, "attention"));
}

/// `where(isnan(x), 0, x)` behind the softmax: a query that sees no key gives zeros.
#[test]
fn attention_with_a_guard_against_queries_without_keys() {
    for other_reader in [false, true] {
        let mut w = Writer::new();
        let [q, k, v] = [w.input(&[1, 2, 3, 4]), w.input(&[1, 2, 4, 3]), w.input(&[1, 2, 3, 5])];
        let hidden = f32::NEG_INFINITY;
        let mask = [0.0, hidden, 0.5, hidden, hidden, hidden, 0.0, 0.0, 0.0];
        let mask = Array::from_slice(&mask, &[1, 1, 3, 3]).unwrap();
        let mask = w.graph.add_constant(Constant::new(mask));
        let scores = w.matmul(q, k);
        let masked = w.binary(BinaryOp::Add, scores, mask);
        let shares = w.op(Op::Softmax { axis: 3, log: false }, &[masked]);
        let (is_nan, zero) = (w.unary(UnaryOp::IsNan, shares), w.number(0.0));
        let guarded = w.op(Op::Where, &[is_nan, zero, shares]);
        let mixed = w.matmul(guarded, v);
        let outputs = if other_reader { vec![mixed, shares] } else { vec![mixed] };
        assert_eq!(has(&w.check(&outputs), "attention"), !other_reader);
    }
}

/// Heads joined with the batch, but apart where the mask of each batch is added.
#[test]
fn a_mask_is_added_where_batch_and_heads_are_apart() {
    let mut w = Writer::new();
    let [q, k, v] = [w.input(&[6, 5, 8]), w.input(&[6, 8, 9]), w.input(&[6, 9, 4])];
    let mask = w.input(&[2, 1, 5, 9]);
    let scores = w.matmul(q, k);
    let apart = w.reshape(scores, &[2, 3, 5, 9]);
    let masked = w.binary(BinaryOp::Add, apart, mask);
    let joined = w.reshape(masked, &[6, 5, 9]);
    let shares = w.op(Op::Softmax { axis: 2, log: false }, &[joined]);
    let mixed = w.matmul(shares, v);
    assert!(has(&w.check(&[mixed]), "attention"));
}

/// Where every key of a query is masked with a finite number, all keys count the same.
#[test]
fn a_query_that_sees_no_key_gets_what_softmax_gives() {
    for hidden in [-1e30f32, -3e38] {
        let mut w = Writer::new();
        let [q, k, v] = [w.input(&[1, 2, 3, 8]), w.input(&[1, 2, 8, 4]), w.input(&[1, 2, 4, 8])];
        let seen = [true, true, false, true, false, false, false, false, false, true, false, false];
        let seen: Vec<Scalar> = seen.iter().map(|&seen| Scalar::Bool(seen)).collect();
        let seen = Array::of_scalars(DType::Bool, &[3, 4], &seen).unwrap();
        let seen = w.graph.add_constant(Constant::new(seen));
        let (scores, hidden) = (w.matmul(q, k), w.number(hidden));
        let masked = w.op(Op::Where, &[seen, scores, hidden]);
        let shares = w.op(Op::Softmax { axis: 3, log: false }, &[masked]);
        let mixed = w.matmul(shares, v);
        assert!(has(&w.check(&[mixed]), "attention"));
    }
}

fn conv(w: &mut Writer, x: Edge, weight: Edge, pad: u32) -> Edge {
    let mut params = ConvParams::new(2);
    (params.pad_before, params.pad_after) = ([pad, pad, 0], [pad, pad, 0]);
    w.op(Op::Conv { params: Box::new(params), epilogue: Epilogue::default() }, &[x, weight])
}

/// `Conv > Mul > Add > hard swish > Mul > Add > Conv(1×1)`: all constants go into the weights.
#[test]
fn constants_around_convolutions_go_into_the_weights() {
    let mut w = Writer::new();
    let x = w.input(&[1, 3, 8, 8]);
    let weight = w.weights(&[6, 3, 3, 3], 1);
    let first = conv(&mut w, x, weight, 1);
    let (scale, shift) = (w.weights(&[1, 6, 1, 1], 2), w.weights(&[6, 1, 1], 3));
    let scaled = w.binary(BinaryOp::Mul, first, scale);
    let shifted = w.binary(BinaryOp::Add, scaled, shift);
    let active = w.unary(UnaryOp::HardSwish, shifted);
    let (a, b) = (w.number(1.25), w.number(-0.5));
    let scaled = w.binary(BinaryOp::Mul, active, a);
    let shifted = w.binary(BinaryOp::Add, scaled, b);
    let weight = w.weights(&[4, 6, 1, 1], 4);
    let second = conv(&mut w, shifted, weight, 0);
    assert_eq!(w.check(&[second]), ["conv", "conv"]);
}

/// Padding is zero and not the constant: a summand ahead of a padded convolution stays.
#[test]
fn a_summand_ahead_of_a_padded_convolution_stays() {
    let mut w = Writer::new();
    let x = w.input(&[1, 3, 5, 5]);
    let shift = w.number(0.5);
    let shifted = w.binary(BinaryOp::Add, x, shift);
    let weight = w.weights(&[2, 3, 3, 3], 1);
    let result = conv(&mut w, shifted, weight, 1);
    assert_eq!(w.check(&[result]), ["Add", "conv"]);
}

#[test]
fn elementwise_operations_become_one_chain() {
    let mut w = Writer::new();
    let (x, y) = (w.input(&[4, 16]), w.input(&[16]));
    let sum = w.binary(BinaryOp::Add, x, y);
    let square = w.binary(BinaryOp::Mul, sum, sum);
    let root = w.unary(UnaryOp::Sin, square);
    let result = w.binary(BinaryOp::Sub, root, x);
    assert_eq!(w.check(&[result]), ["chain"]);
    // A result that others read too is not computed twice.
    let names = w.check(&[result, square]);
    assert_eq!(names, ["chain", "chain"]);
}

#[test]
fn a_power_of_two_is_a_square_and_others_stay() {
    for (exponent, wanted) in [(2.0, "Square"), (3.0, "Pow"), (0.5, "Pow")] {
        let mut w = Writer::new();
        let x = w.input(&[3, 5]);
        let exponent = w.number(exponent);
        let power = w.binary(BinaryOp::Pow, x, exponent);
        assert_eq!(w.check(&[power]), [wanted]);
    }
    // Repeated to a larger shape, it is no function of one number any more.
    let mut w = Writer::new();
    let (x, two) = (w.input(&[5]), w.weights(&[3, 1], 1));
    let power = w.binary(BinaryOp::Pow, x, two);
    assert_eq!(w.check(&[power]), ["Pow"]);
}

/// Numbers around a hard swish, as Paddle's networks with scales that are learned have them.
#[test]
fn a_hard_swish_that_is_scaled_and_shifted_is_part_of_its_convolution() {
    let mut w = Writer::new();
    let x = w.input(&[2, 5, 6, 7]);
    let weight = w.weights(&[8, 5, 3, 3], 1);
    let params = Box::new(ConvParams::new(2));
    let conv = w.op(Op::Conv { params, epilogue: Epilogue::default() }, &[x, weight]);
    let swish = w.unary(UnaryOp::HardSwish, conv);
    let (factor, summand) = (w.number(1.25), w.number(-0.5));
    let scaled = w.binary(BinaryOp::Mul, factor, swish);
    let shifted = w.binary(BinaryOp::Add, scaled, summand);
    assert_eq!(w.check(&[shifted]), ["conv"]);
    // What somebody else reads stays as it is.
    let names = w.check(&[shifted, swish]);
    assert_eq!(names, ["conv", "chain"]);
}

#[test]
fn heads_are_joined_without_a_copy() {
    for readers in [1, 2] {
        let mut w = Writer::new();
        let [query, key, value] = [(); 3].map(|()| w.input(&[2, 3, 5, 4]));
        let params = AttentionParams::new(0.5);
        let mixed = w.op(Op::Attention { params }, &[query, key, value]);
        let moved = w.permute(mixed, &[0, 2, 1, 3]);
        let joined = w.reshape(moved, &[2, 5, 12]);
        let mut outputs = vec![w.unary(UnaryOp::Exp, joined)];
        if readers == 2 {
            outputs.push(w.unary(UnaryOp::Neg, mixed));
        }
        w.check(&outputs);
        let mut graph = w.graph.clone();
        outputs.iter().for_each(|&output| graph.add_output(output));
        let plan = lower(&graph, &w.folder).unwrap().plan.unwrap();
        // What others read too is written in its own order, and copied.
        assert_eq!(plan.commands(), [2, 4][readers - 1]);
    }
}

//! Dynamic quantization: each call of a batch has the scale of its own data.

use millstream_core::{DType, DynamicRange, Op};
use proptest::prelude::*;

use super::*;

/// Multiplies by weights of 8 bits, as files write it: integers are multiplied, sums are converted and scaled.
#[derive(Debug)]
struct QuantizedProduct(Array);

impl Operator for QuantizedProduct {
    fn kind(&self) -> &str {
        "QuantizedProduct"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let x = inputs[0].as_ref().expect("an input").tensor()?;
        let range = DynamicRange::Tensor;
        let made = at.apply_all(Op::DynamicQuantize { range, dtype: DType::U8 }, &[x])?;
        let weights = at.constant(self.0.clone());
        let product = Op::MatMulInteger { a_zero: true, b_zero: false, rescale: None };
        let sums = at.apply(product, &[made[0], weights, made[2]])?;
        let sums = at.apply(Op::Copy { dtype: DType::F32, saturate: true }, &[sums])?;
        let scale = at.constant(Array::scalar(0.037f32));
        let scale = at.apply(Op::Binary { op: BinaryOp::Mul }, &[made[1], scale])?;
        Ok(vec![at.apply(Op::Binary { op: BinaryOp::Mul }, &[sums, scale])?.into()])
    }
}

/// Two quantized layers with something that is not linear between.
fn session(batching: Batching, passes: crate::Passes, dims: Vec<Dim>) -> Session {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, dims);
    let weights = |seed: usize| {
        let values: Vec<i8> = (0..64).map(|at| ((at * 37 + seed * 11) % 251) as u8 as i8).collect();
        QuantizedProduct(Array::from_slice(&values, &[8, 8]).unwrap())
    };
    let hidden = writer.node(weights(1), &[x]);
    let hidden = writer.node(Apply(Op::Unary { op: UnaryOp::Tanh }), &[hidden]);
    let y = writer.node(weights(2), &[hidden]);
    writer.body.add_output("y", y, ValueType::Tensor(DType::F32, None));
    Session::builder(&device()).batching(batching).passes(passes).build(writer.body).unwrap()
}

fn sessions(passes: &crate::Passes, dims: &[Dim]) -> [Session; 2] {
    [joining(), Batching::off()].map(|batching| session(batching, passes.clone(), dims.to_vec()))
}

fn bits(outputs: crate::Result<Outputs>) -> Vec<u32> {
    y(&outputs.unwrap()).into_iter().map(f32::to_bits).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The ranges of calls differ by powers of ten, and some calls have nothing but zeros or numbers of one sign.
    #[test]
    fn calls_of_very_different_ranges_have_the_bits_that_they_have_alone(
        calls in prop::collection::vec((-6i32..7, -3.0f32..3.0, any::<u16>()), 2..9),
        rows in 1usize..4,
        optimized: bool,
    ) {
        let passes = if optimized { crate::Passes::all() } else { crate::Passes::none() };
        let dims = [Dim::Named("batch".into()), Dim::Known(8)];
        let [session, alone] = sessions(&passes, &dims);
        session.warm_up(&[("x", &[rows, 8])]).unwrap();
        let inputs: Vec<Tensor> = calls.iter().map(|&(power, shift, seed)| {
            let scale = 10f32.powi(power);
            let values = numbers(8 * rows, seed.into());
            let values: Vec<f32> = values.iter().map(|value| (value + shift) * scale).collect();
            if seed % 7 == 0 { tensor(&vec![0.0; 8 * rows], &[rows, 8]) } else { tensor(&values, &[rows, 8]) }
        }).collect();
        let joinable = session.joinable(&[("x", &[rows, 8])]).unwrap();
        prop_assert!(matches!(joinable, Joinable::Yes { .. }), "{}", joinable);
        let before = session.batching_stats();
        let answers = together(&session, &inputs);
        for (input, answer) in inputs.iter().zip(answers) {
            prop_assert_eq!(bits(answer), bits(alone.run([input])));
        }
        let stats = session.batching_stats();
        prop_assert_eq!(stats.repeated, before.repeated, "the batch was run again call by call");
        prop_assert_eq!(stats.sizes[inputs.len() - 1], before.sizes[inputs.len() - 1] + 1);
    }
}

/// A call has rows of its own behind the axis of the calls.
#[test]
fn calls_of_several_axes_are_joined() {
    let dims = [Dim::Named("batch".into()), Dim::Known(5), Dim::Known(8)];
    let [session, alone] = sessions(&crate::Passes::all(), &dims);
    session.warm_up(&[("x", &[1, 5, 8])]).unwrap();
    let joinable = session.joinable(&[("x", &[1, 5, 8])]).unwrap();
    assert_eq!(joinable, Joinable::Yes { axes: vec![("x".into(), Some(0))] });
    let input = |seed: usize| {
        let scale = 7f32.powi(seed as i32);
        let values: Vec<f32> = numbers(40, seed).iter().map(|value| value * scale).collect();
        tensor(&values, &[1, 5, 8])
    };
    let inputs: Vec<Tensor> = (0..6).map(input).collect();
    let answers = together(&session, &inputs);
    for (input, answer) in inputs.iter().zip(answers) {
        assert_eq!(bits(answer), bits(alone.run([input])));
    }
}

/// A call of three rows has one scale for them, so it is not three calls of one row, and is joined with calls of three rows only.
#[test]
fn calls_of_different_rows_are_not_mixed_where_a_call_has_one_scale() {
    let dims = [Dim::Named("batch".into()), Dim::Known(8)];
    for passes in [crate::Passes::all(), crate::Passes::none()] {
        let [session, alone] = sessions(&passes, &dims);
        let input = |rows: usize, seed: usize| {
            let scale = 7f32.powi(seed as i32);
            let values: Vec<f32> =
                numbers(8 * rows, seed).iter().map(|value| value * scale).collect();
            tensor(&values, &[rows, 8])
        };
        for rows in [1, 3] {
            session.warm_up(&[("x", &[rows, 8])]).unwrap();
            let joinable = session.joinable(&[("x", &[rows, 8])]).unwrap();
            assert!(matches!(joinable, Joinable::Yes { .. }), "{joinable}");
            let values = crate::Inputs::from([&input(rows, 0)]);
            let values = values.arranged(session.inputs(), &session.device()).unwrap();
            let (_, rows) = session.0.joined.as_ref().unwrap().entered(&values).unwrap();
            assert_eq!(rows, 1, "it is a call of its own kind");
        }
        let inputs = [0, 1, 2].map(|seed| input(3, seed));
        let held = Held::new(&session, &[&inputs[0]]);
        let ones = [3, 4].map(|seed| input(1, seed));
        let first = bits(session.run([&ones[0]]));
        let mut calls: Vec<_> =
            inputs[1..].iter().map(|input| session.submit([input], &Call::new())).collect();
        assert_eq!(bits(Ok(held.go_on())), bits(alone.run([&inputs[0]])));
        for (call, input) in calls.iter_mut().zip(&inputs[1..]) {
            assert_eq!(bits(ended(call)), bits(alone.run([input])));
        }
        assert_eq!(first, bits(alone.run([&ones[0]])));
        assert_eq!(session.batching_stats().sizes[2], 1);
    }
}

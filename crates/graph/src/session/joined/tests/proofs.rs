//! Whether calls can be joined, and who says so.

use super::*;

fn joinable(session: &Session, shape: &[usize]) -> Joinable {
    session.joinable(&[("x", shape)]).unwrap()
}

#[test]
fn whether_calls_can_be_joined_is_said_with_the_reason() {
    let yes = joinable(&perceptron(Batching::new()), &[1, 8]);
    assert_eq!(yes, Joinable::Yes { axes: vec![("x".into(), Some(0))] });
    assert_eq!(yes.to_string(), "calls can be joined: x along axis 0");

    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let axes = millstream_core::Axes::new(&[0]).unwrap();
    let sum = writer.node(Apply(Op::Reduce { op: ReduceOp::Sum, axes }), &[x]);
    let no = joinable(&writer.session(sum, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("node \"node1\"") && no.contains("combines axis 0"), "{no}");

    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let times = writer.node(TimesRows, &[x]);
    let no = joinable(&writer.session(times, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("not joined"), "{no}");
    let off = joinable(&perceptron(Batching::off()), &[1, 8]).to_string();
    assert!(off.contains("switched off"), "{off}");
}

/// Gives the shape of its input as a constant, as passes make it for known shapes.
#[derive(Debug)]
struct ShapeOf;

impl Operator for ShapeOf {
    fn kind(&self) -> &str {
        "ShapeOf"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let x = inputs[0].as_ref().expect("an input").tensor()?;
        let sizes: Vec<i64> = at.shape(x).iter().map(|&size| size as i64).collect();
        Ok(vec![at.constant(Array::vector(&sizes)?).into()])
    }
}

/// An output that is a constant for a shape is in no graph. It is that of the call, whatever its batch has.
#[test]
fn an_output_that_is_the_shape_is_that_of_the_call() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let relu = writer.node(Apply(Op::Unary { op: UnaryOp::Relu }), &[x]);
    let shape = writer.node(ShapeOf, &[x]);
    writer.body.add_output("shape", shape, ValueType::Tensor(DType::I64, None));
    // The outputs are "shape" and then "y".
    let session = writer.session(relu, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..3).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    for result in &together(&session, &inputs)[1..] {
        let found = result.as_ref().unwrap().tensor("shape").unwrap().to_vec::<i64>().unwrap();
        assert_eq!(found, [1, 8]);
    }
    assert_eq!(session.batching_stats().sizes[2], 1);
}

/// Indices with fewer rows than there are elements stand for the first rows: in a batch they would be those of its first call.
#[test]
fn a_scatter_of_one_row_is_not_joined() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let at = writer.constant(Array::from_slice(&[2i64, 5], &[1, 2]).unwrap());
    let updates = writer.constant(Array::from_slice(&[100f32, 200.0], &[1, 2]).unwrap());
    let reduction = millstream_core::ScatterReduction::Replace;
    let y = writer.node(Apply(Op::ScatterElements { axis: 1, reduction }), &[x, at, updates]);
    let no = joinable(&writer.session(y, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("not joined") && no.contains("node1"), "{no}");

    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let at = writer.constant(Array::from_slice(&[2i64, 5], &[1, 2]).unwrap());
    let y = writer.node(Apply(Op::GatherElements { axis: 1 }), &[x, at]);
    let no = joinable(&writer.session(y, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("not joined"), "{no}");
}

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

use super::*;
use crate::proto::{AttributeProto, NodeProto};
use crate::testing::{answer, node, node_with};

#[test]
fn elements_are_found_in_what_repeats() {
    let places = |from: &[usize], to: &[usize]| places(from, to).unwrap().collect::<Vec<_>>();
    assert_eq!(places(&[2, 3], &[2, 3]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(places(&[3], &[2, 3]), [0, 1, 2, 0, 1, 2]);
    assert_eq!(places(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
    assert_eq!(places(&[], &[2]), [0, 0]);
    assert_eq!(places(&[1], &[0]), [0usize; 0]);
}

#[test]
fn white_space_separates_words() {
    assert_eq!(words(" a  bc\td ", None), ["a", "bc", "d"]);
    assert_eq!(words(" a  bc\td ", Some(1)), ["a", "bc\td"]);
    assert_eq!(words("  ", None), [""; 0]);
    assert_eq!(words("a b", Some(0)), ["a b"]);
}

#[test]
fn one_hot_takes_strings() {
    let texts = AttributeProto {
        name: Some("value_strings".into()),
        r#type: Some(8),
        strings: vec!["0.5".into(), "7".into()],
        ..Default::default()
    };
    let nodes = vec![
        NodeProto { attribute: vec![texts], ..node("Constant", &[], "values") },
        node("OneHot", &["x0", "x1", "values"], "texts"),
        node_with("Cast", &["texts"], "y", &[("to", 1)]),
    ];
    let given = [Array::vector(&[1i64, -3]).unwrap(), Array::scalar(3i64)];
    let wanted = vec![0.5, 7.0, 0.5, 7.0, 0.5, 0.5];
    assert_eq!(answer(nodes, &given), Ok((vec![2, 3], wanted)));
}

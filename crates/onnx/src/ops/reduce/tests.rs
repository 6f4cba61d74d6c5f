use millstream_graph::Array;

use crate::testing::{answer, node, node_with};

/// What was found in a picture may be nothing, and its mean is one of several results then.
#[test]
fn the_mean_of_no_elements_is_zero() {
    let nothing = || Array::from_slice(&[0f32; 0], &[2, 0]).unwrap();
    let all = node_with("ReduceMean", &["x0"], "y", &[("keepdims", 0)]);
    assert_eq!(answer(vec![all], &[nothing()]), Ok((vec![], vec![0.0])));
    let kept = node("ReduceMean", &["x0"], "y");
    assert_eq!(answer(vec![kept], &[nothing()]), Ok((vec![1, 1], vec![0.0])));
}

use crate::proto::{AttributeProto, NodeProto, SparseTensorProto, TensorProto};
use crate::testing::{answer, node};

fn sparse(places: &[i64], shape: &[i64]) -> Result<(Vec<usize>, Vec<f32>), String> {
    let values = TensorProto {
        name: Some("v".into()),
        dims: vec![2],
        data_type: Some(1),
        float_data: vec![5.0, 7.0],
        ..Default::default()
    };
    let indices = TensorProto {
        dims: vec![places.len() as i64],
        data_type: Some(7),
        int64_data: places.to_vec(),
        ..Default::default()
    };
    let tensor =
        SparseTensorProto { values: Some(values), indices: Some(indices), dims: shape.to_vec() };
    let attribute = AttributeProto {
        name: Some("sparse_value".into()),
        r#type: Some(11),
        sparse_tensor: Some(tensor),
        ..Default::default()
    };
    answer(vec![NodeProto { attribute: vec![attribute], ..node("Constant", &[], "y") }], &[])
}

#[test]
fn a_sparse_constant_has_its_zeros() {
    assert_eq!(sparse(&[1, 3], &[2, 2]), Ok((vec![2, 2], vec![0.0, 5.0, 0.0, 7.0])));
    let error = sparse(&[1, 4], &[2, 2]).unwrap_err();
    assert!(error.contains("index 4 of shape [2, 2]"), "{error}");
}

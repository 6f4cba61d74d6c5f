use super::*;

#[test]
fn totals_are_by_type() {
    let tensor = |dtype: &str, shape: &[usize], bytes| TensorInfo {
        name: "t".into(),
        dtype: dtype.into(),
        shape: shape.to_vec(),
        bytes,
    };
    let all = [tensor("f32", &[2, 3], 24), tensor("i64", &[], 8), tensor("f32", &[4], 16)];
    let totals = totals(&all);
    assert_eq!(totals["f32"], Total { tensors: 2, elements: 10, bytes: 40 });
    assert_eq!(totals["i64"], Total { tensors: 1, elements: 1, bytes: 8 });
    assert_eq!([size(8), size(2048), size(3 << 20)], ["8 B", "2.0 KiB", "3.0 MiB"]);
}

use super::*;

#[test]
fn a_walk_is_in_row_major_order() {
    assert_eq!(walk(&[2, 3], &[10, 1], 5), [5, 6, 7, 15, 16, 17]);
    assert_eq!(walk(&[2, 2], &[1, 7], 0), [0, 7, 1, 8]);
    assert_eq!(walk(&[], &[], 4), [4]);
    assert!(walk(&[2, 0, 3], &[1, 1, 1], 0).is_empty());
}

#[test]
fn broadcasting_repeats_ones_and_adds_leading_axes() {
    let values = [1, 2, 3].map(Value::Int).to_vec();
    let column = Dense { dtype: DType::I32, shape: vec![3, 1], values };
    let numbers: Vec<i64> =
        column.broadcast(&[2, 3, 2]).values.iter().map(|value| value.as_i64()).collect();
    assert_eq!(numbers, [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3]);
}

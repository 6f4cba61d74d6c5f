use super::*;

#[test]
fn numbers_print_as_in_python() {
    let texts = [1e-5f32, 1e-12, 0.01, 0.0, 1.5].map(small);
    assert_eq!(texts, ["1e-05", "1e-12", "0.01", "0.0", "1.5"]);
    assert_eq!([1e-5f64, 1e-4].map(small), ["1e-05", "0.0001"]);
    assert_eq!((tuple(&[3]), tuple(&[3, 1])), ("(3,)".into(), "(3, 1)".into()));
    assert_eq!((one_or_tuple(&[2, 2]), one_or_tuple(&[2, 1])), ("2".into(), "(2, 1)".into()));
    assert_eq!(type_name::<Vec<std::string::String>>(), "Vec");
}

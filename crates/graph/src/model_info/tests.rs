use super::{ModelInfo, WeightInfo};

#[test]
fn weights_are_summed_up_by_type() {
    let mut info = ModelInfo::new("ONNX");
    info.add_weights("f32", 10, 40, false);
    info.add_weights("i8", 3, 3, true);
    info.add_weights("f32", 5, 20, true);
    let sum = |dtype: &str, [tensors, elements, bytes, external_bytes]: [u64; 4]| WeightInfo {
        dtype: dtype.into(),
        tensors: tensors as usize,
        elements,
        bytes,
        external_bytes,
    };
    assert_eq!(info.weights, [sum("f32", [2, 15, 60, 20]), sum("i8", [1, 3, 3, 3])]);
}

#[test]
fn sums_of_sizes_that_a_file_only_claims_end_at_the_largest_number() {
    let mut info = ModelInfo::new("ONNX");
    info.add_weights("f32", u64::MAX, u64::MAX, true);
    info.add_weights("f32", 1, 4, true);
    let WeightInfo { elements, bytes, external_bytes, .. } = info.weights[0].clone();
    assert_eq!([elements, bytes, external_bytes], [u64::MAX; 3]);
}

#[test]
fn a_file_that_no_importer_knows_or_that_is_missing_is_an_error() {
    let error = ModelInfo::open("Cargo.toml").unwrap_err().to_string();
    assert!(error.contains("extension"), "{error}");
    let error = ModelInfo::open("gone.model").unwrap_err().to_string();
    assert!(error.contains("gone.model"), "{error}");
}

use super::*;

#[test]
fn settings_are_strict_and_default_to_exact_products() {
    let none = Settings::from_lookup(|_| None).unwrap();
    assert_eq!(none, Settings { tf32: false, graphs: true, overlap: true });
    let on = Settings::from_lookup(|_| Some("1".into())).unwrap();
    assert!(on.tf32 && on.graphs);
    let error = Settings::from_lookup(|_| Some("yes".into())).unwrap_err();
    assert!(error.to_string().contains("MILLSTREAM_CUDA_TF32"), "{error}");
}

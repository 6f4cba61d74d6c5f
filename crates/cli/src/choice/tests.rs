use super::*;

#[test]
fn a_path_is_checked_without_a_trace() {
    let folder = std::env::temp_dir().join(format!("millstream-output-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("result");
    check_output(&file).unwrap();
    assert!(!file.exists());
    std::fs::write(&file, "kept").unwrap();
    check_output(&file).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    for wrong in [folder.clone(), folder.join("missing/result")] {
        let error = check_output(&wrong).unwrap_err().to_string();
        assert!(error.contains(wrong.to_str().unwrap()), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

use super::*;

#[test]
fn folders_of_toolkits_are_searched() {
    assert!(folders().contains(&PathBuf::from("/usr/local/cuda/lib64")));
}

#[test]
fn what_is_missing_is_said_with_how_to_get_it() {
    // With a driver there is nothing to see here; the tests on a GPU cover that.
    if let Err(error) = check() {
        let text = error.to_string();
        assert!(text.contains("cuda") && text.contains("install"), "{text}");
    }
}

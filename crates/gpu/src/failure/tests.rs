use super::*;

#[test]
fn a_failure_during_work_names_the_call_and_does_not_speak_of_opening() {
    let failure = Failure::new("launch", "BAD_CONFIG", "words");
    let error = failure.during_work("gpu:0");
    assert!(matches!(error, Error::Driver { .. }));
    let text = error.to_string();
    assert!(text.contains("gpu:0") && text.contains("launch gave BAD_CONFIG (words)"), "{text}");
    assert!(!text.contains("cannot be opened"), "{text}");
    assert!(failure.while_opening("gpu:0").to_string().contains("cannot be opened"));
}

#[test]
fn a_sticky_failure_loses_the_device_for_good() {
    let status = DeviceStatus::new("gpu:0".into());
    let failure = Failure::new("launch", "BAD_CONFIG", "words");
    assert!(status.survive(&failure).is_ok() && status.check().is_ok());
    let lost = status.lose(&failure);
    assert!(matches!(lost, Error::DeviceLost { .. }));
    assert_eq!(status.check(), Err(lost));
    // The first reason stays.
    status.lose(&Failure::new("free", "LATER", "words"));
    assert!(status.check().unwrap_err().to_string().contains("BAD_CONFIG"));
    assert!(status.survive(&failure).is_err());
}

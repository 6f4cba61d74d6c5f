use super::*;

fn with(key: &'static str, value: &'static str) -> Result<Settings> {
    Settings::from_lookup(|asked| (asked == key).then(|| value.to_owned()))
}

#[test]
fn defaults_are_changed_by_what_is_set_and_nonsense_is_an_error() {
    let defaults = Settings::from_lookup(|_| None).unwrap();
    assert!(defaults.replay && defaults.residency && defaults.queues.is_none());
    assert_eq!(with("MILLSTREAM_METAL_QUEUES", "3").unwrap().queues, Some(3));
    assert_eq!(with("MILLSTREAM_METAL_QUEUES", "0").unwrap(), defaults);
    assert_eq!(with("MILLSTREAM_METAL_WORK", "90").unwrap().work, 90);
    assert!(!with("MILLSTREAM_METAL_REPLAY", "0").unwrap().replay);
    assert!(!defaults.keep_warm && with("MILLSTREAM_METAL_KEEP_WARM", "1").unwrap().keep_warm);
    let capture = with("MILLSTREAM_METAL_CAPTURE", "a.gputrace").unwrap();
    assert_eq!((capture.capture.as_deref(), capture.capture_batches), (Some("a.gputrace"), 20));
    assert_eq!(with("MILLSTREAM_METAL_CAPTURE", "").unwrap(), defaults);
    assert_eq!(with("MILLSTREAM_METAL_CAPTURE_BATCHES", "3").unwrap().capture_batches, 3);
    assert!(!defaults.archives && with("MILLSTREAM_METAL_ARCHIVES", "1").unwrap().archives);
    assert!(!defaults.indirect && with("MILLSTREAM_METAL_INDIRECT", "1").unwrap().indirect);
    assert!(defaults.matrices && !with("MILLSTREAM_METAL_MATRICES", "0").unwrap().matrices);
    for (key, value) in [
        ("MILLSTREAM_METAL_QUEUES", "65"),
        ("MILLSTREAM_METAL_WORK", "-1"),
        ("MILLSTREAM_METAL_KEEP_WARM", "2"),
        ("MILLSTREAM_METAL_CAPTURE_BATCHES", "many"),
        ("MILLSTREAM_METAL_RESIDENCY", "yes"),
    ] {
        let error = with(key, value).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
}

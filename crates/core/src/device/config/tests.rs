use super::*;

fn parse(pairs: &[(&str, &str)]) -> Result<Config> {
    Config::from_lookup(|key| {
        pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn an_empty_environment_gives_the_defaults() {
    assert_eq!(parse(&[]).unwrap(), Config::default());
}

#[test]
fn every_variable_is_read() {
    let config = parse(&[
        ("MILLSTREAM_STREAMS", "7"),
        ("MILLSTREAM_EXHAUSTION", "wait:100"),
        ("MILLSTREAM_MEMORY_LIMIT", "3M"),
        ("MILLSTREAM_MEMORY_HIGH", "80"),
        ("MILLSTREAM_MEMORY_LOW", "50"),
        ("MILLSTREAM_WAIT_TIMEOUT_MS", "1500"),
        ("MILLSTREAM_THREADS", "3"),
        ("MILLSTREAM_INTRA_OP", "off"),
        ("MILLSTREAM_BATCH_COMMANDS", "5"),
        ("MILLSTREAM_IN_FLIGHT", "2"),
        ("MILLSTREAM_KERNEL_CACHE", "9"),
        ("MILLSTREAM_PROFILER_RING", "100"),
        ("MILLSTREAM_TRACE", "trace.json"),
        ("MILLSTREAM_QUIET", "1"),
    ])
    .unwrap();
    let expected = Config {
        streams: Some(7),
        exhaustion: Exhaustion::Wait(Some(Duration::from_millis(100))),
        memory_limit: Some(3 << 20),
        memory_high: 80,
        memory_low: 50,
        wait_timeout: Some(Duration::from_millis(1500)),
        threads: Some(3),
        intra_op: false,
        batch_commands: 5,
        in_flight: 2,
        kernel_cache: 9,
        profiler_ring: 100,
        trace: Some("trace.json".into()),
        quiet: true,
    };
    assert_eq!(config, expected);
}

#[test]
fn what_does_not_parse_is_an_error_that_names_variable_and_value() {
    for (key, value) in [
        ("MILLSTREAM_QUIET", "yes"),
        ("MILLSTREAM_STREAMS", "0"),
        ("MILLSTREAM_STREAMS", "65"),
        ("MILLSTREAM_STREAMS", " 8"),
        ("MILLSTREAM_STREAMS", ""),
        ("MILLSTREAM_EXHAUSTION", "Share"),
        ("MILLSTREAM_EXHAUSTION", "wait:soon"),
        ("MILLSTREAM_MEMORY_LIMIT", "1.5G"),
        ("MILLSTREAM_MEMORY_LIMIT", "0"),
        ("MILLSTREAM_MEMORY_LIMIT", "99999999999T"),
        ("MILLSTREAM_MEMORY_LIMIT", "K"),
        ("MILLSTREAM_WAIT_TIMEOUT_MS", "0"),
        ("MILLSTREAM_WAIT_TIMEOUT_MS", "-1"),
        ("MILLSTREAM_THREADS", "two"),
        ("MILLSTREAM_INTRA_OP", "yes"),
        ("MILLSTREAM_IN_FLIGHT", "0"),
        ("MILLSTREAM_PROFILER_RING", "3"),
        ("MILLSTREAM_TRACE", ""),
    ] {
        let error = parse(&[(key, value)]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
}

#[test]
fn low_above_high_is_an_error() {
    assert!(parse(&[("MILLSTREAM_MEMORY_HIGH", "50"), ("MILLSTREAM_MEMORY_LOW", "60")]).is_err());
}

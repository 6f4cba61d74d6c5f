use super::*;

#[test]
fn values_are_those_of_the_text() {
    let text = r#"{"a": [1, -2, 2.5, null, true, "\u00e9"], "b": {"c": {}}, "a": 3e400}"#;
    for text in [text.replace(", \"a\": 3e400", ""), text.into(), "[".into(), "1 2".into()] {
        let expected = serde_json::from_str::<Value>(&text).ok();
        assert_eq!(parse(text.as_bytes()).ok(), expected, "{text}");
    }
}

#[test]
fn what_takes_more_than_its_length_says_is_refused() {
    let many = |value: &str| format!("[{}]", vec![value; 300_000].join(","));
    for value in ["{\"\":0}", "{\"\":{\"\":{\"\":0}}}", "[]"] {
        let error = parse(many(value).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("too much memory"), "{value}: {error}");
    }
    let words: Vec<_> = (0..200_000).map(|word| format!("\"w{word}\":{word}")).collect();
    parse(format!("{{{}}}", words.join(",")).as_bytes()).unwrap();
    assert!(parse("[".repeat(100_000).as_bytes()).is_err());
}

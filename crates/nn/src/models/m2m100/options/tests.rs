use super::*;

fn open(settings: &str) -> Result<GenerationOptions> {
    let name = format!("millstream-generation-{:?}", std::thread::current().id());
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("generation_config.json"), settings).unwrap();
    let options = GenerationOptions::open(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    options
}

#[test]
fn settings_that_would_change_the_output_are_refused_by_name() {
    for key in NEUTRAL.map(|(key, _)| key).into_iter().chain(OFF) {
        let message = open(&format!("{{{key:?}: 3}}")).unwrap_err().to_string();
        assert!(message.contains(key) && message.contains('3'), "{message}");
    }
    for key in UNSUPPORTED {
        let message = open(&format!("{{{key:?}: [[5]]}}")).unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn neutral_settings_are_taken_whatever_way_they_are_written() {
    let options = open(
        r#"{"do_sample": false, "num_beam_groups": 1, "repetition_penalty": 1.0, "min_length": 0,
                "bad_words_ids": null, "max_length": 7}"#,
    );
    assert_eq!(options.unwrap().max_length, 7);
}

#[test]
fn new_tokens_go_before_the_length() {
    assert_eq!(open(r#"{"max_new_tokens": 9, "max_length": 7}"#).unwrap().max_length, 10);
}

use super::{WIDTH, wrapped};

#[test]
fn lines_hold_all_words_and_none_is_longer_than_asked() {
    let words: Vec<String> = (0..200).map(|number| format!("Operator{number}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let lines = wrapped(&words);
    assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
    assert_eq!(lines.join(" "), words.join(", "));
}

#[test]
fn a_word_that_is_longer_than_a_line_has_one_of_its_own() {
    let long = "x".repeat(2 * WIDTH);
    assert_eq!(wrapped(&["a", &long, "b"]), ["a,".to_owned(), format!("{long},"), "b".into()]);
}

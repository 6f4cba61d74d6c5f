//! What `fixtures/minilm.py` does not show: other settings, and files that are not valid.

use serde_json::{Value, json};

use super::WordPiece;
use super::pieces::steps;
use super::read::build;
use super::special::finds;

fn file() -> Value {
    let words =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hug", "##s", "##ging", "a", "é", "!", "e", "É"];
    let vocab: serde_json::Map<_, _> =
        words.iter().enumerate().map(|(index, &word)| (word.to_owned(), index.into())).collect();
    json!({
        "added_tokens": [{"id": 3, "content": "[SEP]"}, {"id": 20, "content": "[MASK]", "lstrip": true}],
        "normalizer": {"type": "BertNormalizer", "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab}
    })
}

fn tokenizer(file: &Value) -> WordPiece {
    build(file).unwrap()
}

#[test]
fn words_fall_into_the_longest_pieces() {
    let tokenizer = tokenizer(&file());
    assert_eq!(tokenizer.encode("Hugs hugging!a", 99), [2, 4, 5, 4, 6, 9, 7, 3]);
    assert_eq!(tokenizer.encode("hugz", 99), [2, 1, 3]);
    assert_eq!(tokenizer.encode("", 99), [2, 3]);
    assert_eq!(tokenizer.encode(&"a".repeat(101), 99), [2, 1, 3]);
    assert_eq!((tokenizer.vocabulary_size(), tokenizer.pad_token()), (21, 0));
}

#[test]
fn a_text_is_cut_to_the_most_tokens() {
    let tokenizer = tokenizer(&file());
    assert_eq!(tokenizer.encode("a a a a", 4), [2, 7, 7, 3]);
    assert_eq!(tokenizer.encode("hugs", 3), [2, 4, 3]);
    assert_eq!(tokenizer.encode("a [SEP] a", 4), [2, 7, 3, 3]);
    assert_eq!(tokenizer.encode("a a", 0), [2, 3]);
}

#[test]
fn special_tokens_are_found_as_they_are_written() {
    let tokenizer = tokenizer(&file());
    assert_eq!(tokenizer.encode("a [MASK][SEP]a", 99), [2, 7, 20, 3, 7, 3]);
    assert_eq!(tokenizer.encode("[sep]", 99), [2, 1, 1, 1, 3]);
}

#[test]
fn case_and_accents_stay_where_the_file_says_so() {
    let mut file = file();
    assert_eq!(tokenizer(&file).encode("É", 99), [2, 10, 3]);
    file["normalizer"]["strip_accents"] = false.into();
    assert_eq!(tokenizer(&file).encode("É", 99), [2, 8, 3]);
    file["normalizer"]["lowercase"] = false.into();
    assert_eq!(tokenizer(&file).encode("É", 99), [2, 11, 3]);
}

#[test]
fn other_tokenizers_and_broken_files_are_refused() {
    for (place, value) in [
        ("/model/type", json!("BPE")),
        ("/model/vocab", json!([])),
        ("/model/vocab/hug", json!(-1)),
        ("/model/unk_token", json!("nothing")),
        ("/normalizer/type", json!("NFKC")),
        ("/normalizer/lowercase", json!("yes")),
        ("/pre_tokenizer", json!(null)),
        ("/post_processor/cls", json!("[CLS]")),
        ("/post_processor/type", json!("RobertaProcessing")),
        ("/added_tokens/0", json!({"id": 1, "content": "x", "normalized": true})),
        ("/added_tokens/0", json!(7)),
        ("", json!([])),
    ] {
        let mut file = file();
        *file.pointer_mut(place).unwrap() = value;
        build(&file).unwrap_err();
    }
}

#[test]
fn encoding_looks_at_each_byte_once_for_each_byte_of_a_piece() {
    let mut file = file();
    // Pieces that a long word nearly has, again and again.
    for piece in ["x", "##x", &format!("##{}y", "x".repeat(40))] {
        file["model"]["vocab"][piece] = 7.into();
    }
    file["model"]["max_input_chars_per_word"] = 10_000.into();
    let tokenizer = tokenizer(&file);
    let text = "x".repeat(10_000);
    let steps = steps::of(|| assert_eq!(tokenizer.encode(&text, usize::MAX).len(), 10_002));
    assert!(steps <= text.len() * 42, "{steps} steps");
    let unknown = format!("{}z", "x".repeat(9_000));
    let steps = steps::of(|| assert_eq!(tokenizer.encode(&unknown, 99), [2, 1, 3]));
    assert!(steps <= unknown.len() * 42, "{steps} steps");
}

#[test]
fn special_tokens_are_searched_for_once_each_however_often_one_occurs() {
    let mut file = file();
    for token in 0..500 {
        let added = json!({"id": 100 + token, "content": format!("<never {token}>")});
        file["added_tokens"].as_array_mut().unwrap().push(added);
    }
    let tokenizer = tokenizer(&file);
    let text = "[SEP]".repeat(1_000);
    let finds = finds::of(|| assert_eq!(tokenizer.encode(&text, usize::MAX).len(), 1_002));
    assert!(finds <= 502 + 1_000, "{finds} searches");
}

#[test]
fn a_template_of_too_many_tokens_is_refused() {
    let mut file = file();
    let special = json!({"SpecialToken": {"id": "[CLS]"}});
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": vec![special; 60_000],
        "special_tokens": {"[CLS]": {"ids": vec![2; 200_000]}},
    });
    let error = build(&file).unwrap_err();
    assert!(error.contains("more than 1000 tokens"), "{error}");
    file["model"]["vocab"]["x".repeat(1025)] = 7.into();
    file["post_processor"] = json!(null);
    assert!(build(&file).unwrap_err().contains("1025 bytes"));
}

//! What `fixtures/minilm.py` does not show: other settings, and files that are not valid.

use serde_json::{Value, json};

use super::WordPiece;
use super::read::build;

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

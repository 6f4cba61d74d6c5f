use std::fs;
use std::path::{Path, PathBuf};

use millstream_cpu as _;
use serde_json::{Value, json};

use super::*;
use crate::Error;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A folder of its own that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("millstream-text-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn copy(self, from: &Path) -> Self {
        for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, self.0.join(file.file_name().unwrap())).unwrap();
            }
        }
        self
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), contents).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `fixtures/m2m100_text.py` asked Transformers.
#[test]
fn tokens_and_texts_are_those_of_transformers() {
    for kind in ["unigram", "bpe"] {
        let folder = fixtures().join("m2m100-text").join(kind);
        let tokenizer = TranslationTokenizer::open(&folder).unwrap();
        let expected = fs::read(folder.join("expected.json")).unwrap();
        let cases: Vec<(String, Vec<u32>, String)> = serde_json::from_slice(&expected).unwrap();
        assert!(cases.len() >= 9);
        for (text, tokens, back) in cases {
            assert_eq!(tokenizer.encode(&text, "is").unwrap(), tokens, "{kind}: {text:?}");
            assert_eq!(tokenizer.decode(&tokens).unwrap(), back, "{kind}: {text:?}");
        }
    }
}

/// Words by their number, and two languages.
fn tokenizer_json() -> Value {
    let special = |id: u32, content: &str| {
        json!({
            "id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    json!({
        "version": "1.0",
        "added_tokens": [special(2, "</s>"), special(98, "__en__"), special(99, "deu_Latn")],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordLevel",
            "vocab": { "<unk>": 3, "</s>": 2, "mill": 10, "stream": 11, "__en__": 98, "deu_Latn": 99 },
            "unk_token": "<unk>",
        },
    })
}

#[test]
fn a_tokenizer_json_is_taken_first() {
    let scratch = Scratch::new("json").copy(&fixtures().join("m2m100-text/bpe"));
    scratch.write("tokenizer.json", tokenizer_json().to_string());
    let tokenizer = TranslationTokenizer::open(&scratch.0).unwrap();
    assert_eq!(tokenizer.languages(), ["deu_Latn", "en"]);
    assert_eq!(tokenizer.encode("Stream mill ocean", "en").unwrap(), [98, 11, 10, 3, 2]);
    assert_eq!(tokenizer.decode(&[2, 99, 10, 11, 2]).unwrap(), "mill stream");
}

#[test]
fn languages_have_the_tokens_of_transformers() {
    let scratch = Scratch::new("languages").copy(&fixtures().join("m2m100-text/bpe"));
    scratch.write("tokenizer_config.json", "{}");
    let tokenizer = TranslationTokenizer::open(&scratch.0).unwrap();
    assert_eq!(tokenizer.languages().len(), 100);
    // As those of M2M100, whose vocabulary has 128004 tokens: 128022 and 128028.
    assert_eq!(
        (tokenizer.language("en").unwrap(), tokenizer.language("fr").unwrap()),
        (92 + 18, 92 + 24)
    );
    let error = tokenizer.language("klingon").unwrap_err().to_string();
    assert!(error.contains("klingon") && error.contains("af, am"), "{error}");
}

#[test]
fn text_goes_in_and_text_comes_out() {
    let texts = ["the mill turns", "bread and water", "a wheel", "streams run past the mill"];
    for kind in ["unigram", "bpe"] {
        let scratch = Scratch::new(kind).copy(&fixtures().join("m2m100"));
        let scratch = scratch.copy(&fixtures().join("m2m100-text").join(kind));
        let translator = Translator::open(&scratch.0, &Device::cpu().unwrap()).unwrap();
        let to = |target: &str| texts.map(|text| translator.translate(text, "en", target).unwrap());
        let german = to("de");
        // The model knows no languages, but its answers depend on the one that is asked for.
        assert!(german != to("ja") && german.iter().any(|text| !text.is_empty()), "{german:?}");
        assert!(german.iter().all(|text| !text.contains("__")), "{german:?}");

        let options = translator.model().generation_options().clone();
        assert_eq!(translator.translate_all(&texts, "en", "de", &options).unwrap(), german);
        let language = translator.tokenizer().language("de").unwrap();
        let forced = GenerationOptions { forced_bos_token_id: Some(language), ..options };
        let tokens = texts.map(|text| translator.tokenizer().encode(text, "en").unwrap());
        let outputs = translator.model().generate(&tokens, &forced).unwrap();
        let plain = outputs.iter().map(|tokens| translator.tokenizer().decode(tokens).unwrap());
        assert!(plain.eq(german));
    }
}

#[test]
fn files_that_are_broken_anywhere_are_errors() {
    let scratch = Scratch::new("broken").copy(&fixtures().join("m2m100-text/unigram"));
    let refused = || match TranslationTokenizer::open(&scratch.0) {
        Err(Error::Format { path, .. } | Error::Read { path, .. }) => path,
        other => panic!("{other:?}"),
    };
    let model = fs::read(scratch.0.join("sentencepiece.bpe.model")).unwrap();
    for at in 0..model.len() {
        // Most of these are models still; none of them may be a panic.
        let mut flipped = model.clone();
        flipped[at] ^= 0x15;
        for broken in [&flipped[..], &model[..at]] {
            scratch.write("sentencepiece.bpe.model", broken);
            if let Ok(tokenizer) = TranslationTokenizer::open(&scratch.0) {
                let _ = tokenizer.encode("the mill of the stream 日", "en");
            }
        }
    }
    scratch.write("sentencepiece.bpe.model", "");
    assert!(refused().ends_with("sentencepiece.bpe.model"));
    scratch.write("sentencepiece.bpe.model", &model);
    for bad in ["[]", r#"{"</s>": 0, "<unk>": 7}"#, r#"{"a": 0}"#] {
        scratch.write("vocab.json", bad);
        assert!(refused().ends_with("vocab.json"));
    }
    scratch.write("tokenizer.json", r#"{"model": 1}"#);
    assert!(refused().ends_with("tokenizer.json"));
    let mut without_languages = tokenizer_json();
    without_languages["added_tokens"] = json!([]);
    scratch.write("tokenizer.json", without_languages.to_string());
    assert!(refused().ends_with("tokenizer.json"));
}

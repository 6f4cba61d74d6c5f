//! Reading `tokenizer.json`.

use std::path::Path;

use serde_json::Value;

use super::WordPiece;
use super::normalize::Normalizer;
use super::pieces::Pieces;
use super::special::{SpecialToken, SpecialTokens};
use super::words::Vocabulary;
use crate::Result;
use crate::models::config::{invalid, read};

/// What is wrong with the file.
type Reason = String;

/// No word of a language is longer. The bound keeps the search for pieces short.
const MAX_CHARACTERS: u64 = 10_000;
const MAX_SPECIAL: usize = 1000;
/// Pieces are parts of words. Their length bounds each search.
const LONGEST_PIECE: usize = 1024;
/// The most tokens before a text, and after it.
const MAX_AROUND: usize = 1000;

pub fn open(path: &Path) -> Result<WordPiece> {
    build(&read(path)?).map_err(|reason| invalid(path.display(), reason))
}

pub fn build(file: &Value) -> Result<WordPiece, Reason> {
    typed(&file["pre_tokenizer"], "pre_tokenizer", "BertPreTokenizer")?;
    let vocabulary = vocabulary(&file["model"])?;
    let special = special(&file["added_tokens"])?;
    let (before, after) = template(&file["post_processor"])?;
    Ok(WordPiece {
        normalizer: normalizer(&file["normalizer"])?,
        pad_token: pad_token(file, &special, &vocabulary)?,
        max_tokens: max_tokens(&file["truncation"])?,
        vocabulary,
        special,
        before,
        after,
    })
}

fn typed<'a>(value: &'a Value, key: &str, name: &str) -> Result<&'a Value, Reason> {
    match value["type"].as_str() {
        Some(found) if found == name => Ok(value),
        found => Err(format!("{key:?} is {found:?}, supported is {name:?}")),
    }
}

/// The beginning of a value, for a message.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(100).collect()
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn normalizer(value: &Value) -> Result<Normalizer, Reason> {
    let value = typed(value, "normalizer", "BertNormalizer")?;
    let flag = |key: &str, default| match &value[key] {
        Value::Null => Ok(default),
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("{key:?} is {}", shown(other))),
    };
    let lowercase = flag("lowercase", true)?;
    Ok(Normalizer {
        clean_text: flag("clean_text", true)?,
        handle_chinese_chars: flag("handle_chinese_chars", true)?,
        strip_accents: flag("strip_accents", lowercase)?,
        lowercase,
    })
}

fn vocabulary(model: &Value) -> Result<Vocabulary, Reason> {
    // Old files do not name the model.
    if !model["type"].is_null() {
        typed(model, "model", "WordPiece")?;
    }
    let words = model["vocab"].as_object().ok_or("it has no vocabulary")?;
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("##");
    let (mut first, mut further, mut size) = (Vec::with_capacity(words.len()), Vec::new(), 0);
    for (word, number) in words {
        if word.len() > LONGEST_PIECE {
            return Err(format!("a piece of {} bytes, above {LONGEST_PIECE}", word.len()));
        }
        let number =
            token(number).ok_or_else(|| format!("{word:?} has the number {}", shown(number)))?;
        size = size.max(number as usize + 1);
        first.push((word.as_str().into(), number));
        if let Some(piece) = word.strip_prefix(prefix) {
            further.push((piece.into(), number));
        }
    }
    let (first, further) = (Pieces::new(first), Pieces::new(further));
    let unknown = model["unk_token"].as_str().and_then(|name| first.get(name));
    let max_characters = match &model["max_input_chars_per_word"] {
        Value::Null => 100,
        value => {
            let most = value.as_u64().filter(|most| (1..=MAX_CHARACTERS).contains(most));
            most.ok_or("max_input_chars_per_word")? as usize
        }
    };
    let unknown = unknown.ok_or("no word stands for unknown ones")?;
    Ok(Vocabulary { first, further, unknown, max_characters, size })
}

fn special(added: &Value) -> Result<SpecialTokens, Reason> {
    let added = added.as_array().map(Vec::as_slice).unwrap_or_default();
    if added.len() > MAX_SPECIAL {
        return Err(format!("{} added tokens, above {MAX_SPECIAL}", added.len()));
    }
    let read = |value: &Value| {
        let flag = |key: &str| value[key].as_bool().unwrap_or(false);
        let text = value["content"].as_str().filter(|text| !text.is_empty());
        let (Some(text), Some(token)) = (text, token(&value["id"])) else {
            return Err(format!("an added token is {}", shown(value)));
        };
        if flag("normalized") || flag("single_word") {
            return Err(format!(
                "added token {text:?}: normalized and single_word are not supported"
            ));
        }
        Ok(SpecialToken { text: text.into(), token, strips: (flag("lstrip"), flag("rstrip")) })
    };
    Ok(SpecialTokens(added.iter().map(read).collect::<Result<_, _>>()?))
}

/// The tokens before and after a single text.
fn template(value: &Value) -> Result<(Vec<u32>, Vec<u32>), Reason> {
    let missing = || "its post_processor is incomplete".to_owned();
    match value["type"].as_str() {
        None if value.is_null() => Ok(Default::default()),
        Some("BertProcessing") => {
            let number = |key: &str| token(&value[key][1]).ok_or_else(missing);
            Ok((vec![number("cls")?], vec![number("sep")?]))
        }
        Some("TemplateProcessing") => {
            let (mut before, mut after, mut text) = (Vec::new(), Vec::new(), false);
            for piece in value["single"].as_array().ok_or_else(missing)? {
                if piece["Sequence"].is_object() && !text {
                    text = true;
                    continue;
                }
                let name = piece["SpecialToken"]["id"].as_str().ok_or_else(missing)?;
                let ids = value["special_tokens"][name]["ids"].as_array().ok_or_else(missing)?;
                let around = if text { &mut after } else { &mut before };
                for id in ids {
                    if around.len() == MAX_AROUND {
                        return Err(format!("more than {MAX_AROUND} tokens around a text"));
                    }
                    around.push(token(id).ok_or_else(missing)?);
                }
            }
            Ok((before, after))
        }
        other => Err(format!("\"post_processor\" is {other:?}")),
    }
}

fn pad_token(
    file: &Value,
    special: &SpecialTokens,
    vocabulary: &Vocabulary,
) -> Result<u32, Reason> {
    if let Value::Object(padding) = &file["padding"] {
        let pad = padding.get("pad_id").and_then(token);
        return pad.ok_or_else(|| "its padding has no pad_id".into());
    }
    let named = special.0.iter().find(|special| special.text == "[PAD]");
    let word = || vocabulary.first.get("[PAD]");
    named
        .map(|special| special.token)
        .or_else(word)
        .ok_or_else(|| "no word stands for padding".into())
}

fn max_tokens(truncation: &Value) -> Result<Option<usize>, Reason> {
    if truncation.is_null() {
        return Ok(None);
    }
    if truncation["direction"].as_str().is_some_and(|direction| direction != "Right") {
        return Err("it cuts texts on the left".into());
    }
    match truncation["max_length"].as_u64().and_then(|most| usize::try_from(most).ok()) {
        Some(most) => Ok(Some(most)),
        None => Err("its truncation has no max_length".into()),
    }
}

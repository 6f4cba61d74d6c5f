//! Tokenizer, of `com.microsoft`.

use millstream_graph::{Operator, Strings};
use regex::Regex;

use super::super::common::refusal;
use super::super::host::host_operator;
use super::pattern;
use crate::Result;
use crate::node::NodeDef;

enum How {
    /// Every character.
    Characters,
    /// What a pattern finds.
    Found(Regex),
    /// What stands between patterns, cut by the first, then by the next.
    Between(Vec<Regex>),
}

/// Stand before the first token and behind the last.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

pub(super) fn tokenizer(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let mark = attributes.flag("mark", false)?;
    let padding = attributes.string_or("pad_value", "")?.to_owned();
    let fewest = attributes.int_or("mincharnum", 1)?;
    let Ok(fewest) = usize::try_from(fewest) else {
        return Err(refusal(format!("mincharnum {fewest}")));
    };
    node.attributes.ignore(&["stopwords"]);
    let how = match (attributes.strings("separators")?, attributes.string("tokenexp")?) {
        (Some(separators), None) if separators.iter().all(String::is_empty) => How::Characters,
        (Some(separators), None) => {
            How::Between(separators.iter().map(|text| pattern(text)).collect::<Result<_>>()?)
        }
        (None, Some(expression)) => How::Found(pattern(expression)?),
        _ => return Err(refusal("either separators or tokenexp must be given")),
    };
    host_operator(node, move |inputs| {
        let strings = inputs.strings(0)?;
        if !matches!(strings.shape().len(), 1 | 2) {
            return Err(refusal(format!("strings of shape {:?}", strings.shape())));
        }
        let rows: Vec<Vec<&str>> =
            strings.values().iter().map(|text| how.tokens(text, fewest)).collect();
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = if mark && !rows.is_empty() { longest + 2 } else { longest };
        let mut padded = inputs.room(rows.len(), width)?;
        for row in rows {
            let end = padded.len() + width;
            if mark {
                padded.push(MARKS[0].to_owned());
            }
            padded.extend(row.into_iter().map(str::to_owned));
            if mark {
                padded.push(MARKS[1].to_owned());
            }
            padded.resize(end, padding.clone());
        }
        let mut shape = strings.shape().to_vec();
        shape.push(width);
        Ok(vec![Strings::new(&shape, padded)?.into()])
    })
}

impl How {
    fn tokens<'a>(&self, text: &'a str, fewest: usize) -> Vec<&'a str> {
        let is_long = |token: &&str| token.chars().count() >= fewest;
        match self {
            How::Characters => text
                .char_indices()
                .map(|(at, character)| &text[at..at + character.len_utf8()])
                .collect(),
            How::Found(pattern) => {
                pattern.find_iter(text).map(|found| found.as_str()).filter(is_long).collect()
            }
            How::Between(patterns) => {
                let mut tokens = vec![text];
                for pattern in patterns {
                    tokens = tokens.into_iter().flat_map(|token| pattern.split(token)).collect();
                    tokens.retain(is_long);
                }
                tokens
            }
        }
    }
}

//! StringNormalizer.

use std::collections::HashSet;

use millstream_graph::{Operator, Strings};

use super::super::common::refusal;
use super::super::host::host_operator;
use crate::Result;
use crate::node::NodeDef;

#[derive(Clone, Copy)]
enum Case {
    Lower,
    Upper,
    Same,
}

impl Case {
    fn of(text: &str) -> Result<Self> {
        match text {
            "LOWER" => Ok(Case::Lower),
            "UPPER" => Ok(Case::Upper),
            "NONE" => Ok(Case::Same),
            other => Err(refusal(format!("case_change_action {other:?}"))),
        }
    }

    fn change(self, text: &str) -> String {
        match self {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
            Case::Same => text.to_owned(),
        }
    }
}

/// Stop words go, and letters change their case. The locale is not looked at: letters have one lower and one upper case here.
pub(super) fn normalizer(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let case = Case::of(node.attributes.string_or("case_change_action", "NONE")?)?;
    let sensitive = node.attributes.flag("is_case_sensitive", false)?;
    let stopwords = node.attributes.strings("stopwords")?.unwrap_or_default();
    node.attributes.ignore(&["locale"]);
    // Words are compared in one case where case does not count.
    let compared = move |text: &str| if sensitive { text.to_owned() } else { text.to_lowercase() };
    let stopwords: HashSet<String> = stopwords.iter().map(|word| compared(word)).collect();
    host_operator(node, move |inputs| {
        let strings = inputs.strings(0)?;
        let rows = match strings.shape() {
            [_] => 0,
            [1, _] => 1,
            shape => return Err(refusal(format!("strings of shape {shape:?}; [n] or [1, n]"))),
        };
        let left = strings.values().iter();
        let left = left.filter(|text| stopwords.is_empty() || !stopwords.contains(&compared(text)));
        let mut left: Vec<String> = left.map(|text| case.change(text)).collect();
        if left.is_empty() {
            left.push(String::new());
        }
        let shape = [1, left.len()];
        Ok(vec![Strings::new(&shape[1 - rows..], left)?.into()])
    })
}

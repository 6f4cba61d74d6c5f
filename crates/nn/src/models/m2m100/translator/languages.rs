//! The languages of translation models, as in Transformers.

/// The languages of M2M100, in the order of their tokens.
#[rustfmt::skip]
const M2M100: &[&str] = &[
    "af", "am", "ar", "ast", "az", "ba", "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de", "el", "en",
    "es", "et", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "ht", "hu", "hy", "id",
    "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "lb", "lg", "ln", "lo", "lt", "lv", "mg", "mk",
    "ml", "mn", "mr", "ms", "my", "ne", "nl", "no", "ns", "oc", "or", "pa", "pl", "ps", "pt", "ro", "ru", "sd", "si",
    "sk", "sl", "so", "sq", "sr", "ss", "su", "sv", "sw", "ta", "th", "tl", "tn", "tr", "uk", "ur", "uz", "vi", "wo",
    "xh", "yi", "yo", "zh", "zu",
];

/// The languages of the WMT 2021 models.
const WMT21: &[&str] = &["en", "ha", "is", "ja", "cs", "ru", "zh", "de"];

/// The set of languages that a `tokenizer_config.json` names.
pub fn set(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "m2m100" => Some(M2M100),
        "wmt21" => Some(WMT21),
        _ => None,
    }
}

/// The code of the language with this token: `__en__` in M2M100, or `eng_Latn` in NLLB.
pub fn code(token: &str) -> Option<String> {
    if let Some(code) = token.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")) {
        return Some(code.to_owned()).filter(|code| !code.is_empty());
    }
    let (language, script) = token.split_once('_')?;
    let is_language = language.len() == 3 && language.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut letters = script.bytes();
    let is_script = script.len() == 4
        && letters.next().is_some_and(|byte| byte.is_ascii_uppercase())
        && letters.all(|byte| byte.is_ascii_lowercase());
    (is_language && is_script).then(|| token.to_owned())
}

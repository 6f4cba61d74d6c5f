//! The names that a program text defines, so that several texts can be put into one without namespaces.

/// What a text defines at its top level.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Types, functions, constants and tables.
    pub items: Vec<String>,
    /// Macros.
    pub macros: Vec<String>,
}

impl Names {
    /// Those of a text in the subset of C++ that programs are written in.
    pub fn of(text: &str) -> Self {
        let mut names = Names::default();
        let mut code = String::new();
        let mut continues = false;
        for line in text.lines() {
            let line = line.split("//").next().unwrap_or("");
            if let Some(rest) = line.trim_start().strip_prefix("#define ") {
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                add(&mut names.macros, &rest[..end]);
            } else if !continues && !line.trim_start().starts_with('#') {
                code.push_str(line);
                code.push('\n');
            }
            continues = line.ends_with('\\');
        }
        names.read(&tokens(&code));
        names
    }

    fn read(&mut self, tokens: &[&str]) {
        let (mut braces, mut parentheses) = (0, 0);
        // What the declaration is that is being read, and whether an enum is open.
        let (mut kind, mut in_enum) = ("", false);
        for (at, &token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1).copied().unwrap_or("");
            match token {
                "{" => braces += 1,
                "}" => {
                    braces -= 1;
                    in_enum &= braces > 0;
                    if braces == 0 {
                        kind = "";
                    }
                }
                "(" => parentheses += 1,
                ")" => parentheses -= 1,
                ";" if braces == 0 => kind = "",
                "typedef" | "FN" | "TABLE" if braces == 0 && parentheses == 0 => kind = token,
                "struct" | "namespace" if braces == 0 && parentheses == 0 && kind.is_empty() => {
                    add(&mut self.items, next);
                }
                "enum" if braces == 0 => in_enum = true,
                word if word.starts_with(is_word) => {
                    let top = braces == 0 && parentheses == 0;
                    let defined = match kind {
                        "typedef" => top && next == ";",
                        "FN" => top && next == "(",
                        "TABLE" => top && next == "[",
                        _ => in_enum && braces == 1 && next == "=",
                    };
                    if defined {
                        add(&mut self.items, word);
                        if kind != "typedef" && !in_enum {
                            kind = "rest";
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn add(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|known| known == name) {
        list.push(name.to_owned());
    }
}

/// Words, and other signs one by one.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests;

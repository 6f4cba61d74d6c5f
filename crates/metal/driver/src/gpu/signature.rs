//! Kernel signatures, read from the preprocessed text.

/// A kernel as its text declares it.
pub struct Signature {
    pub name: String,
    /// Buffer indices that it takes, a bit each.
    pub buffers: u32,
    /// What the text allows in a group.
    pub max_threads: u32,
    /// The arguments of a call, from the `HostCall` that the fibers pass.
    arguments: Vec<String>,
}

/// Attributes of parameters that the fibers know, with the expression for each axis.
const BUILTINS: &[(&str, &[&str])] = &[
    ("threadgroup_position_in_grid", &["c->at.group", "c->at.group_y", "c->at.group_z"]),
    ("threadgroups_per_grid", &["c->at.groups", "c->at.groups_y", "c->at.groups_z"]),
    ("threads_per_threadgroup", &["c->at.count", "1u", "1u"]),
    ("thread_position_in_threadgroup", &["c->at.index", "0u", "0u"]),
    (
        "thread_position_in_grid",
        &["c->at.group * c->at.count + c->at.index", "c->at.group_y", "c->at.group_z"],
    ),
    ("thread_index_in_threadgroup", &["c->at.index"]),
    ("thread_index_in_simdgroup", &["c->at.lane"]),
    ("simdgroup_index_in_threadgroup", &["c->at.simd"]),
    ("simdgroups_per_threadgroup", &["c->at.count / 32"]),
    ("threads_per_simdgroup", &["32u"]),
];

impl Signature {
    /// All kernels of a text.
    pub fn read_all(plain: &str) -> Result<Vec<Self>, String> {
        let mut found = Vec::new();
        let mut rest = plain;
        let mut offset = 0;
        while let Some(at) = rest.find("kernel void ") {
            let begins_word = at == 0
                || !rest.as_bytes()[at - 1].is_ascii_alphanumeric()
                    && rest.as_bytes()[at - 1] != b'_';
            let start = at + "kernel void ".len();
            if begins_word {
                found.push(Self::read(&plain[..offset + at], &rest[start..])?);
            }
            rest = &rest[start..];
            offset += start;
        }
        Ok(found)
    }

    fn read(before: &str, text: &str) -> Result<Self, String> {
        let open = text.find('(').ok_or("a kernel without parameters")?;
        let name = text[..open].trim().to_owned();
        let close = closing(&text[open + 1..])
            .ok_or_else(|| format!("{name}: the parameters do not end"))?
            + open
            + 1;
        let mut own =
            Self { name, buffers: 0, max_threads: max_threads(before), arguments: Vec::new() };
        for parameter in split(&text[open + 1..close]) {
            own.parameter(parameter.trim())?;
        }
        Ok(own)
    }

    fn parameter(&mut self, text: &str) -> Result<(), String> {
        let refuse = |reason: &str| Err(format!("{}: {reason}: {text}", self.name));
        let Some((declared, attribute)) = text.split_once("[[") else {
            return refuse("a parameter without an attribute");
        };
        let attribute = attribute.trim_end().trim_end_matches("]]").trim();
        let declared = declared.trim();
        let kind = declared.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').trim();
        if let Some(number) =
            attribute.strip_prefix("buffer(").and_then(|rest| rest.strip_suffix(')'))
        {
            let number: u32 = number
                .trim()
                .parse()
                .map_err(|_| format!("{}: buffer index {number}", self.name))?;
            if number >= 31 {
                return refuse("a buffer index above 30");
            }
            self.buffers |= 1 << number;
            let address = format!("c->buffers[{number}]");
            self.arguments.push(match kind.strip_suffix('&') {
                Some(target) => format!("*({}*){address}", target.trim()),
                None => format!("({kind}){address}"),
            });
            return Ok(());
        }
        let Some((_, axes)) = BUILTINS.iter().find(|(name, _)| *name == attribute) else {
            return refuse("an attribute that Metal or this driver does not know");
        };
        self.arguments.push(match kind {
            "uint" | "ushort" | "u32" => format!("({kind})({})", axes[0]),
            "uint2" if axes.len() > 1 => format!("uint2({}, {})", axes[0], axes[1]),
            "uint3" if axes.len() > 1 => format!("uint3({}, {}, {})", axes[0], axes[1], axes[2]),
            _ => return refuse("a type that the attribute does not have"),
        });
        Ok(())
    }

    /// The function that the fibers call.
    pub fn launcher(&self) -> String {
        format!(
            "extern \"C\" __attribute__((visibility(\"default\"))) void launch_{}(const HostCall* c) {{ {}({}); }}\n",
            self.name,
            self.name,
            self.arguments.join(", ")
        )
    }
}

/// Where the parenthesis closes that was opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut nesting = 1;
    for (index, c) in text.char_indices() {
        nesting += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if nesting == 0 {
            return Some(index);
        }
    }
    None
}

/// The parts between commas that no bracket encloses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut nesting, mut start) = (Vec::new(), 0, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => nesting += 1,
            ')' | ']' | '}' | '>' => nesting -= 1,
            ',' if nesting == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The attribute right before a kernel, or what every GPU of Apple's can do.
fn max_threads(before: &str) -> u32 {
    let word = "max_total_threads_per_threadgroup(";
    let number = before.rfind(word).and_then(|at| {
        let rest = &before[at + word.len()..];
        let (number, rest) = rest.split_once(')')?;
        // It belongs to this kernel if nothing else stands between.
        let between_is_empty =
            rest.trim().trim_matches(|c| matches!(c, ')' | ']' | ' ' | '\n')).is_empty();
        between_is_empty
            .then(|| number.trim_matches(|c| matches!(c, '(' | ')' | ' ')).parse().ok())
            .flatten()
    });
    number.unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[max_total_threads_per_threadgroup(256)]]\nkernel void first(device uchar* a [[buffer(0)]], \
        constant Params& p [[buffer(2)]], uint3 g [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]]) {}\n\
        kernel void second(device const float* a [[buffer(1)]]) {}";

    #[test]
    fn signatures_have_buffers_threads_and_arguments() {
        let all = Signature::read_all(TEXT).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].name.as_str(), all[0].buffers, all[0].max_threads),
            ("first", 0b101, 256)
        );
        assert_eq!(
            (all[1].name.as_str(), all[1].buffers, all[1].max_threads),
            ("second", 0b10, 1024)
        );
        let launcher = all[0].launcher();
        assert!(launcher.contains("*(constant Params*)c->buffers[2]"), "{launcher}");
        assert!(
            launcher.contains("uint3(c->at.group, c->at.group_y, c->at.group_z)"),
            "{launcher}"
        );
    }

    #[test]
    fn parameters_that_metal_would_refuse_are_refused() {
        for (text, part) in [
            ("kernel void k(device float* a) {}", "without an attribute"),
            ("kernel void k(device float* a [[buffer(31)]]) {}", "above 30"),
            ("kernel void k(uint a [[thread_index]]) {}", "does not know"),
            ("kernel void k(float a [[thread_index_in_simdgroup]]) {}", "a type"),
        ] {
            let error = Signature::read_all(text).err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }
}

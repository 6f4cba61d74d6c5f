//! The source text of a key.

mod names;

use std::fmt::Write;

use self::names::Names;
use crate::launch::USUAL_THREADS;
use crate::lower::chain;
use crate::{Key, Program};

/// The languages in which a program can be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// CUDA C++ as NVRTC takes it.
    Cuda,
    /// Metal Shading Language.
    Metal,
    /// C++ for OpenCL as clang takes it, run by the fibers of this crate's tests.
    Host,
}

impl Dialect {
    /// The text before every program: first what dialects spell differently, then what all programs share.
    fn prelude(self) -> [&'static str; 14] {
        let own = match self {
            Dialect::Cuda => include_str!("../programs/prelude/cuda.kernel"),
            Dialect::Metal => include_str!("../programs/prelude/metal.kernel"),
            Dialect::Host => include_str!("../programs/prelude/host.kernel"),
        };
        let matrices = match self {
            Dialect::Metal => include_str!("../programs/common/matrices.kernel"),
            Dialect::Cuda | Dialect::Host => "",
        };
        [
            own,
            include_str!("../programs/common/numbers.kernel"),
            include_str!("../programs/common/math.kernel"),
            include_str!("../programs/common/group.kernel"),
            include_str!("../programs/common/walk.kernel"),
            include_str!("../programs/common/elementwise.kernel"),
            include_str!("../programs/common/tile.kernel"),
            include_str!("../programs/common/window.kernel"),
            include_str!("../programs/common/index.kernel"),
            include_str!("../programs/common/sorting.kernel"),
            include_str!("../programs/common/attention.kernel"),
            include_str!("../programs/common/blocks.kernel"),
            matrices,
            include_str!("../programs/common/tensor_cores.kernel"),
        ]
    }
}

/// The complete source of one kernel. Its function is [`Key::entry`].
pub fn source(key: &Key, dialect: Dialect) -> String {
    let mut text = dialect.prelude().concat();
    specialize(&mut text, key);
    text
}

/// One source for many kernels. It compiles far faster than many sources.
pub fn source_of_many(keys: &[Key], dialect: Dialect) -> String {
    let mut text = dialect.prelude().concat();
    for (index, key) in keys.iter().enumerate() {
        // Metal has no C linkage: there a namespace would be part of the kernel's name. So what the text defines gets
        // names of its own.
        if dialect == Dialect::Metal {
            renamed(&mut text, key, index);
            continue;
        }
        let _ = writeln!(text, "namespace kernel_{index} {{");
        specialize(&mut text, key);
        let _ = writeln!(text, "}}");
        forget(&mut text, key);
    }
    text
}

/// A kernel whose other names end in a number.
fn renamed(text: &mut String, key: &Key, index: usize) {
    let mut own = String::new();
    specialize(&mut own, key);
    let constants = key.constants().map(|(name, _)| name).chain(["THREADS", "ENTRY"]);
    let constants: Vec<_> = constants.collect();
    let Names { mut items, macros } = Names::of(&own);
    // A key has the constant in place of what another would define.
    items.retain(|name| !constants.contains(&name.as_str()));
    for name in &items {
        let _ = writeln!(text, "#define {name} {name}_{index}");
    }
    text.push_str(&own);
    for name in items.iter().chain(&macros) {
        let _ = writeln!(text, "#undef {name}");
    }
}

/// Undefines the constants of a key.
fn forget(text: &mut String, key: &Key) {
    for (name, _) in key.constants() {
        let _ = writeln!(text, "#undef {name}");
    }
    text.push_str("#undef THREADS\n#undef ENTRY\n");
}

fn specialize(text: &mut String, key: &Key) {
    let definition = key.program().definition();
    for (name, value) in key.constants() {
        let _ = writeln!(text, "#define {name} ({value})");
    }
    if key.constants().all(|(name, _)| name != "THREADS") {
        let _ = writeln!(text, "#define THREADS {USUAL_THREADS}");
    }
    let _ = writeln!(text, "#define ENTRY {}", key.entry());
    text.push_str(&(definition.params)());
    if key.program() == Program::Chain {
        chain::write_steps(text, key);
    }
    let _ = writeln!(text, "#line 1 \"{}.kernel\"", definition.name);
    text.push_str(definition.text);
}

#[cfg(test)]
mod tests;

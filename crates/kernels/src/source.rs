//! From a key to a text that a compiler takes.

use std::fmt::Write;

use crate::launch::USUAL_THREADS;
use crate::lower::chain;
use crate::{Key, Program};

/// The languages that a program can be given in.
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
    /// What is written before every program: the words that dialects spell differently, then what all
    /// programs share.
    fn prelude(self) -> [&'static str; 12] {
        let own = match self {
            Dialect::Cuda => include_str!("../programs/prelude/cuda.kernel"),
            Dialect::Metal => include_str!("../programs/prelude/metal.kernel"),
            Dialect::Host => include_str!("../programs/prelude/host.kernel"),
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
        ]
    }
}

/// The source of one kernel, self-contained. Its function is [`Key::entry`].
pub fn source(key: &Key, dialect: Dialect) -> String {
    let mut text = dialect.prelude().concat();
    specialize(&mut text, key);
    text
}

/// One source for many kernels, which takes a compiler far less time than many sources do.
///
/// Not for [`Dialect::Metal`], which has no C linkage: there the namespaces would be part of the
/// names.
pub fn source_of_many(keys: &[Key], dialect: Dialect) -> String {
    let mut text = dialect.prelude().concat();
    for (index, key) in keys.iter().enumerate() {
        let _ = writeln!(text, "namespace kernel_{index} {{");
        specialize(&mut text, key);
        let _ = writeln!(text, "}}");
        for (name, _) in key.constants() {
            let _ = writeln!(text, "#undef {name}");
        }
        text.push_str("#undef THREADS\n#undef ENTRY\n");
    }
    text
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
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_constants_params_and_entry() {
        let key = Key::new(Program::Fill, &[4, 1, 0, 4]);
        let text = source(&key, Dialect::Cuda);
        for part in ["#define SIZE (4)", "#define VECTOR (4)", "struct Params", "Walk<1> walk;"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(text.contains(&format!("#define ENTRY {}", key.entry())));
    }

    #[test]
    fn only_metal_has_a_header() {
        let key = Key::new(Program::Copy, &[0, 1, 1, 0, 4, 3]);
        assert!(source(&key, Dialect::Metal).contains("#include <metal_stdlib>"));
        for dialect in [Dialect::Cuda, Dialect::Host] {
            assert!(!source(&key, dialect).contains("#include"), "{dialect:?}");
        }
    }

    #[test]
    fn entries_are_different_and_say_what_they_are() {
        let key = Key::new(Program::Copy, &[0, 1, 1, 0, 4, 3]);
        assert_eq!(key.entry(), "ms_copy_0_1_1_0_4_3");
        assert_ne!(key.entry(), key.with("WIDE", 1).entry());
        assert_eq!(key.with("NO_SUCH", 1), key);
        assert_eq!(key.constants().count(), 6);
        assert_eq!(key.constants().nth(1), Some(("FROM", 1)));
    }

    #[test]
    fn programs_have_names_of_their_own_and_few_enough_constants() {
        let mut names: Vec<_> = Program::ALL.iter().map(|program| program.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Program::ALL.len());
        assert!(Program::ALL.iter().all(|p| p.constant_names().len() <= crate::MAX_CONSTANTS));
    }

    /// Kernels are started while the one before still runs, and at most that one may be running: each waits
    /// for it before it touches memory, and before it lets the next be started.
    #[test]
    fn every_kernel_waits_for_the_one_before() {
        for program in Program::ALL {
            let definition = program.definition();
            let kernels = definition.text.matches("KERNEL_").count();
            let (_, body) = definition.text.split_once("KERNEL_").expect("a kernel");
            assert_eq!(kernels, 1, "{}", definition.name);
            let body = body.split_once("{\n").expect("a body").1;
            let declares =
                |line: &&str| line.starts_with("SHARED ") || line.starts_with("typedef ");
            let first = body.lines().map(str::trim).find(|line| !declares(line)).unwrap_or("");
            match first {
                "const Thread t = THREAD;" => {}
                "const Thread t = EARLY_THREAD;" => {
                    let late = body.find("if (p.early == 0) after_the_one_before();");
                    let early = body.find("if (p.early != 0) after_the_one_before();");
                    let (late, early) = late.zip(early).expect(definition.name);
                    // What is read early is fetched from the rhs alone.
                    let between = &body[late..early];
                    for access in ["load<", "store<", "dst", "(DEVICE V*)", "bias", "residual"] {
                        assert!(!between.contains(access), "{}: {access}", definition.name);
                    }
                }
                other => panic!("{}: {other}", definition.name),
            }
        }
        let prelude = Dialect::Cuda.prelude()[0];
        let wait = prelude.find("griddepcontrol.wait").expect("a wait");
        let next = prelude.find("griddepcontrol.launch_dependents").expect("a start");
        assert!(wait < next);
        assert_eq!(prelude.matches("griddepcontrol.").count(), 2);
        let rest = Program::ALL.iter().map(|program| program.definition().text);
        assert!(
            rest.chain(Dialect::Cuda.prelude()[1..].iter().copied())
                .all(|text| { !text.contains("griddepcontrol") })
        );
    }
}

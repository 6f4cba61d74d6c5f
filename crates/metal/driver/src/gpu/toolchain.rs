//! clang, and where texts are compiled.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::deviations::{Deviation, deviates};

/// How a text is read: clang's C++ for OpenCL, whose address spaces are checked as Metal's are.
pub const FLAGS: &[&str] = &[
    "-x",
    "clcpp",
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-cl-single-precision-constant",
    "-target",
    "x86_64-unknown-linux-gnu",
    "-Xclang",
    "-cl-ext=+all",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fwrapv",
    // Attributes of Metal's are no mistakes of spelling, and looking for what they might be takes long.
    "-fno-spell-checking",
    "-Wno-unknown-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-pass-failed",
    "-Wno-tautological-compare",
];

/// The headers of Metal's library, by name.
pub const LIBRARY: &[(&str, &str)] = &[
    ("metal_stdlib", include_str!("../../include/metal_stdlib")),
    ("metal_simdgroup_matrix", include_str!("../../include/metal_simdgroup_matrix")),
];

/// The compiler with these flags and the library's header, for a version of the language such as 310.
pub fn clang(version: u32) -> Result<Command, String> {
    let mut clang = Command::new("clang-22");
    clang.args(FLAGS).arg(format!("-D__METAL_VERSION__={version}"));
    if deviates(Deviation::Imprecise) {
        clang.arg("-DDRIVER_IMPRECISE");
    }
    clang.arg("-I").arg(folder()?.join("include").join(library_name()));
    Ok(clang)
}

/// Whether kernels are watched by ThreadSanitizer.
pub fn sanitized() -> bool {
    std::env::var("METAL_DRIVER_SANITIZER").as_deref() == Ok("thread")
}

/// How much is done for quick kernels: none unless `METAL_DRIVER_OPTIMIZE=1`. Most kernels are run for a moment, and compiling
/// them takes longer than that.
pub fn optimization() -> &'static str {
    static LEVEL: OnceLock<&str> = OnceLock::new();
    LEVEL.get_or_init(|| {
        let wanted = std::env::var("METAL_DRIVER_OPTIMIZE").as_deref() == Ok("1");
        if wanted {
            "-O2"
        } else if sanitized() {
            "-O1"
        } else {
            "-O0"
        }
    })
}

/// The folder of the headers. A build with other ones has another.
fn library_name() -> String {
    let mut hasher = DefaultHasher::new();
    LIBRARY.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Where texts are compiled: one folder for all processes of a user, with the library's header. Files in it have names
/// of their own.
pub fn folder() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        // SAFETY: asks for a number.
        let user = unsafe { libc::getuid() };
        let folder = std::env::temp_dir().join(format!("millstream-metal-driver-{user}"));
        let write = || {
            let include = folder.join("include").join(library_name());
            std::fs::create_dir_all(&include)?;
            std::fs::create_dir_all(folder.join("cache"))?;
            // Written once: a compiler that reads these files knows them by their inodes, and must not see them change.
            let mut missing = LIBRARY.iter().filter(|(name, _)| !include.join(name).exists());
            missing.try_for_each(|(name, text)| replace(&include.join(name), text))
        };
        write().map_err(|error| format!("{}: {error}", folder.display())).map(|()| folder)
    });
    made.clone()
}

/// Writes a file whole: another process may be reading it.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension(std::process::id().to_string());
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

/// What a command prints, or what it says when it fails.
pub fn run(command: &mut Command) -> Result<String, String> {
    // A sanitizer that is loaded into this process is not meant for the compiler.
    let output = command
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

//! The compiler of the host dialect, and where its results are kept.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What else a build checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sanitizer {
    None,
    Address,
    Thread,
}

impl Sanitizer {
    /// Without optimization: compiling takes far longer than running, and a tenth of what it takes with.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Sanitizer::None => &["-O0"],
            Sanitizer::Address => &["-O0", "-g1", "-fsanitize=address", "-shared-libsan"],
            Sanitizer::Thread => &["-O0", "-g1", "-fsanitize=thread", "-shared-libsan"],
        }
    }
}

pub struct Toolchain {
    clang: &'static str,
    version: String,
    pub sanitizer: Sanitizer,
    directory: PathBuf,
}

const KERNEL_FLAGS: &[&str] = &[
    "-x",
    "clcpp",
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-target",
    "x86_64-unknown-linux-gnu",
    "-Xclang",
    "-cl-ext=+all",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fwrapv",
    "-fvisibility=hidden",
    "-Werror",
    "-Wno-unused-value",
    "-Wno-tautological-compare",
    "-shared",
    "-fPIC",
];

impl Toolchain {
    /// The compiler, or why there is none.
    pub fn find() -> Result<Self, String> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("the host dialect runs on Linux on x86_64 only".into());
        }
        let clang = "clang-22";
        let output = Command::new(clang).arg("--version").output().map_err(|error| {
            format!("{clang} does not run ({error}): scripts/kernels.sh installs it")
        })?;
        let sanitizer = match std::env::var("MILLSTREAM_KERNELS_SANITIZER").as_deref() {
            Ok("address") => Sanitizer::Address,
            Ok("thread") => Sanitizer::Thread,
            _ => Sanitizer::None,
        };
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host-kernels");
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Self { clang, version, sanitizer, directory })
    }

    /// Compiles kernels to a shared object, unless that was done before.
    pub fn kernels(&self, source: &str) -> Result<PathBuf, String> {
        self.build(source, KERNEL_FLAGS, &["-lm"])
    }

    /// Compiles the fibers.
    pub fn runtime(&self) -> Result<PathBuf, String> {
        let flags = ["-x", "c++", "-std=c++17", "-shared", "-fPIC"];
        // ThreadSanitizer must not see the fibers' own bookkeeping.
        let (flags, sanitizer) = match self.sanitizer {
            Sanitizer::Thread => ([&flags[..], &["-DWITH_TSAN"]].concat(), Sanitizer::None),
            // Sanitizers keep variables of their own among those of the kernels.
            Sanitizer::None => ([&flags[..], &["-DSPOIL"]].concat(), Sanitizer::None),
            Sanitizer::Address => (flags.to_vec(), Sanitizer::Address),
        };
        let plain = Self {
            clang: self.clang,
            version: self.version.clone(),
            sanitizer,
            directory: self.directory.clone(),
        };
        plain.build(include_str!("runtime.cpp"), &flags, &["-lstdc++"])
    }

    fn build(&self, source: &str, flags: &[&str], libraries: &[&str]) -> Result<PathBuf, String> {
        let mut hasher = DefaultHasher::new();
        (source, flags, libraries, &self.version, self.sanitizer.flags()).hash(&mut hasher);
        let path = self.directory.join(format!("{:016x}.so", hasher.finish()));
        if path.exists() {
            return Ok(path);
        }
        let unfinished = path.with_extension(format!(
            "{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut child = Command::new(self.clang)
            .args(flags)
            .args(self.sanitizer.flags())
            .arg("-o")
            .arg(&unfinished)
            .arg("-")
            .args(libraries)
            // A sanitizer that is loaded into this process is not meant for the compiler.
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut input = child.stdin.take().expect("stdin is piped");
        let written = input.write_all(source.as_bytes());
        drop(input);
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() || written.is_err() {
            let failed = path.with_extension("failed.kernel");
            let _ = std::fs::write(&failed, source);
            return Err(format!(
                "{} does not compile:\n{}",
                failed.display(),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        std::fs::rename(&unfinished, &path).map_err(|error| error.to_string())?;
        Ok(path)
    }
}

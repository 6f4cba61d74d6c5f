//! Compiles Metal texts as strictly as this driver can, and looks at their group memory:
//! `cargo run --example texts -- FOLDER [VERSION]`, where a version is one of macOS, as in 14. Nothing is run.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_metal_driver::control;

/// Group memory of every Apple GPU that Metal 3 runs on.
const GROUP_BYTES: usize = 32 << 10;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("which folder?");
        return ExitCode::from(2);
    };
    if let Some(version) = arguments.next().and_then(|version| version.parse().ok()) {
        control::set_system_version(version, 0);
    }
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            eprintln!("{folder}: {error}");
            return ExitCode::from(2);
        }
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "metal"));
    files.sort();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let kernels = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
                    match text.and_then(|text| control::check_text(&text)) {
                        Ok(found) => kernels.lock().unwrap().extend(found),
                        Err(error) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            eprintln!("{}: {error}", file.display());
                        }
                    }
                }
            });
        }
    });
    let (kernels, failed) = (kernels.into_inner().unwrap(), failed.into_inner());
    let largest = kernels.iter().max_by_key(|(_, bytes)| *bytes).cloned().unwrap_or_default();
    println!(
        "{} kernels of {} files compile, {failed} files do not; the largest group memory is {} bytes ({})",
        kernels.len(),
        files.len(),
        largest.1,
        largest.0
    );
    ExitCode::from(u8::from(failed > 0 || kernels.is_empty() || largest.1 > GROUP_BYTES))
}

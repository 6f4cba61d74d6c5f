//! The CUDA queue on many schedules, on the driver that runs on the host. Scenarios and harness are those of the
//! CPU device, in the root's `tests/schedules`.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
#[path = "../../../../tests/schedules/harness.rs"]
mod harness;
#[cfg(target_os = "linux")]
#[path = "../fake_driver/library.rs"]
mod library;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/schedules/scenarios/mod.rs"]
mod scenarios;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/schedules/scene.rs"]
mod scene;

#[cfg(target_os = "linux")]
use millstream_core as runtime;
#[cfg(target_os = "linux")]
use millstream_cuda as _;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    // A child finds the driver where its parent has built it.
    if let Some(code) = harness::child() {
        return code;
    }
    let Some(folder) = library::build("schedules-driver") else {
        println!("SKIPPED: there is no C compiler (cc)");
        return std::process::ExitCode::SUCCESS;
    };
    harness::main(&harness::Host {
        device: "cuda",
        command: "cargo test -p millstream-cuda --test schedules",
        // The driver keeps a thread for every stream until its process ends.
        chunk: 25,
        environment: &[
            ("LD_LIBRARY_PATH", folder.display().to_string()),
            ("MILLSTREAM_CACHE_DIR", "off".into()),
        ],
    })
}

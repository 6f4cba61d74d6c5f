//! Compiles all kernels of the conformance suite into the cache on disk, on a machine with NVRTC and
//! without a GPU: `cargo run --release -p millstream-cuda --example precompile -- sm_90 132`, where 132 is
//! the number of multiprocessors. `MILLSTREAM_CACHE_DIR` names the folder.

#[path = "../../kernels/tests/host/keys.rs"]
mod keys;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_cuda::{precompile, precompile_builtins, usual_limits};
use millstream_kernels::Key;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let architecture = arguments.next().unwrap_or_else(|| "sm_90".into());
    let processors = arguments.next().map_or(Ok(132), |text| text.parse())?;
    let limits = usual_limits(processors);
    let (keys, _) = keys::keys(&keys::chosen_kinds(), &limits)?;
    let keys: Vec<Key> = keys.into_iter().collect();
    precompile_builtins(&architecture)?;
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = precompile(key, &architecture) {
                        let mut failures =
                            failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        failures.push(error.to_string());
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!("{} kernels for {architecture}, {} failures", keys.len(), failures.len());
    match failures.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(first.into()),
    }
}

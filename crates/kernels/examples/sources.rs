//! Writes the sources of all kernels of the conformance suite, many in one file, for a compiler to try:
//! `cargo run -p millstream-kernels --example sources -- DIRECTORY [cuda|metal|host] [KERNELS_PER_FILE]`.

#[path = "../tests/host/keys.rs"]
mod keys;

use std::path::PathBuf;

use millstream_kernels::{Dialect, Key, Limits, source_of_many};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("which directory?")?);
    let dialect = match arguments.next().as_deref() {
        None | Some("cuda") => Dialect::Cuda,
        Some("metal") => Dialect::Metal,
        Some("host") => Dialect::Host,
        Some(other) => return Err(format!("{other} is no dialect").into()),
    };
    let batch: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let limits = Limits {
        max_threads: 1024,
        shared_bytes: 48 << 10,
        simd_width: 32,
        f64: dialect != Dialect::Metal,
        parallel_groups: 132,
    };
    let keys: Vec<Key> = keys::keys(&keys::chosen_kinds(), &limits)?.into_iter().collect();
    std::fs::create_dir_all(&directory)?;
    let mut files = 0;
    for same in keys.chunk_by(|left, right| left.program() == right.program()) {
        for chunk in same.chunks(batch) {
            let name = format!("{}-{files:04}.cu", chunk[0].program().name());
            std::fs::write(directory.join(name), source_of_many(chunk, dialect))?;
            files += 1;
        }
    }
    println!("{} kernels in {files} files", keys.len());
    Ok(())
}

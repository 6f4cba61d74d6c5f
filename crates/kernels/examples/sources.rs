//! Writes the sources of all kernels of the conformance suite, many in one file, for a compiler to try:
//! `cargo run -p millstream-kernels --example sources -- DIRECTORY [cuda|metal|host] [KERNELS_PER_FILE]`.

#[path = "../tests/host/keys.rs"]
mod keys;

use std::path::PathBuf;

use millstream_core::OpKind;
use millstream_kernels::{Dialect, Key, Limits, Program, source_of_many};

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
    let metal = dialect == Dialect::Metal;
    let limits = Limits {
        max_threads: 1024,
        shared_bytes: if metal { 32 << 10 } else { 48 << 10 },
        simd_width: 32,
        f64: !metal,
        matrices: metal,
        tensor_cores: !metal,
        parallel_groups: if metal { 40 } else { 132 },
    };
    let kinds = keys::chosen_kinds();
    let (mut keys, left_out) = keys::keys(&kinds, &limits)?;
    if kinds.contains(&OpKind::Attention) {
        // The suite's heads are few for a large device, and would not be cut into tiles.
        let small = Limits { parallel_groups: 4, ..limits };
        let tiled = |key: &Key| {
            matches!(key.program(), Program::AttentionTiles | Program::AttentionMatrices)
        };
        let (attention, _) = keys::keys(&[OpKind::Attention], &small)?;
        keys.extend(attention.into_iter().filter(tiled));
    }
    let keys: Vec<Key> = keys.into_iter().collect();
    std::fs::create_dir_all(&directory)?;
    let mut files = 0;
    for same in keys.chunk_by(|left, right| left.program() == right.program()) {
        for chunk in same.chunks(batch) {
            let end = if metal { "metal" } else { "cu" };
            let name = format!("{}-{files:04}.{end}", chunk[0].program().name());
            std::fs::write(directory.join(name), source_of_many(chunk, dialect))?;
            files += 1;
        }
    }
    println!(
        "{} kernels in {files} files; {left_out} cases need 64-bit floating point",
        keys.len()
    );
    Ok(())
}

use millstream_core::{Command, Layout};

use super::*;

const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    parallel_groups: 132,
};

/// Heads that lie side by side in rows, as an encoder has them.
fn operand(place: usize, heads: usize, rows: usize, size: usize) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(DType::F32, &[1, rows, heads, size]).unwrap();
    let layout = layout.transpose(1, 2).unwrap();
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

fn launch(heads: usize, queries: usize, keys: usize, size: usize) -> Launch {
    let (dst, query) = (operand(1, heads, queries, size), operand(2, heads, queries, size));
    let (key, value) = (operand(3, heads, keys, size), operand(4, heads, keys, size));
    let command = Command::attention(dst, query, key, value, None, 0.125, false).unwrap();
    crate::lower(&command, 0, &LIMITS).unwrap().launches[0].clone()
}

fn constant(launch: &Launch, name: &str) -> i32 {
    launch.key.constants().find(|constant| constant.0 == name).unwrap().1
}

#[test]
fn an_encoder_fills_the_device_with_few_queries_per_group() {
    let encoder = launch(4, 128, 128, 64);
    assert_eq!((encoder.groups, encoder.threads), ([32, 4, 1], 128));
    assert_eq!((constant(&encoder, "QUERIES"), constant(&encoder, "VECTOR")), (4, 4));
    assert_eq!((constant(&encoder, "CHUNKS"), constant(&encoder, "HELD")), (2, 1));
}

#[test]
fn many_queries_share_keys_and_one_query_shares_nothing() {
    let many = launch(16, 2048, 2048, 64);
    assert_eq!((many.groups, many.threads, constant(&many, "QUERIES")), ([256, 16, 1], 256, 8));
    assert_eq!(constant(&launch(16, 1, 300, 64), "QUERIES"), 1);
}

#[test]
fn large_heads_are_split_by_columns() {
    let large = launch(1, 4, 4, 300);
    assert_eq!((large.groups, large.threads), ([1, 1, 3], 32));
    assert_eq!(constant(&large, "HELD"), 0);
}

use millstream_core::{Command, Layout};

use super::*;

pub(in crate::lower) const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 4 * 132,
};

/// Heads that lie side by side in rows, as an encoder has them.
fn operand(place: usize, dtype: DType, [heads, rows, size]: [usize; 3]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, &[1, rows, heads, size]).unwrap();
    let layout = layout.transpose(1, 2).unwrap();
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

/// The launch for heads, queries, keys, size and value size.
pub(in crate::lower) fn launch_with(sizes: [usize; 5], dtype: DType, limits: &Limits) -> Launch {
    let [heads, queries, keys, size, value_size] = sizes;
    let [dst, query] = [(1, value_size), (2, size)]
        .map(|(place, size)| operand(place, dtype, [heads, queries, size]));
    let [key, value] = [(3, size), (4, value_size)]
        .map(|(place, size)| operand(place, dtype, [heads, keys, size]));
    let command = Command::attention(dst, query, key, value, None, 0.125, false).unwrap();
    crate::lower(&command, 0, limits).unwrap().launches[0].clone()
}

fn launch(heads: usize, queries: usize, keys: usize, size: usize) -> Launch {
    launch_with([heads, queries, keys, size, size], DType::F32, &LIMITS)
}

pub(in crate::lower) fn constant(launch: &Launch, name: &str) -> i32 {
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
    let many = launch(160, 30, 2048, 64);
    assert_eq!((many.groups, many.threads, constant(&many, "QUERIES")), ([4, 160, 1], 256, 8));
    assert_eq!(constant(&launch(16, 1, 300, 64), "QUERIES"), 1);
}

#[test]
fn large_heads_are_split_by_columns() {
    let large = launch(1, 4, 4, 300);
    assert_eq!((large.groups, large.threads), ([1, 1, 3], 32));
    assert_eq!(constant(&large, "HELD"), 0);
}

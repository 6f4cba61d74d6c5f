use super::super::attention::tests::{LIMITS, constant, launch_with};
use super::*;

const SMALL_MEMORY: Limits = Limits { shared_bytes: 32 << 10, ..LIMITS };

fn cut(launch: &Launch) -> [i32; 4] {
    ["QUERIES", "KEYS", "SIZE", "COLUMNS"].map(|name| constant(launch, name))
}

#[test]
fn many_queries_are_taken_in_tiles_and_few_are_not() {
    let many = launch_with([8, 512, 512, 64, 64], DType::F32, &LIMITS);
    assert_eq!(many.key.program(), Program::AttentionTiles);
    assert_eq!((many.groups, many.threads), ([16, 8, 1], 128));
    assert_eq!((cut(&many), constant(&many, "VECTOR")), ([32, 4, 64, 64], 4));
    let heads = launch_with([8, 128, 128, 64, 64], DType::F32, &LIMITS);
    assert_eq!(heads.key.program(), Program::AttentionTiles);
    for (sizes, dtype) in [
        ([4, 128, 128, 64, 64], DType::F32),
        ([64, 31, 512, 64, 64], DType::F32),
        ([64, 512, 127, 64, 64], DType::F32),
        ([8, 512, 512, 64, 64], DType::F64),
        ([8, 512, 512, 129, 64], DType::F32),
        ([8, 512, 512, 64, 129], DType::F32),
    ] {
        let program = launch_with(sizes, dtype, &LIMITS).key.program();
        assert_eq!(program, Program::Attention, "{sizes:?} of {dtype:?}");
    }
    let few_threads = Limits { max_threads: 64, ..LIMITS };
    let program = launch_with([8, 512, 512, 64, 64], DType::F32, &few_threads).key.program();
    assert_eq!(program, Program::Attention);
}

#[test]
fn groups_are_larger_where_the_device_is_full() {
    let usual = launch_with([12, 512, 512, 64, 64], DType::F16, &LIMITS);
    assert_eq!((usual.groups, usual.threads), ([16, 12, 1], 128));
    let large = launch_with([16, 512, 512, 64, 64], DType::F16, &LIMITS);
    assert_eq!((large.groups, large.threads), ([8, 16, 1], 256));
    let large = launch_with([16, 2048, 2048, 64, 64], DType::F16, &LIMITS);
    assert_eq!((large.groups, large.threads), ([32, 16, 1], 256));
    assert_eq!(cut(&large), [64, 3, 64, 64]);
    // No room for more than one key of a thread.
    let tall = launch_with([16, 2048, 2048, 128, 128], DType::F32, &LIMITS);
    assert_eq!((tall.threads, cut(&tall)), (128, [32, 2, 128, 128]));
}

#[test]
fn tiles_fit_into_the_memory_of_a_group() {
    let small = launch_with([8, 512, 512, 64, 64], DType::F32, &SMALL_MEMORY);
    assert_eq!(cut(&small), [32, 3, 64, 64]);
    let tall = launch_with([8, 512, 512, 128, 120], DType::F32, &SMALL_MEMORY);
    assert_eq!(cut(&tall), [32, 1, 128, 128]);
    for limits in [LIMITS, SMALL_MEMORY] {
        for size in (16..=128).step_by(16) {
            for columns in (32..=128).step_by(32) {
                for (queries, threads) in [(32, 128), (64, 256)] {
                    let Some(tile) = Tile::largest(queries, threads, size, columns, &limits) else {
                        assert!(queries == 64, "{size} and {columns}");
                        continue;
                    };
                    assert!(tile.shared_bytes() <= limits.shared_bytes as usize, "{tile:?}");
                }
            }
        }
    }
    let tile = Tile { queries: 32, keys: 4, size: 64, columns: 64, threads: 128 };
    assert_eq!(tile.shared_bytes(), 4 * (32 * 68 + 64 * 68 + 32 * 68));
}

#[test]
fn rows_that_no_vector_fits_are_taken_by_elements() {
    let odd = launch_with([8, 512, 512, 63, 64], DType::F32, &LIMITS);
    assert_eq!((cut(&odd), constant(&odd, "VECTOR")), ([32, 4, 64, 64], 1));
    let odd = launch_with([8, 512, 512, 64, 62], DType::F32, &LIMITS);
    assert_eq!(constant(&odd, "VECTOR"), 1);
}

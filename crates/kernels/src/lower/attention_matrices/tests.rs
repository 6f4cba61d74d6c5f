use super::super::attention::tests::{LIMITS, constant, launch_with};
use super::*;

const WITH: Limits =
    Limits { matrices: true, shared_bytes: 32 << 10, parallel_groups: 40, ..LIMITS };

#[test]
fn many_queries_use_matrices_where_the_device_has_them() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let launch = launch_with([8, 100, 512, 60, 64], dtype, &WITH);
        assert_eq!(launch.key.program(), Program::AttentionMatrices, "{dtype:?}");
        assert_eq!((launch.groups, launch.threads), ([4, 8, 1], 128));
        assert_eq!(["SIZE", "COLUMNS"].map(|name| constant(&launch, name)), [64, 64]);
    }
    let without = Limits { matrices: false, ..WITH };
    let few_threads = Limits { max_threads: 64, ..WITH };
    for (sizes, dtype, limits) in [
        ([8, 100, 512, 60, 64], DType::F16, without),
        ([8, 100, 512, 60, 64], DType::F16, few_threads),
        ([8, 15, 512, 64, 64], DType::F16, WITH),
        ([8, 100, 63, 64, 64], DType::F16, WITH),
        ([1, 32, 512, 64, 64], DType::F16, WITH),
        ([8, 100, 512, 129, 64], DType::F16, WITH),
        ([8, 100, 512, 64, 129], DType::F16, WITH),
        // No room.
        ([8, 100, 512, 128, 128], DType::F32, WITH),
        ([8, 100, 512, 64, 64], DType::F64, WITH),
    ] {
        let program = launch_with(sizes, dtype, &limits).key.program();
        assert_ne!(program, Program::AttentionMatrices, "{sizes:?} of {dtype:?}");
    }
}

#[test]
fn rows_that_begin_at_multiples_of_16_bytes_are_read_in_vectors() {
    let vector =
        |size, dtype| constant(&launch_with([8, 100, 512, size, 64], dtype, &WITH), "VECTOR");
    assert_eq!([vector(64, DType::F16), vector(60, DType::F16)], [1, 0]);
    assert_eq!([vector(60, DType::F32), vector(62, DType::F32)], [1, 0]);
}

#[test]
fn the_largest_heads_fit_into_32_kilobytes() {
    assert!(shared_bytes(128, 128, DType::F16) <= 32 << 10);
    assert!(shared_bytes(96, 96, DType::F32) <= 32 << 10);
    assert_eq!(shared_bytes(64, 64, DType::F16), 32 * 144 + 32 * 272 + 32 * 144 + 128 + 256);
}

use super::super::gemv::tests::{LIMITS, constant, linear};
use super::*;

const GPU: Limits = Limits {
    parallel_groups: 4 * 132,
    max_threads: 1024,
    shared_bytes: 48 << 10,
    tensor_cores: true,
    ..LIMITS
};

/// Rows and columns of the tile that a layer gets, threads, and groups.
fn tile(rows: usize, outputs: usize, k: usize, limits: &Limits) -> Option<[i32; 4]> {
    let command = linear(DType::F16, rows, outputs, k);
    let Op::MatMul { epilogue } = command.op() else { panic!("{command:?}") };
    let launch = &own_launch(&Product::of(&command, epilogue)?, true, limits)?;
    let (rows, columns) = (constant(launch, "ROWS"), constant(launch, "COLUMNS"));
    assert_eq!(launch.threads as i32, constant(launch, "THREADS"));
    let groups = (launch.groups[0] * launch.groups[2]) as i32;
    Some([16 * rows, 16 * columns, launch.threads as i32, groups])
}

#[test]
fn a_tile_is_as_small_as_leaves_every_group_a_processor() {
    // A layer of a small sentence encoder, and others of its size.
    assert_eq!(tile(128, 384, 384, &GPU), Some([16, 32, 256, 96]));
    assert_eq!(tile(128, 384, 512, &GPU), Some([16, 32, 256, 96]));
    assert_eq!(tile(128, 1152, 192, &GPU), Some([32, 64, 128, 72]));
    assert_eq!(tile(128, 1536, 160, &GPU), Some([32, 64, 128, 96]));
    // Two groups of the largest tile may share a processor.
    assert_eq!(tile(256, 2048, 64, &GPU), Some([32, 64, 64, 256]));
    // No simd group without a share of k.
    assert_eq!(tile(128, 384, 64, &GPU), Some([16, 32, 64, 96]));
}

#[test]
fn others_are_left_to_others() {
    assert_eq!(tile(128, 1152, 384, &GPU), None);
    assert_eq!(tile(512, 3072, 768, &GPU), None);
    assert_eq!(tile(128, 384, 20, &GPU), None);
    assert_eq!(tile(128, 384, 384, &Limits { tensor_cores: false, ..GPU }), None);
    assert!(lower_tensor_cores(&linear(DType::F32, 128, 384, 384), false, &GPU).is_none());
}

#[test]
fn tiles_fit_into_the_memory_of_a_group() {
    let small = Limits { shared_bytes: 32 << 10, ..GPU };
    assert_eq!(tile(128, 384, 512, &small), Some([16, 32, 256, 96]));
    assert_eq!(tile(128, 1536, 160, &small), Some([32, 64, 64, 96]));
    for limits in [GPU, small, Limits { max_threads: 64, ..small }] {
        for sizes in [[64, 64, 512], [128, 384, 384], [128, 1536, 160]] {
            let tile = Tile::choose(sizes, 1, &limits).unwrap();
            assert!(tile.shared_bytes() <= limits.shared_bytes as usize, "{tile:?}");
            assert!(32 * tile.slices <= limits.max_threads as usize, "{tile:?}");
        }
    }
    assert_eq!(Tile::choose([128, 384, 384], 1, &Limits { shared_bytes: 2 << 10, ..GPU }), None);
}

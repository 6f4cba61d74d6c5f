use super::super::gemv::tests::{LIMITS, constant, linear};
use super::super::lower_tensor_cores;
use super::*;

const GPU: Limits = Limits {
    parallel_groups: 4 * 132,
    max_threads: 1024,
    shared_bytes: 48 << 10,
    tensor_cores: true,
    ..LIMITS
};

/// Rows and columns of the tile that a layer gets, slices of k, and groups.
fn tile(rows: usize, outputs: usize, k: usize, limits: &Limits) -> Option<[i32; 4]> {
    let launch = lower_tensor_cores(&linear(DType::F16, rows, outputs, k), true, limits)?;
    let launch = &launch.launches[0];
    if launch.key.program() != Program::MatmulPipelined {
        return None;
    }
    let size = |own: &str, grid: &str| 16 * constant(launch, own) * constant(launch, grid);
    assert_eq!(launch.threads as i32, constant(launch, "THREADS"));
    let groups = (launch.groups[0] * launch.groups[2]) as i32;
    let slices = constant(launch, "SLICES");
    Some([size("ROWS", "GRID_M"), size("COLUMNS", "GRID_N"), slices, groups])
}

#[test]
fn a_tile_is_as_small_as_leaves_every_group_a_processor() {
    // The layers of a small sentence encoder.
    assert_eq!(tile(128, 384, 384, &GPU), Some([32, 32, 4, 48]));
    assert_eq!(tile(128, 384, 1536, &GPU), Some([32, 32, 4, 48]));
    assert_eq!(tile(128, 1152, 384, &GPU), Some([32, 64, 4, 72]));
    assert_eq!(tile(128, 1536, 384, &GPU), Some([32, 64, 4, 96]));
}

#[test]
fn others_are_left_to_others() {
    assert_eq!(tile(16, 384, 384, &GPU), None);
    assert_eq!(tile(512, 3072, 768, &GPU), None);
    assert_eq!(tile(128, 384, 20, &GPU), None);
    assert_eq!(tile(128, 380, 384, &GPU), None);
    assert_eq!(tile(128, 384, 384, &Limits { tensor_cores: false, ..GPU }), None);
}

#[test]
fn tiles_fit_into_a_group() {
    let small = Limits { shared_bytes: 32 << 10, ..GPU };
    for limits in [GPU, small, Limits { max_threads: 64, ..small }] {
        for tile in TILES.iter().filter_map(|tile| tile.fitted(&limits)) {
            assert!(tile.shared_bytes() <= limits.shared_bytes as usize, "{tile:?}");
            assert!(tile.threads() <= limits.max_threads as usize, "{tile:?}");
        }
    }
    assert_eq!(tile(128, 384, 384, &Limits { max_threads: 64, ..small }), Some([32, 32, 1, 48]));
    assert_eq!(Tile::choose([128, 384, 384], 1, &Limits { shared_bytes: 2 << 10, ..GPU }), None);
}

#[test]
fn nothing_is_copied_from_beyond_the_last_k() {
    let tile = Tile { step: 64, stages: 4, ..TILES[0] };
    assert!(tile.is_whole(384) && tile.is_whole(192));
    assert!(!tile.is_whole(128) && !tile.is_whole(200));
}

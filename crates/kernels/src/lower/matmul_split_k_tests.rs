use super::super::gemv::tests::{LIMITS, constant, linear};
use super::*;

const GPU: Limits = Limits { parallel_groups: 4 * 132, ..LIMITS };

/// The tile that a layer gets.
fn tile(rows: usize, outputs: usize, k: usize) -> Option<[i32; 3]> {
    let launch = lower_split_k(&linear(DType::F32, rows, outputs, k), true, &GPU)?;
    let launch = &launch.launches[0];
    let (rows, columns) = (constant(launch, "ROWS"), constant(launch, "COLUMNS"));
    assert_eq!(launch.threads as i32, constant(launch, "THREADS"));
    Some([8 * rows, 4 * columns, (launch.groups[0] * launch.groups[2]) as i32])
}

#[test]
fn a_tile_is_as_small_as_leaves_every_group_a_processor() {
    assert_eq!(tile(8, 1024, 1024), Some([8, 8, 128]));
    assert_eq!(tile(16, 1024, 1024), Some([16, 8, 128]));
    assert_eq!(tile(128, 256, 256), Some([16, 16, 128]));
    assert_eq!(tile(128, 768, 256), Some([64, 16, 96]));
    assert_eq!(tile(512, 512, 512), Some([64, 32, 128]));
}

#[test]
fn large_products_and_other_orders_are_left_to_others() {
    assert_eq!(tile(64, 2048, 2048), None);
    assert_eq!(tile(1024, 1024, 64), None);
    // 30 is no multiple of what is taken at once.
    assert_eq!(tile(128, 256, 30), None);
    let wide = linear(DType::F64, 128, 256, 256);
    assert!(lower_split_k(&wide, false, &GPU).is_none());
}

#[test]
fn small_groups_have_fewer_slices() {
    let limits = Limits { max_threads: 64, ..GPU };
    let lowered = lower_split_k(&linear(DType::BF16, 128, 256, 256), false, &limits).unwrap();
    assert_eq!((lowered.launches[0].threads, constant(&lowered.launches[0], "THREADS")), (64, 64));
    // And a long k has more, where there is little else to do.
    let threads = |rows| {
        lower_split_k(&linear(DType::F32, rows, 1024, 1024), false, &GPU).unwrap().launches[0]
            .threads
    };
    assert_eq!((threads(8), threads(32)), (512, 256));
}

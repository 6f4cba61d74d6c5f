use super::*;

const GPU: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    tensor_cores: true,
    matrices: false,
    parallel_groups: 4 * 132,
};

/// Channels, slices and groups of the tile for outputs, positions and k.
fn tile(sizes: [usize; 3], limits: &Limits) -> Option<[usize; 3]> {
    let tile = Tile::choose(sizes, 1, DType::F16, 16, limits)?;
    let [rows, columns] = tile.groups(sizes[0], sizes[1]);
    Some([16 * tile.rows, tile.slices, rows * columns])
}

#[test]
fn groups_have_as_many_channels_as_leave_every_processor_one() {
    assert_eq!(tile([256, 6400, 2304], &GPU), Some([64, 4, 800]));
    assert_eq!(tile([256, 1600, 2304], &GPU), Some([64, 4, 200]));
    assert_eq!(tile([256, 200, 768], &GPU), Some([16, 8, 112]));
    // No more channels than there are, and no simd group without a share of k.
    assert_eq!(tile([24, 25600, 27], &GPU), Some([32, 1, 800]));
    assert_eq!(tile([8, 25600, 64], &GPU), Some([16, 2, 800]));
}

#[test]
fn tiles_fit_into_the_memory_and_the_threads_of_a_group() {
    let small = Limits { shared_bytes: 32 << 10, ..GPU };
    assert_eq!(tile([256, 6400, 2304], &small), Some([64, 2, 800]));
    let few = Limits { max_threads: 64, ..small };
    assert_eq!(tile([256, 200, 768], &few), Some([16, 2, 112]));
    for limits in [GPU, small, few] {
        let tile = Tile::choose([256, 6400, 2304], 1, DType::BF16, 40, &limits).unwrap();
        assert!(tile.shared_bytes(40) <= limits.shared_bytes as usize, "{tile:?}");
    }
}

#[test]
fn others_are_left_to_others() {
    assert_eq!(Tile::choose([256, 200, 768], 1, DType::F32, 16, &GPU), None);
    assert_eq!(tile([256, 200, 768], &Limits { tensor_cores: false, ..GPU }), None);
    assert_eq!(tile([256, 200, 0], &GPU), None);
}

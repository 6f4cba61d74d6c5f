use super::super::attention::tests::{LIMITS, constant, launch_with};
use super::*;

const GPU: Limits = Limits { tensor_cores: true, ..LIMITS };

fn cut(launch: &Launch) -> [i32; 5] {
    ["TILE", "SIZE", "COLUMNS", "VECTOR", "SPLIT"].map(|name| constant(launch, name))
}

#[test]
fn few_groups_share_the_keys_of_their_queries() {
    let small = launch_with([12, 128, 128, 32, 32], DType::F16, &GPU);
    assert_eq!(small.key.program(), Program::AttentionTensorCores);
    assert_eq!((small.groups, small.threads), ([8, 12, 1], 128));
    assert_eq!(cut(&small), [32, 32, 32, 8, 1]);
    let many = launch_with([16, 1024, 1024, 64, 64], DType::BF16, &GPU);
    assert_eq!((many.groups, many.threads), ([16, 16, 1], 128));
    assert_eq!(cut(&many), [64, 64, 64, 8, 0]);
}

#[test]
fn sizes_are_rounded_up_and_odd_ones_taken_by_elements() {
    let odd = launch_with([16, 1024, 1024, 40, 70], DType::F16, &GPU);
    assert_eq!(cut(&odd), [32, 48, 80, 1, 0]);
    let tall = launch_with([16, 1024, 1024, 128, 128], DType::F16, &GPU);
    assert_eq!(cut(&tall), [32, 128, 128, 8, 0]);
}

#[test]
fn others_are_left_to_the_other_kernels() {
    for (sizes, dtype, limits) in [
        ([12, 128, 128, 32, 32], DType::F32, GPU),
        ([12, 15, 128, 32, 32], DType::F16, GPU),
        ([12, 128, 128, 129, 32], DType::F16, GPU),
        ([12, 128, 128, 32, 129], DType::F16, GPU),
        ([12, 128, 128, 32, 32], DType::F16, LIMITS),
    ] {
        let program = launch_with(sizes, dtype, &limits).key.program();
        assert_ne!(program, Program::AttentionTensorCores, "{sizes:?} of {dtype:?}");
    }
}

#[test]
fn tiles_fit_into_the_memory_of_a_group() {
    let small = Limits { shared_bytes: 32 << 10, ..GPU };
    for limits in [GPU, small, Limits { max_threads: 64, ..small }] {
        for size in (16..=128).step_by(16) {
            for columns in (16..=128).step_by(16) {
                for heads in [1, 64] {
                    let sizes = [heads, 1024, 1024, size, columns];
                    let launch = launch_with(sizes, DType::F16, &limits);
                    assert_eq!(launch.key.program(), Program::AttentionTensorCores, "{sizes:?}");
                    let [keys, size, columns, _, split] = cut(&launch).map(|value| value as usize);
                    let (split, simds) = (split == 1, launch.threads as usize / 32);
                    let cut = Cut { keys, size, columns, split, simds };
                    assert!(cut.shared_bytes() <= limits.shared_bytes as usize, "{cut:?}");
                }
            }
        }
    }
}

use super::*;

#[test]
fn segments_are_aligned_and_an_impossible_one_is_none() {
    assert_eq!(allocate(1000).unwrap().address % ALIGNMENT, 0);
    assert!(allocate(isize::MAX as usize - 4096).is_none());
}

#[test]
fn the_default_limit_leaves_room() {
    assert!(total() > 1 << 20);
    assert!(default_limit() <= total() / 4 * 3);
    assert!(default_limit() >= total() / 2);
}

#[test]
fn limits_of_all_groups_above_are_looked_at() {
    let groups = "0::/a/b\n3:cpu:/x\n4:cpu,memory:/c\n";
    let expected = [
        "/sys/fs/cgroup/a/b/memory.max",
        "/sys/fs/cgroup/a/memory.max",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/c/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    assert_eq!(limit_files(groups).collect::<Vec<_>>(), expected);
    for broken in ["", "0", "0:", ":::", "::/..", "\n\n"] {
        assert!(limit_files(broken).count() < 10);
    }
}

use super::*;

#[test]
fn tokens_are_of_the_vocabulary_and_differ_by_seed() {
    let all = ids(3, 50, 200);
    assert!(all.iter().all(|id| (0..50).contains(id)));
    assert_eq!(all, ids(3, 50, 200));
    assert_ne!(all, ids(4, 50, 200));
}

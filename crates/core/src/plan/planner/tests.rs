use proptest::prelude::*;

use super::*;

fn life(first: usize, last: usize, bytes: usize) -> Life {
    Life { first, last, bytes }
}

#[test]
fn values_that_follow_each_other_share_a_place() {
    let lives = [life(0, 1, 100), life(1, 2, 100), life(2, 3, 100), life(3, 4, 100)];
    let (offsets, total) = place(&lives, 64);
    assert_eq!((offsets, total), (vec![0, 128, 0, 128], 228));
}

#[test]
fn a_small_value_goes_between_large_ones() {
    let lives = [life(0, 9, 256), life(0, 2, 256), life(3, 9, 128), life(4, 9, 128)];
    let (offsets, total) = place(&lives, 64);
    assert_eq!(total, 512);
    assert_eq!(offsets, [0, 256, 256, 384]);
}

proptest! {
    #[test]
    fn what_lives_at_the_same_time_lies_apart(
        lives in prop::collection::vec((0usize..40, 0usize..10, 0usize..1000), 0..60),
    ) {
        let lives: Vec<Life> =
            lives.into_iter().map(|(first, more, bytes)| life(first, first + more, bytes)).collect();
        let (offsets, total) = place(&lives, 64);
        for (index, one) in lives.iter().enumerate() {
            prop_assert!(offsets[index] % 64 == 0 && offsets[index] + one.bytes <= total);
            for (other, two) in lives.iter().enumerate().skip(index + 1) {
                let apart = offsets[index] + one.bytes <= offsets[other]
                    || offsets[other] + two.bytes <= offsets[index];
                prop_assert!(apart || !one.meets(two), "{one:?} and {two:?}");
            }
        }
        let sum: usize = lives.iter().map(|life| life.bytes.next_multiple_of(64)).sum();
        prop_assert!(total <= sum);
    }
}

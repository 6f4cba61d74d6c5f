use super::Spread;

#[test]
fn as_many_times_are_taken_as_there_is_room_for_with_the_first_and_the_last() {
    for times in 1..=70 {
        for taken in 0..=times {
            let mut spread = Spread::new(times, taken);
            assert_eq!(spread.is_whole(), taken == times);
            let all: Vec<bool> = (0..times).map(|_| spread.takes_next()).collect();
            assert_eq!(all.iter().filter(|is| **is).count(), taken, "{taken} of {times}");
            assert!(taken == 0 || all[0], "{taken} of {times}");
            assert!(taken < 2 || all[times - 1], "{taken} of {times}");
        }
    }
}

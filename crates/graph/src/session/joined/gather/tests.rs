use super::*;

#[test]
fn short_calls_are_counted_together_and_long_ones_at_once() {
    let begun = Instant::now();
    let counted = |owner, micros: u64| calls(owner, 1, begun + Duration::from_micros(micros));
    // The first says that there are calls.
    assert_eq!(counted(1, 0), Some(1));
    let short: Vec<_> = (1..=16).map(|call| counted(1, call)).collect();
    assert_eq!(short.iter().flatten().collect::<Vec<_>>(), [&8, &8]);
    assert_eq!([counted(1, 17), counted(1, 1100), counted(1, 1101)], [None, Some(2), None]);
    assert_eq!(counted(1, 5000), Some(2));
    assert_eq!(counted(2, 5001), Some(1));
}

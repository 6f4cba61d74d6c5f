use super::*;

/// A thread's losses follow from the seed and its name, and seeds differ widely.
#[test]
fn a_seed_gives_a_thread_the_same_losses_again() {
    let losses = |seed, name| {
        SEED.store(seed, Ordering::Relaxed);
        let mut habits = Habits::new(1, name);
        let loss = |_| match habits.loss() {
            Loss::Nothing => 0,
            Loss::Yield => 1,
            Loss::Spin(times) => 2 + u128::from(times),
            Loss::Sleep(time) => 1 << 20 | time.as_micros(),
        };
        (0..1000).map(loss).collect::<Vec<u128>>()
    };
    assert_eq!(losses(1, "a"), losses(1, "a"));
    assert_ne!(losses(1, "a"), losses(1, "b"));
    let counts: Vec<_> = (0..100)
        .map(|seed| losses(seed, "a").into_iter().filter(|&loss| loss != 0).count())
        .collect();
    assert!(counts.iter().any(|&count| count < 20) && counts.iter().any(|&count| count > 300));
}

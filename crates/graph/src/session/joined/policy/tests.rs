use super::*;

/// Calls that compete, with a clock of their own.
struct Load {
    policy: Policy,
    now: Instant,
    callers: usize,
}

impl Load {
    fn new(policy: Policy, callers: usize) -> Self {
        Self { policy, now: Instant::now(), callers }
    }

    /// So much time with calls, each of which takes as long as `rate` says for the mode. Gives how often each mode was in use.
    fn pass(&mut self, time: Duration, rate: impl Fn(Mode, Instant) -> f64) -> Vec<(Mode, usize)> {
        let end = self.now + time;
        let mut uses: Vec<(Mode, usize)> =
            self.policy.choices.iter().map(|&mode| (mode, 0)).collect();
        while self.now < end {
            let mode = self.policy.mode();
            self.now += Duration::from_secs_f64(1.0 / rate(mode, self.now));
            self.policy.count(1, self.callers, self.now);
            for (known, count) in &mut uses {
                *count += usize::from(*known == mode);
            }
        }
        uses
    }
}

fn share(uses: &[(Mode, usize)], mode: Mode) -> f64 {
    let all: usize = uses.iter().map(|(_, count)| count).sum();
    let one: usize = uses.iter().filter(|(known, _)| *known == mode).map(|(_, count)| count).sum();
    one as f64 / all as f64
}

const ALONE: Mode = Mode::Alone;
const TWO: Mode = Mode::Joined(2);

#[test]
fn the_faster_way_is_found_and_kept() {
    for (alone, joined, best) in [(1e4, 3e4, TWO), (3e4, 1e4, ALONE)] {
        let mut load = Load::new(Policy::new(false, None, Some(2)), 8);
        let rate = |mode: Mode, _| if mode == ALONE { alone } else { joined };
        load.pass(Duration::from_secs(1), rate);
        let uses = load.pass(Duration::from_secs(10), rate);
        assert!(share(&uses, best) > 0.95, "{uses:?}");
    }
}

/// While something else uses the machine, all is slower by half, and a trial may fall into that time.
#[test]
fn a_disturbed_machine_does_not_mislead() {
    let start = Instant::now();
    let mut load = Load::new(Policy::new(false, None, Some(2)), 31);
    let rate = |mode: Mode, now: Instant| {
        let busy = now.saturating_duration_since(start).as_millis() / 10 % 5 == 2;
        (if mode == ALONE { 2e4 } else { 3e4 }) * if busy { 0.4 } else { 1.0 }
    };
    load.pass(Duration::from_secs(1), rate);
    let uses = load.pass(Duration::from_secs(20), rate);
    assert!(share(&uses, TWO) > 0.9, "{uses:?}");
}

#[test]
fn other_numbers_of_callers_are_another_case() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 2);
    let few = |mode: Mode, _| if mode == ALONE { 2e4 } else { 1e4 };
    load.pass(Duration::from_secs(30), few);
    assert_eq!(load.policy.mode(), ALONE);
    load.callers = 31;
    let many = |mode: Mode, _| if mode == ALONE { 2e4 } else { 5e4 };
    load.pass(Duration::from_millis(500), many);
    assert_eq!(load.policy.mode(), TWO, "long before the time is over for which it was kept");
}

/// Calls come at times of their own, and pile up while they run alone. That is no other load.
#[test]
fn calls_that_pile_up_in_a_trial_do_not_have_all_tried_again() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 4);
    let (mut alone, mut all) = (0, 0);
    let end = load.now + Duration::from_secs(10);
    while load.now < end {
        let is_alone = load.policy.mode() == ALONE;
        load.callers = if is_alone { 31 } else { 4 };
        load.now += Duration::from_secs_f64(if is_alone { 1e-4 } else { 5e-5 });
        load.policy.count(1, load.callers, load.now);
        alone += usize::from(is_alone);
        all += 1;
    }
    assert!(alone * 100 < all, "{alone} of {all} calls ran alone");
}

/// Where a call of a batch takes a fraction of one by itself, no call has to queue for a trial that would show that.
#[test]
fn what_batches_take_makes_trials_unnecessary() {
    for (shared, tried) in [(20, false), (60, false), (80, true)] {
        let mut load = Load::new(Policy::new(false, None, Some(2)), 8);
        for _ in 0..KNOWN_AFTER {
            load.policy.note_batch(1, 1, 8, Duration::from_micros(100));
            load.policy.note_batch(4, 4, 8, Duration::from_micros(4 * shared));
            // These have all cores, and count for nothing.
            load.policy.note_batch(1, 1, 1, Duration::from_micros(10));
            load.policy.note_batch(8, 8, 8, Duration::from_micros(1));
        }
        let uses = load.pass(Duration::from_secs(1), |_, _| 2e4);
        assert_eq!(share(&uses, ALONE) > 0.0, tried, "{shared} µs: {uses:?}");
        assert!(share(&uses, TWO) > 0.9);
    }
}

#[test]
fn a_lone_caller_decides_nothing() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 1);
    let uses = load.pass(Duration::from_secs(2), |mode, _| if mode == ALONE { 9e4 } else { 1e4 });
    assert_eq!(share(&uses, TWO), 1.0);
}

#[test]
fn what_is_set_is_not_tried() {
    assert_eq!(Policy::new(true, Some(3), None).choices, [Mode::Joined(3)]);
    assert_eq!(Policy::new(true, None, Some(2)).choices, [TWO]);
    assert_eq!(
        Policy::new(false, None, Some(16)).choices,
        [Mode::Joined(16), ALONE, Mode::Joined(4)]
    );
    assert_eq!(Policy::new(false, None, None).choices.len(), 4);
    assert_eq!(Policy::new(true, None, Some(500)).choices[0], Mode::Joined(MAX_IN_FLIGHT));
}

/// As [`Load::pass`], and batches say what they take, in microseconds for a single call and for each of two.
fn pass_with_costs(load: &mut Load, time: Duration, rates: [f64; 2], costs: [u64; 2]) {
    let end = load.now + time;
    let mut is_single = false;
    while load.now < end {
        let mode = load.policy.mode();
        let [alone, joined] = rates;
        load.now += Duration::from_secs_f64(1.0 / if mode == ALONE { alone } else { joined });
        if mode != ALONE {
            is_single = !is_single || load.callers <= 2;
            let (calls, each) = if is_single { (1, costs[0]) } else { (2, costs[1]) };
            let took = Duration::from_micros(calls as u64 * each);
            load.policy.note_batch(calls, calls, load.callers, took);
        }
        load.policy.count(1, load.callers, load.now);
    }
}

/// What was noted of batches makes trials of running alone unnecessary, and must not make all others so.
#[test]
fn running_alone_is_not_kept_for_ever() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 2);
    pass_with_costs(&mut load, Duration::from_secs(3), [2.6e4, 2.4e4], [75, 40]);
    assert_eq!(load.policy.mode(), ALONE);
    // Joining gains too little, and it becomes known what batches take.
    load.callers = 4;
    pass_with_costs(&mut load, Duration::from_secs(3), [2.5e4, 2.58e4], [75, 40]);
    load.callers = 64;
    pass_with_costs(&mut load, Duration::from_secs(30), [2.4e4, 7e4], [75, 20]);
    assert_eq!(load.policy.mode(), TWO);
}

/// The first batch of a single call was cold. That is forgotten.
#[test]
fn a_cost_of_long_ago_decides_nothing() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 8);
    load.policy.note_batch(1, 1, 8, Duration::from_millis(20));
    for _ in 1..KNOWN_AFTER {
        load.policy.note_batch(1, 1, 8, Duration::from_micros(100));
    }
    let end = load.now + Duration::from_secs(60);
    while load.now < end {
        let mode = load.policy.mode();
        load.now += Duration::from_secs_f64(1.0 / if mode == ALONE { 2e4 } else { 1e4 });
        if mode != ALONE {
            load.policy.note_batch(4, 4, 8, Duration::from_micros(400));
        }
        load.policy.count(1, 8, load.now);
    }
    assert_eq!(load.policy.mode(), ALONE);
}

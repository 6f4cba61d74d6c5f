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

/// Calls come at times of their own, 31 at once at most, faster than they can run alone. Gives how many wait at most, and how many run alone.
fn send(load: &mut Load, time: Duration, arrivals: f64, rates: [f64; 2]) -> (usize, usize) {
    let end = load.now + time;
    let (mut waiting, mut most, mut alone) = (0f64, 0f64, 0);
    while load.now < end {
        let is_alone = load.policy.mode() == ALONE;
        let rate = if is_alone { rates[0] } else { rates[1] };
        let idle = if waiting < 1.0 { 1.0 / arrivals } else { 0.0 };
        let took = (1.0 / rate).max(idle);
        load.now += Duration::from_secs_f64(took);
        waiting = (waiting + arrivals * took - 1.0).max(0.0);
        load.callers = (10 + waiting as usize).min(31);
        load.policy.count(1, load.callers, load.now);
        most = most.max(waiting);
        alone += usize::from(is_alone);
    }
    (most as usize, alone)
}

#[test]
fn a_trial_ends_before_many_calls_wait_for_it() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 10);
    let (most, _) = send(&mut load, Duration::from_secs(10), 5e4, [2e4, 6.5e4]);
    assert!((62..160).contains(&most), "{most} calls waited");
}

/// They are still there when the best way is tried next, and gone soon while it is kept.
#[test]
fn calls_that_piled_up_in_a_trial_are_no_other_load_when_they_are_gone() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 10);
    send(&mut load, Duration::from_secs(2), 5e4, [2e4, 5.6e4]);
    let (_, alone) = send(&mut load, Duration::from_secs(60), 5e4, [2e4, 5.6e4]);
    assert!((1..500).contains(&alone), "{alone} calls ran alone");
}

/// Calls by themselves are counted some at a time, but for the first one of each thread: then none are for a while.
#[test]
fn a_trial_is_not_that_of_the_time_until_calls_are_counted_together() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 8);
    let end = load.now + Duration::from_secs(1);
    let mut was = TWO;
    while load.now < end {
        let mode = load.policy.mode();
        // 40 calls in this time alone, and 36 joined.
        let (part, rows) = match (mode, was) {
            (ALONE, ALONE) => (1.0, [5; 8]),
            (ALONE, _) => (0.2, [1; 8]),
            _ => (0.25, [9, 0, 0, 0, 0, 0, 0, 0]),
        };
        load.now += gather::TIME.mul_f64(part);
        for rows in rows.into_iter().filter(|&rows| rows > 0) {
            load.policy.count(rows, load.callers, load.now);
        }
        was = mode;
    }
    assert_eq!(load.policy.mode(), ALONE);
}

#[test]
fn a_moment_with_other_numbers_of_callers_is_no_other_load() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 4);
    let rate = |mode: Mode, _| if mode == ALONE { 1e4 } else { 4e4 };
    load.pass(Duration::from_secs(30), rate);
    let mut alone = 0.0;
    for _ in 0..20 {
        // So short that of two looks one sees little of it.
        load.callers = 31;
        alone += share(&load.pass(Duration::from_millis(14), rate), ALONE);
        load.callers = 4;
        alone += share(&load.pass(3 * LOOKED_AT, rate), ALONE);
    }
    assert_eq!(alone, 0.0);
}

/// As calls of 75 ms from 31 callers do, where a batch of 16 takes longer than they take together.
#[test]
fn trials_are_a_small_part_of_the_time_however_long_calls_take() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 31);
    let begun = load.now;
    let mut joined = Duration::ZERO;
    while load.now - begun < Duration::from_secs(6) {
        let (rows, rate) = if load.policy.mode() == ALONE { (1, 400.0) } else { (16, 340.0) };
        let took = Duration::from_secs_f64(rows as f64 / rate);
        load.now += took;
        load.policy.count(rows, load.callers, load.now);
        joined += if rows > 1 { took } else { Duration::ZERO };
    }
    assert_eq!(load.policy.mode(), ALONE);
    assert!(joined < Duration::from_millis(500), "{joined:?} of 6 s");
}

#[test]
fn a_way_that_is_far_behind_again_has_one_trial() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 8);
    let rate = |mode: Mode, _| if mode == ALONE { 1e4 } else { 4e4 };
    let mut uses = Vec::new();
    while uses.len() < 5 {
        let before = load.policy.mode();
        load.pass(Duration::from_micros(50), rate);
        if before != ALONE && load.policy.mode() == ALONE {
            uses.push(load.now);
        }
    }
    let gaps: Vec<Duration> = uses.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] < KEPT, "two trials in the first round: {gaps:?}");
    assert!(gaps[1..].is_sorted() && gaps[1] > 3 * KEPT, "one in each of the others: {gaps:?}");
}

/// On a device that computes by itself trials are short, and chance is much of them: each choice has all of its trials, and whole ones.
#[test]
fn short_trials_are_whole_and_as_many_for_each_choice() {
    let mut load = Load::new(Policy::new(false, None, None), 31);
    // Behind, but not hopeless.
    let rate = |mode: Mode, _| if mode == ALONE { 8e4 } else { 1e5 };
    let mut trials = 0;
    let mut before = (load.policy.mode(), load.now);
    while load.policy.state.lock().unwrap().kept_until.is_none() {
        load.pass(Duration::from_micros(20), rate);
        let mode = load.policy.mode();
        if mode != before.0 {
            if before.0 == ALONE {
                trials += 1;
                // Looked at once in some calls.
                let whole = 2 * TRIAL_ON_DEVICE - Duration::from_micros(50);
                assert!(load.now - before.1 >= whole, "{:?}", load.now - before.1);
            }
            before = (mode, load.now);
        }
    }
    assert_eq!(trials, TRIALS);
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

/// A caller that was alone for hours must not have the first choice kept for days.
#[test]
fn the_time_of_a_lone_caller_is_no_time_of_trials() {
    let mut load = Load::new(Policy::new(false, None, Some(2)), 1);
    let rate = |mode: Mode, _| if mode == ALONE { 1e4 } else { 2e4 };
    load.pass(Duration::from_secs(60), rate);
    load.callers = 8;
    while load.policy.state.lock().unwrap().kept_until.is_none() {
        load.pass(Duration::from_millis(1), rate);
    }
    let until = load.policy.state.lock().unwrap().kept_until.unwrap();
    assert!(until - load.now <= KEPT_MOST, "{:?}", until - load.now);
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

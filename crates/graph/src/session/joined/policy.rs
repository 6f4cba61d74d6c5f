//! Whether joining pays, and how many batches should be in flight: found out by trying.
//!
//! The choices take turns for a short time each, while calls compete. Each is tried several times, in turn with the others, and counts by
//! the second best of its trials: a machine is disturbed now and then, which makes it slower, and a single trial says
//! little. What was found is kept for longer every time it is found again. All are tried anew when other numbers of callers compete: then another choice
//! may be the best. A rate that changes says less: it does so whenever something else uses the machine.
//!
//! Calls may come at times of their own, faster than a choice can run them. Then they pile up while it is tried, and all that come wait until the
//! pile is gone. So a trial ends as soon as it is [clearly behind](State::is_behind), and what all trials take is a small part of the time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::gather;

/// How calls are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each by itself.
    Alone,
    /// Joined, with so many batches in flight.
    Joined(usize),
}

/// Batches in flight at most: each has a stream.
pub(super) const MAX_IN_FLIGHT: usize = 16;

/// Streams that leaders have from the beginning on such a device.
pub(super) const LANES: usize = 8;

/// Batches in flight that are tried on a device that computes by itself, the likeliest first.
const ON_DEVICE: [usize; 3] = [4, 8, 2];

/// A choice is tried for at least so long and so many calls or batches. What comes before does not count: as many calls as are there, since
/// those were begun in another way, and the first ones of each thread, which are not [counted together](gather). Where batches take long, few must
/// do.
const TRIAL: Duration = Duration::from_millis(8);
/// The same on a device that computes by itself, where batches take microseconds. Chance is much of so short a trial: as much before it does not
/// count, and each choice has all of its trials, whole ones.
const TRIAL_ON_DEVICE: Duration = Duration::from_millis(2);
const TRIAL_ENDS: usize = 6;
const LONG_TRIAL: Duration = Duration::from_millis(50);

/// Trials of each choice.
const TRIALS: usize = 4;

/// What was found best is kept for so long at first, and at most; but for so many times as long as its trials took.
const KEPT: Duration = Duration::from_millis(500);
const KEPT_MOST: Duration = Duration::from_secs(8);
const KEPT_TIMES: u32 = 10;

/// While it is kept, the number of callers is looked at again after so long. If it is another by this factor, and by so many, twice in turn, all are
/// tried.
const LOOKED_AT: Duration = Duration::from_millis(100);
const CHANGED: f64 = 1.6;
const CHANGED_BY: f64 = 1.0;

/// A choice that reaches less than this share of the best in two trials, or in one if it was so before, is not tried again in this round, and
/// left out of some: so many at first, and at most.
const HOPELESS: f64 = 0.75;
const LEFT_OUT: u8 = 3;
const LEFT_OUT_MOST: u8 = 48;

/// Another choice must be better by this factor.
const BETTER: f64 = 1.05;

/// A trial ends as soon as the best other choice would have run so many times as many calls in its time, and so many more for each that is there.
const BEHIND: f64 = 1.5;
const BEHIND_BY: f64 = 2.0;

/// If a call that is the only one of its batch takes so many times as long as a call of a larger batch does, running all by themselves
/// is not tried: the calls that come during a trial would queue up. Known after so many batches of either kind.
const CLEARLY_BETTER: f64 = 1.5;
const KNOWN_AFTER: usize = 16;

pub(super) struct Policy {
    /// The index of the choice in use.
    current: AtomicUsize,
    /// Which choices there are.
    choices: Vec<Mode>,
    /// How long a trial takes at least.
    trial: Duration,
    state: Mutex<State>,
    /// Since the beginning of the trial: rows of calls, how often some came to their end together, how many calls were there then, summed up,
    /// and how often it was more than one.
    rows: AtomicUsize,
    ends: AtomicUsize,
    at_hand: AtomicUsize,
    contended: AtomicUsize,
    /// What a row takes of a call that is the only one of its batch, and of a larger batch.
    single: Cost,
    shared: Cost,
}

/// What a row takes on average, while other calls are there. Those that count at once may count as one.
#[derive(Default)]
struct Cost {
    nanoseconds: AtomicU64,
    count: AtomicUsize,
}

impl Cost {
    fn add(&self, took: Duration, rows: usize) {
        let each = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / rows.max(1) as u64;
        let before = self.nanoseconds.load(Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        let mean = if count == 0 { each } else { before - before / 16 + each / 16 };
        self.nanoseconds.store(mean, Ordering::Relaxed);
        self.count.store(count.saturating_add(1), Ordering::Relaxed);
    }

    fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    fn known(&self) -> Option<f64> {
        let is_known = self.count.load(Ordering::Relaxed) >= KNOWN_AFTER;
        is_known.then(|| self.nanoseconds.load(Ordering::Relaxed) as f64)
    }
}

struct State {
    /// Whether the device computes by itself, so that trials are short.
    on_device: bool,
    /// When the trial began, or the keeping. Nothing before the first call.
    begun: Option<Instant>,
    /// Whether the part of the trial that does not count is over.
    counts: bool,
    tried: Vec<Tried>,
    /// How long the trials of this round took.
    spent: Duration,
    /// The choice that is kept between rounds.
    best: usize,
    /// How many calls are there at a time while it is kept, once that is known. Trials say nothing about that: where calls come
    /// at times of their own, they pile up while a slower choice is tried, and are still there when the best one is tried next.
    callers: Option<f64>,
    /// Whether it was another number when it was looked at last.
    looked_other: bool,
    /// Set while it is kept: until when.
    kept_until: Option<Instant>,
    keep: Duration,
}

/// What is known of a choice.
#[derive(Clone, Default)]
struct Tried {
    /// The rates of its trials in this round.
    rates: Vec<f64>,
    /// In how many rounds it is left out yet, and in how many it was the last time.
    left_out: u8,
    was_left_out: u8,
}

impl Tried {
    /// The second best of the trials of this round, or the only one.
    fn rate(&self) -> Option<f64> {
        let mut rates = self.rates.clone();
        rates.sort_by(|a, b| b.total_cmp(a));
        rates.get(1).or(rates.first()).copied()
    }

    /// Whether nothing speaks for it, after two trials. If they are not short, one is enough if it was so before.
    fn is_hopeless(&self, best: f64, short: bool) -> bool {
        let enough = if self.was_left_out > 0 && !short { 1 } else { 2 };
        self.rates.len() >= enough && self.rates.iter().all(|&rate| rate < best * HOPELESS)
    }

    /// Whether it is not the best one after two trials, which do not have to be told apart from chance by further ones.
    fn is_surpassed(&self, best: f64) -> bool {
        self.rates.len() > 1 && self.rates.iter().all(|&rate| rate * BETTER < best)
    }
}

impl Policy {
    /// `cores` if the processor that the callers need computes: a batch on each core is what fills it.
    pub fn new(always: bool, in_flight: Option<usize>, cores: Option<usize>) -> Self {
        let cores = cores.map(|cores| cores.clamp(1, MAX_IN_FLIGHT));
        let joined: Vec<usize> = match (in_flight, cores) {
            (Some(set), _) => vec![set],
            // On many cores fewer and larger batches may be better, each on some.
            (None, Some(cores)) if cores > 2 => vec![cores, cores.div_ceil(4)],
            (None, Some(cores)) => vec![cores],
            (None, None) => ON_DEVICE.to_vec(),
        };
        let mut choices: Vec<Mode> = joined.into_iter().map(Mode::Joined).collect();
        if !always {
            choices.insert(1, Mode::Alone);
        }
        let state = State {
            on_device: cores.is_none(),
            begun: None,
            counts: false,
            tried: vec![Tried::default(); choices.len()],
            spent: Duration::ZERO,
            best: 0,
            callers: None,
            looked_other: false,
            kept_until: None,
            keep: KEPT,
        };
        Self {
            current: AtomicUsize::new(0),
            choices,
            trial: if cores.is_some() { TRIAL } else { TRIAL_ON_DEVICE },
            state: Mutex::new(state),
            rows: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            at_hand: AtomicUsize::new(0),
            contended: AtomicUsize::new(0),
            single: Cost::default(),
            shared: Cost::default(),
        }
    }

    /// How calls are run now.
    pub fn mode(&self) -> Mode {
        self.choices[self.current.load(Ordering::Relaxed)]
    }

    /// Counts calls of so many rows that have come to their end while so many calls were there, these among them, and goes on to the
    /// next choice when it is time. Says whether the choice may be another now.
    pub fn count(&self, rows: usize, at_hand: usize, now: Instant) -> bool {
        if self.choices.len() < 2 {
            return false;
        }
        if at_hand > 1 {
            self.contended.fetch_add(1, Ordering::Relaxed);
        }
        self.at_hand.fetch_add(at_hand, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.ends.fetch_add(1, Ordering::Relaxed);
        // Whoever has the lock decides; the others go on.
        self.state.try_lock().is_ok_and(|mut state| self.advance(&mut state, now))
    }

    /// Notes what a batch of so many calls took, with so many rows, while so many calls were there.
    pub fn note_batch(&self, calls: usize, rows: usize, at_hand: usize, took: Duration) {
        // A batch that has all cores says nothing about those that share them.
        if at_hand > calls {
            if calls == 1 { &self.single } else { &self.shared }.add(took, rows);
        }
    }

    /// Whether it is clear without a trial that joining pays.
    fn joining_clearly_pays(&self) -> bool {
        let costs = self.single.known().zip(self.shared.known());
        costs.is_some_and(|(single, shared)| single > shared * CLEARLY_BETTER)
    }

    fn restart(&self, state: &mut State, now: Instant) {
        for counter in [&self.rows, &self.ends, &self.at_hand, &self.contended] {
            counter.store(0, Ordering::Relaxed);
        }
        state.begun = Some(now);
    }

    /// Looks whether a trial or the keeping is over. Says whether the choice has changed.
    fn advance(&self, state: &mut State, now: Instant) -> bool {
        let Some(begun) = state.begun else {
            self.restart(state, now);
            return true;
        };
        let elapsed = now.saturating_duration_since(begun);
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let (rows, ends) = (read(&self.rows), read(&self.ends));
        let callers = read(&self.at_hand) as f64 / ends.max(1) as f64;
        if let Some(until) = state.kept_until {
            let checks = elapsed >= LOOKED_AT && ends >= TRIAL_ENDS;
            if now < until && !checks {
                return false;
            }
            let changed = checks && state.have_changed(callers);
            self.restart(state, now);
            if now < until && !changed {
                return false;
            }
            if changed {
                state.keep = KEPT;
                state.tried.fill(Tried::default());
            }
            state.kept_until = None;
            state.counts = false;
            state.spent = Duration::ZERO;
            state.tried.iter_mut().for_each(|tried| tried.rates.clear());
            // What batches took long ago says nothing about now.
            [&self.single, &self.shared].into_iter().for_each(Cost::forget);
            return false;
        }
        let enough = if elapsed < LONG_TRIAL { TRIAL_ENDS } else { 1 };
        let current = read(&self.current);
        let is_over = match state.counts {
            true => elapsed >= self.trial || state.is_behind(current, rows, callers, elapsed),
            false if state.on_device => elapsed >= self.trial,
            false => elapsed >= LONG_TRIAL || (elapsed >= gather::TIME && rows as f64 >= callers),
        };
        if !is_over || ends < enough {
            return false;
        }
        let contended = read(&self.contended);
        self.restart(state, now);
        // A time without calls is no trial.
        state.spent += elapsed.min(2 * LONG_TRIAL);
        if !std::mem::replace(&mut state.counts, true) {
            return false;
        }
        state.counts = false;
        // Where calls hardly meet, there is nothing to compare.
        if contended * 4 < ends {
            // However long that goes on, no trial was had.
            state.spent = Duration::ZERO;
            return false;
        }
        let rate = rows as f64 / elapsed.as_secs_f64().max(1e-9);
        state.tried[current].rates.push(rate);
        let skipped = if self.joining_clearly_pays() {
            self.choices.iter().position(|&mode| mode == Mode::Alone)
        } else {
            None
        };
        let next = match state.untried(current, skipped) {
            Some(untried) => untried,
            None => state.settle(now),
        };
        self.current.store(next, Ordering::Relaxed);
        next != current
    }
}

impl State {
    /// Whether a trial shows already that another choice is far better: so that calls which come as fast as that one runs them pile up no further.
    /// Fewer than these can be chance.
    fn is_behind(&self, current: usize, rows: usize, callers: f64, elapsed: Duration) -> bool {
        let others = self.tried.iter().enumerate().filter(|&(at, _)| at != current);
        let best = others.filter_map(|(_, tried)| tried.rate()).fold(0.0, f64::max);
        let (rows, expected) = (rows as f64, best * elapsed.as_secs_f64());
        !self.on_device && expected > rows * BEHIND && expected - rows >= callers * BEHIND_BY
    }

    /// Notes how many calls are there while the best choice is kept. Says whether others compete than before: seen twice, since once may be chance.
    fn have_changed(&mut self, callers: f64) -> bool {
        let Some(before) = self.callers else {
            self.callers = Some(callers);
            return false;
        };
        let (fewer, more) = (before.min(callers), before.max(callers));
        let other = more > fewer * CHANGED && more - fewer >= CHANGED_BY;
        let changed = other && self.looked_other;
        self.looked_other = other && !changed;
        if changed {
            self.callers = Some(callers);
        }
        changed
    }

    /// The choice that is tried next, in turn: one that may be the best and has had fewer trials than it gets. `skipped` is not.
    fn untried(&self, current: usize, skipped: Option<usize>) -> Option<usize> {
        let count = self.tried.len();
        let best = self.tried.iter().filter_map(Tried::rate).fold(0.0, f64::max);
        let takes_part = |at: &usize| self.tried[*at].left_out == 0 && Some(*at) != skipped;
        let may_be_best = |tried: &Tried| {
            let surpassed = !self.on_device && tried.is_surpassed(best);
            !surpassed && !tried.is_hopeless(best, self.on_device)
        };
        let wanted = |&at: &usize| {
            let tried = &self.tried[at];
            takes_part(&at) && may_be_best(tried) && tried.rates.len() < TRIALS
        };
        let compares = (0..count).any(|at| at != current && takes_part(&at));
        let next = (1..=count).map(|step| (current + step) % count).find(wanted);
        // With nothing to compare with, one trial is enough.
        next.filter(|_| compares || self.tried[current].rates.is_empty())
    }

    /// All choices were tried: the best one is kept for a while.
    fn settle(&mut self, now: Instant) -> usize {
        let best = self.find_best();
        self.keep = if best == self.best { (self.keep * 2).min(KEPT_MOST) } else { KEPT };
        self.best = best;
        let rate = self.tried[best].rate().unwrap_or(0.0);
        for tried in &mut self.tried {
            match tried.rate() {
                Some(_) if tried.is_hopeless(rate, self.on_device) => {
                    tried.was_left_out =
                        tried.was_left_out.saturating_mul(2).clamp(LEFT_OUT, LEFT_OUT_MOST);
                    tried.left_out = tried.was_left_out;
                }
                Some(_) => (tried.left_out, tried.was_left_out) = (0, 0),
                None => tried.left_out = tried.left_out.saturating_sub(1),
            }
        }
        self.kept_until = Some(now + self.keep.max(self.spent * KEPT_TIMES));
        best
    }

    /// The choice with the highest rate; the one that was kept before unless another is clearly better.
    fn find_best(&self) -> usize {
        let rate = |at: usize| self.tried[at].rate().unwrap_or(0.0);
        let best =
            (0..self.tried.len()).fold(0, |best, at| if rate(at) > rate(best) { at } else { best });
        if rate(best) > rate(self.best) * BETTER { best } else { self.best }
    }
}

#[cfg(test)]
mod tests;

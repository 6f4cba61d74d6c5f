//! Whether joining pays, and how many batches should be in flight: found out by trying.
//!
//! The choices take turns for a short time each, while calls compete. Each is tried several times, in turn with the others, and counts by
//! the second best of its trials: a machine is disturbed now and then, which makes it slower, and a single trial says
//! little. What was found is kept for longer every time it is found again. All are tried anew when other numbers of callers compete: then another choice
//! may be the best. A rate that changes says less: it does so whenever something else uses the machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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

/// A choice is tried for at least so long and so many calls or batches, and as much before that does not count: what was begun in
/// another way comes to its end. Where batches take long, few must do.
const TRIAL: Duration = Duration::from_millis(8);
/// The same on a device that computes by itself, where batches take microseconds.
const TRIAL_ON_DEVICE: Duration = Duration::from_millis(2);
const TRIAL_ENDS: usize = 6;
const LONG_TRIAL: Duration = Duration::from_millis(50);

/// Trials of each choice.
const TRIALS: usize = 4;

/// What was found best is kept for so long at first, and at most.
const KEPT: Duration = Duration::from_millis(500);
const KEPT_MOST: Duration = Duration::from_secs(8);

/// While it is kept, the number of callers is looked at again after so long. If it is another by this factor, and by so many, all are
/// tried.
const LOOKED_AT: Duration = Duration::from_millis(100);
const CHANGED: f64 = 1.6;
const CHANGED_BY: f64 = 1.0;

/// A choice that reaches less than this share of the best is not tried again in this round, and left out of some: so many at
/// first, and at most.
const HOPELESS: f64 = 0.75;
const LEFT_OUT: u8 = 3;
const LEFT_OUT_MOST: u8 = 48;

/// Another choice must be better by this factor.
const BETTER: f64 = 1.05;

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
    /// When the trial began, or the keeping. Nothing before the first call.
    begun: Option<Instant>,
    /// Whether the part of the trial that does not count is over.
    counts: bool,
    tried: Vec<Tried>,
    /// The choice that is kept between rounds.
    best: usize,
    /// How many calls were there at a time while it was tried. Trials of other choices say nothing about that: where calls come
    /// at times of their own, more of them pile up while a slower choice is tried.
    callers: f64,
    /// Set while it is kept: until when.
    kept_until: Option<Instant>,
    keep: Duration,
}

/// What is known of a choice.
#[derive(Clone, Default)]
struct Tried {
    /// The rates of its trials in this round.
    rates: Vec<f64>,
    /// How many calls were there at a time in the last of them.
    callers: f64,
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

    /// Whether nothing speaks for it, after two trials.
    fn is_hopeless(&self, best: f64) -> bool {
        self.rates.len() > 1 && self.rates.iter().all(|&rate| rate < best * HOPELESS)
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
            begun: None,
            counts: false,
            tried: vec![Tried::default(); choices.len()],
            best: 0,
            callers: 0.0,
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
            if now < until && (elapsed < LOOKED_AT || ends < TRIAL_ENDS) {
                return false;
            }
            let (fewer, more) = (state.callers.min(callers), state.callers.max(callers));
            let changed = more > fewer * CHANGED && more - fewer >= CHANGED_BY;
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
            state.tried.iter_mut().for_each(|tried| tried.rates.clear());
            // What batches took long ago says nothing about now.
            [&self.single, &self.shared].into_iter().for_each(Cost::forget);
            return false;
        }
        let enough = if elapsed < LONG_TRIAL { TRIAL_ENDS } else { 1 };
        if elapsed < self.trial || ends < enough {
            return false;
        }
        let contended = read(&self.contended);
        self.restart(state, now);
        if !std::mem::replace(&mut state.counts, true) {
            return false;
        }
        state.counts = false;
        // Where calls hardly meet, there is nothing to compare.
        if contended * 4 < ends {
            return false;
        }
        let current = read(&self.current);
        let rate = rows as f64 / elapsed.as_secs_f64().max(1e-9);
        state.tried[current].rates.push(rate);
        state.tried[current].callers = callers;
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
    /// The choice that is tried next, in turn: one that may be the best and has had fewer trials than it gets. `skipped` is not.
    fn untried(&self, current: usize, skipped: Option<usize>) -> Option<usize> {
        let count = self.tried.len();
        let best = self.tried.iter().filter_map(Tried::rate).fold(0.0, f64::max);
        let takes_part = |at: &usize| self.tried[*at].left_out == 0 && Some(*at) != skipped;
        let wanted = |&at: &usize| {
            let tried = &self.tried[at];
            takes_part(&at) && !tried.is_hopeless(best) && tried.rates.len() < TRIALS
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
        self.callers = self.tried[best].callers;
        let rate = self.tried[best].rate().unwrap_or(0.0);
        for tried in &mut self.tried {
            match tried.rate() {
                Some(_) if tried.is_hopeless(rate) => {
                    tried.was_left_out =
                        tried.was_left_out.saturating_mul(2).clamp(LEFT_OUT, LEFT_OUT_MOST);
                    tried.left_out = tried.was_left_out;
                }
                Some(_) => (tried.left_out, tried.was_left_out) = (0, 0),
                None => tried.left_out = tried.left_out.saturating_sub(1),
            }
        }
        self.kept_until = Some(now + self.keep);
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

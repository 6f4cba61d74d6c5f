//! Whether joining pays, and how many batches should be in flight: found out by trying.
//!
//! The choices take turns for a short time each, while calls compete, and the one with the most calls per second is kept for a
//! while, longer every time. Another takes its place only if it is clearly better, so that the choice does not swing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::coalesce::Coalescer;

/// How calls are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each by itself.
    Alone,
    /// Joined, with so many batches in flight.
    Joined(usize),
}

/// Batches in flight that are tried.
pub(super) const MAX_IN_FLIGHT: usize = 4;

const CHOICES: [Mode; 4] =
    [Mode::Joined(1), Mode::Joined(2), Mode::Alone, Mode::Joined(MAX_IN_FLIGHT)];

/// A choice is tried for at least so long and so many calls or batches, and as much before that does not count: what was begun in
/// another way comes to its end. Where batches take long, few must do.
const TRIAL: Duration = Duration::from_millis(10);
const TRIAL_ENDS: usize = 6;
const LONG_TRIAL: Duration = Duration::from_millis(50);

/// What was found best is kept for so long at first, and at most.
const KEPT: Duration = Duration::from_millis(250);
const KEPT_MOST: Duration = Duration::from_secs(2);

/// While it is kept, the rate is looked at again after so long. If it is another by this factor, so is the load, and all are tried.
const LOOKED_AT: Duration = Duration::from_millis(100);
const CHANGED: f64 = 1.3;

/// A choice that reaches less than this share of the best is left out of some rounds: so many at first, and at most.
const HOPELESS: f64 = 0.8;
const LEFT_OUT: u8 = 3;
const LEFT_OUT_MOST: u8 = 48;

/// Another choice must be better by this factor.
const BETTER: f64 = 1.05;

pub(super) struct Policy {
    /// The index of the choice in use.
    current: AtomicUsize,
    /// Which choices there are.
    choices: Vec<Mode>,
    state: Mutex<State>,
    /// Calls since the beginning of the trial, how many of them met others, and how often some came to their end together.
    calls: AtomicUsize,
    contended: AtomicUsize,
    ends: AtomicUsize,
}

struct State {
    /// When the trial began, or the keeping. Nothing before the first call.
    begun: Option<Instant>,
    /// Whether the part of the trial that does not count is over.
    counts: bool,
    /// The rate of each choice in this round of trials.
    rates: Vec<Option<f64>>,
    /// In how many rounds each choice is left out yet, and in how many it was the last time.
    left_out: Vec<u8>,
    was_left_out: Vec<u8>,
    /// The choice that is kept between rounds.
    best: usize,
    /// The rate that it had when it was last looked at.
    rate: f64,
    /// Set while it is kept: until when.
    kept_until: Option<Instant>,
    keep: Duration,
}

impl Policy {
    pub fn new(always: bool, in_flight: Option<usize>) -> Self {
        let allowed = |mode: &Mode| match (mode, in_flight) {
            (Mode::Alone, _) => !always,
            (Mode::Joined(count), Some(set)) => *count == set,
            (Mode::Joined(_), None) => true,
        };
        let mut choices: Vec<Mode> = CHOICES.into_iter().filter(allowed).collect();
        if let Some(set) = in_flight
            && !choices.contains(&Mode::Joined(set))
        {
            choices.insert(0, Mode::Joined(set));
        }
        let (rates, left_out) = (vec![None; choices.len()], vec![0; choices.len()]);
        let state = State {
            begun: None,
            counts: false,
            rates,
            was_left_out: left_out.clone(),
            left_out,
            best: 0,
            rate: 0.0,
            kept_until: None,
            keep: KEPT,
        };
        Self {
            current: AtomicUsize::new(0),
            choices,
            state: Mutex::new(state),
            calls: AtomicUsize::new(0),
            contended: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
        }
    }

    /// How calls are run now.
    pub fn mode(&self) -> Mode {
        self.choices[self.current.load(Ordering::Relaxed)]
    }

    /// Counts calls that have come to their end, and goes on to the next choice when it is time.
    pub fn count<J, R>(
        &self,
        calls: usize,
        contended: bool,
        now: Instant,
        coalescer: &Coalescer<J, R>,
    ) {
        if self.choices.len() < 2 {
            if let Mode::Joined(in_flight) = self.mode() {
                coalescer.set_in_flight(in_flight);
            }
            return;
        }
        if contended {
            self.contended.fetch_add(calls, Ordering::Relaxed);
        }
        let so_far = self.calls.fetch_add(calls, Ordering::Relaxed) + calls;
        self.ends.fetch_add(1, Ordering::Relaxed);
        // Whoever has the lock decides; the others go on.
        let Ok(mut state) = self.state.try_lock() else { return };
        if self.advance(&mut state, so_far, now)
            && let Mode::Joined(in_flight) = self.mode()
        {
            coalescer.set_in_flight(in_flight);
        }
    }

    fn restart(&self, state: &mut State, now: Instant) {
        self.calls.store(0, Ordering::Relaxed);
        self.contended.store(0, Ordering::Relaxed);
        self.ends.store(0, Ordering::Relaxed);
        state.begun = Some(now);
    }

    /// Looks whether a trial or the keeping is over. Says whether the choice has changed.
    fn advance(&self, state: &mut State, calls: usize, now: Instant) -> bool {
        let Some(begun) = state.begun else {
            self.restart(state, now);
            return true;
        };
        let elapsed = now.saturating_duration_since(begun);
        let rate = calls as f64 / elapsed.as_secs_f64().max(1e-9);
        if let Some(until) = state.kept_until {
            if now < until && elapsed < LOOKED_AT {
                return false;
            }
            let changed = rate > state.rate * CHANGED || rate * CHANGED < state.rate;
            self.restart(state, now);
            if now < until && !changed {
                return false;
            }
            if changed {
                state.keep = KEPT;
                state.left_out.iter_mut().for_each(|left| *left /= 2);
            }
            state.kept_until = None;
            state.counts = false;
            state.rates.fill(None);
            return false;
        }
        let enough = if elapsed < LONG_TRIAL { TRIAL_ENDS } else { 1 };
        if elapsed < TRIAL || self.ends.load(Ordering::Relaxed) < enough {
            return false;
        }
        if !std::mem::replace(&mut state.counts, true) {
            self.restart(state, now);
            return false;
        }
        state.counts = false;
        let current = self.current.load(Ordering::Relaxed);
        let contended = self.contended.load(Ordering::Relaxed);
        self.restart(state, now);
        // Where calls hardly meet, there is nothing to compare.
        if contended * 4 < calls {
            return false;
        }
        state.rates[current] = Some(rate);
        let untried = |at: &usize| state.rates[*at].is_none() && state.left_out[*at] == 0;
        let next = match (0..state.rates.len()).find(untried) {
            Some(untried) => untried,
            None => self.settle(state, now),
        };
        self.current.store(next, Ordering::Relaxed);
        next != current
    }

    /// All choices were tried: the best one is kept for a while.
    fn settle(&self, state: &mut State, now: Instant) -> usize {
        let best = self.best(state);
        state.keep = if best == state.best { (state.keep * 2).min(KEPT_MOST) } else { KEPT };
        state.best = best;
        state.rate = state.rates[best].unwrap_or(0.0);
        for at in 0..state.rates.len() {
            let (left, was) = (&mut state.left_out[at], &mut state.was_left_out[at]);
            match state.rates[at] {
                Some(rate) if rate < state.rate * HOPELESS => {
                    *was = was.saturating_mul(2).clamp(LEFT_OUT, LEFT_OUT_MOST);
                    *left = *was;
                }
                Some(_) => (*left, *was) = (0, 0),
                None => *left = left.saturating_sub(1),
            }
        }
        state.kept_until = Some(now + state.keep);
        best
    }

    /// The choice with the highest rate; the one that was kept before unless another is clearly better.
    fn best(&self, state: &State) -> usize {
        let rate = |at: usize| state.rates[at].unwrap_or(0.0);
        let best = (0..state.rates.len())
            .fold(0, |best, at| if rate(at) > rate(best) { at } else { best });
        if rate(best) > rate(state.best) * BETTER { best } else { state.best }
    }
}

//! Running work on many threads and comparing its results.

use std::fmt::Display;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use millstream::{DType, Device, DeviceBuilder, Result, Tensor};

/// Problems that are shown in words; the rest is only counted.
const SHOWN: usize = 5;

/// What a scenario runs on.
pub(crate) struct Context {
    pub device: Device,
    /// The device's name, to open more of the kind.
    pub name: String,
    pub threads: usize,
    pub iterations: usize,
    /// One call in so many comes with one that must fail.
    pub faults: Option<usize>,
    /// What sizes of models are divided by.
    pub divisor: usize,
}

/// What came of a scenario.
#[derive(Default)]
pub(crate) struct Outcome {
    pub ops: u64,
    pub elapsed: Duration,
    pub errors: u64,
    pub mismatches: u64,
    pub problems: Vec<String>,
}

impl Outcome {
    pub fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub fn error(&mut self, text: impl ToString) {
        self.errors += 1;
        self.note(text.to_string());
    }

    fn note(&mut self, text: String) {
        if self.problems.len() < SHOWN {
            self.problems.push(text);
        }
    }

    /// Counts one call, and its error or mismatch if it has one.
    pub fn count<E: Display>(&mut self, what: &str, got: Result<Vec<u8>, E>, expected: &[u8]) {
        self.ops += 1;
        match got {
            Err(error) => self.error(format!("{what}: {error}")),
            Ok(got) if got == expected => {}
            Ok(got) => {
                self.mismatches += 1;
                let place = got.iter().zip(expected).position(|(got, expected)| got != expected);
                self.note(match place {
                    Some(place) => format!("{what}: differs from byte {place} on"),
                    None => format!("{what}: {} bytes, expected {}", got.len(), expected.len()),
                });
            }
        }
    }

    /// Counts a condition that must hold.
    pub fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.error(what);
        }
    }

    /// Adds what came of a further part, which ran after this one.
    pub fn add(&mut self, other: Outcome) {
        self.elapsed += other.elapsed;
        self.merge(other);
    }

    /// Adds what came of a thread, which ran at the same time.
    fn merge(&mut self, other: Outcome) {
        self.ops += other.ops;
        self.errors += other.errors;
        self.mismatches += other.mismatches;
        other.problems.into_iter().for_each(|problem| self.note(problem));
    }
}

/// Whether a call failed as a bad index does.
pub(crate) fn is_fault<T>(answer: &millstream::Result<T>) -> bool {
    let Err(error) = answer else { return false };
    let text = error.to_string();
    text.contains("embedding") && text.contains("failed on stream")
}

impl Context {
    /// Normal random numbers that the seed decides.
    pub fn randn(&self, shape: &[usize], seed: u64) -> Result<Tensor> {
        Tensor::randn(shape, seed, DType::F32, &self.device)
    }

    /// The same with fewer calls, for scenarios whose point is size, not number.
    pub fn fewer(&self, by: usize) -> Self {
        Self { iterations: self.iterations.div_ceil(by), name: self.name.clone(), ..*self }
    }

    /// Another device of the same kind, with settings of its own; closed after `work`.
    pub fn with_own_device(
        &self,
        change: impl FnOnce(DeviceBuilder) -> DeviceBuilder,
        work: impl FnOnce(&Context) -> Outcome,
    ) -> Outcome {
        let device = match change(Device::builder(&self.name)).open() {
            Ok(device) => device,
            Err(error) => {
                let mut outcome = Outcome::default();
                outcome.error(error);
                return outcome;
            }
        };
        let mut outcome = work(&Context { device, name: self.name.clone(), ..*self });
        if let Err(error) = device.close() {
            outcome.error(format!("close: {error}"));
        }
        outcome
    }

    /// Runs `call(thread, iteration)` on every thread and compares each answer with what the same call
    /// gave when it was made before, alone.
    pub fn compare<E: Display + Send + Sync>(
        &self,
        call: impl Fn(usize, usize) -> Result<Vec<u8>, E> + Sync,
    ) -> Outcome {
        self.compare_with(&call, |_| {})
    }

    /// Like [`compare`](Self::compare), where every call of a thread is another one.
    pub fn compare_all<E: Display + Send + Sync>(
        &self,
        call: impl Fn(usize, usize) -> Result<Vec<u8>, E> + Sync,
    ) -> Outcome {
        self.compare_variants(self.iterations, &call, |_| {})
    }

    /// Like [`compare`](Self::compare); `meanwhile` runs on the calling thread while the others work.
    pub fn compare_with<E: Display + Send + Sync>(
        &self,
        call: &(impl Fn(usize, usize) -> Result<Vec<u8>, E> + Sync),
        meanwhile: impl FnOnce(&Mutex<Outcome>),
    ) -> Outcome {
        // A few different calls per thread are enough to tell answers apart.
        self.compare_variants(self.iterations.min(3), call, meanwhile)
    }

    /// Like [`compare_with`](Self::compare_with), with so many different calls per thread.
    pub fn compare_variants<E: Display + Send + Sync>(
        &self,
        variants: usize,
        call: &(impl Fn(usize, usize) -> Result<Vec<u8>, E> + Sync),
        meanwhile: impl FnOnce(&Mutex<Outcome>),
    ) -> Outcome {
        let expected: Vec<Vec<Result<Vec<u8>, E>>> = (0..self.threads)
            .map(|thread| (0..variants).map(|variant| call(thread, variant)).collect())
            .collect();
        self.on_threads(meanwhile, |thread, outcome| {
            for iteration in 0..self.iterations {
                let variant = iteration % variants;
                let what = format!("thread {thread}, call {iteration}");
                let bad = self.bad_call(thread, iteration);
                match &expected[thread][variant] {
                    Ok(expected) => outcome.count(&what, call(thread, variant), expected),
                    Err(error) => outcome.error(format!("sequential {what}: {error}")),
                }
                if let Some(bad) = bad {
                    let answer = bad.and_then(|bad| bad.to_vec::<f32>());
                    outcome
                        .expect(is_fault(&answer), "a call that must fail did not, or otherwise");
                }
            }
        })
    }

    /// The result of a call that must fail when it runs, if one is due: it asks for a row that a table does
    /// not have.
    fn bad_call(&self, thread: usize, iteration: usize) -> Option<millstream::Result<Tensor>> {
        let number = iteration * self.threads + thread;
        self.faults.filter(|faults| number.is_multiple_of(*faults)).map(|_| {
            let table = Tensor::ones(&[4, 16], DType::F32, &self.device)?;
            table.embedding(&Tensor::from_slice(&[4 + number as i64], &[1], &self.device)?)
        })
    }

    /// Runs `work` on every thread, all starting together.
    pub fn on_threads(
        &self,
        meanwhile: impl FnOnce(&Mutex<Outcome>),
        work: impl Fn(usize, &mut Outcome) + Sync,
    ) -> Outcome {
        let total = Mutex::new(Outcome::default());
        let span = Mutex::new(None::<(Instant, Instant)>);
        let barrier = Barrier::new(self.threads + 1);
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let (total, span, barrier, work) = (&total, &span, &barrier, &work);
                scope.spawn(move || {
                    let mut own = Outcome::default();
                    barrier.wait();
                    let started = Instant::now();
                    work(thread, &mut own);
                    let ended = Instant::now();
                    let mut span = span.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    let (first, last) = span.unwrap_or((started, ended));
                    *span = Some((first.min(started), last.max(ended)));
                    total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).merge(own);
                });
            }
            barrier.wait();
            meanwhile(&total);
        });
        let mut outcome = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let span = span.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        outcome.elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
        outcome
    }
}

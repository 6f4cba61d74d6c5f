//! One model called from some threads for some time.

mod schedule;

use std::sync::{Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use millstream::{Device, Result};

pub(crate) use schedule::Arrivals;
use schedule::Schedule;

/// Inputs that a thread uses in turn, so that the answer to the call before is noticed.
const INPUTS: usize = 2;

/// What is called from many threads.
pub(crate) trait Callee: Sync {
    /// An input as its caller holds it.
    type Input;
    /// An answer on the host.
    type Answer;

    /// One of the inputs.
    fn input(&self, seed: usize) -> Result<Self::Input>;

    /// One call as its caller sees it: from where the input is to the answer on the host.
    fn call(&self, input: &Self::Input) -> Result<Self::Answer>;

    /// Whether an answer has these bytes.
    fn is(&self, answer: &Self::Answer, expected: &[u8]) -> Result<bool>;

    /// The bytes of an answer.
    fn bytes(&self, answer: &Self::Answer) -> Result<Vec<u8>>;
}

/// What is measured, and the right answers. Thread `t` uses the inputs `t` and `t + 1`.
pub(crate) struct Subject<'a, C> {
    pub callee: &'a C,
    pub device: Device,
    pub answers: &'a [Vec<u8>],
    pub arrivals: Arrivals,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Sample {
    pub calls_per_second: f64,
    pub errors: u64,
    pub mismatches: u64,
    /// The first error in words.
    pub problem: Option<String>,
    /// Microseconds of a call outside kernels, where that was measured.
    pub host: Option<f64>,
    latencies: Vec<Duration>,
    /// How much later than they were due calls were sent, where calls have times: part of their latencies.
    late: Vec<Duration>,
}

/// The answers to the inputs that so many threads use, one call after another.
pub(crate) fn answers<C: Callee>(callee: &C, threads: usize) -> Result<Vec<Vec<u8>>> {
    let answer = |seed| callee.bytes(&callee.call(&callee.input(seed)?)?);
    (0..threads + INPUTS - 1).map(answer).collect()
}

impl Sample {
    /// The latency, in microseconds, that a share of the calls stays within.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.latencies, share).unwrap_or(0.0)
    }

    /// How much later than it was due a call was sent, in microseconds, that a share of the calls stays within. None where calls have no times.
    pub fn late(&self, share: f64) -> Option<f64> {
        percentile(&self.late, share)
    }

    fn error(&mut self, thread: usize, error: &impl ToString) {
        self.errors += 1;
        self.problem.get_or_insert_with(|| format!("thread {thread}: {}", error.to_string()));
    }

    fn merge(&mut self, other: Sample) {
        self.errors += other.errors;
        self.mismatches += other.mismatches;
        self.problem = self.problem.take().or(other.problem);
        self.latencies.extend(other.latencies);
        self.late.extend(other.late);
    }
}

/// Of sorted times the one, in microseconds, that a share of them stays within.
fn percentile(times: &[Duration], share: f64) -> Option<f64> {
    let last = times.len().checked_sub(1)?;
    let place = (times.len() as f64 * share).ceil() as usize;
    Some(times[place.saturating_sub(1).min(last)].as_secs_f64() * 1e6)
}

impl<C: Callee> Subject<'_, C> {
    /// Calls from so many threads, which start together and are warm by then. Each goes on for the time,
    /// and, unless calls have times of their own, until it has used each of its inputs. Those that cannot be started are errors of the sample; the
    /// others do not wait for them.
    pub fn measure(&self, threads: usize, time: Duration) -> Sample {
        let gate = RwLock::new(());
        let schedule = Schedule::new(self.arrivals);
        let total = Mutex::new((Sample::default(), None::<(Instant, Instant)>));
        std::thread::scope(|scope| {
            let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
            // Nothing is sent: the channel ends when every thread is ready and has dropped its end.
            let (ready, all_ready) = mpsc::channel::<()>();
            for thread in 0..threads {
                let (ready, gate, total, schedule) = (ready.clone(), &gate, &total, &schedule);
                let work = move || {
                    let inputs = self.prepare(thread);
                    schedule.prepare_caller();
                    drop(ready);
                    drop(gate.read());
                    let started = Instant::now();
                    let sample = self.call_until(started + time, thread, inputs, schedule);
                    let ended = Instant::now();
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.0.merge(sample);
                    let (first, last) = total.1.unwrap_or((started, ended));
                    total.1 = Some((first.min(started), last.max(ended)));
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.0.error(thread, &error);
                }
            }
            drop(ready);
            // An error is what is waited for.
            let _ = all_ready.recv();
            drop(closed);
        });
        let (mut sample, span) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        sample.latencies.sort_unstable();
        sample.late.sort_unstable();
        let elapsed = span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        sample.calls_per_second = sample.latencies.len() as f64 / elapsed.max(1e-9);
        sample
    }

    /// Microseconds that a call of one caller spends outside kernels: the median over calls for some time, of
    /// each the time that no Command of it was running.
    pub fn host_cost(&self, time: Duration) -> Result<f64> {
        let inputs = self.prepare(0)?;
        let profiler = self.device.profiler();
        let end = Instant::now() + time;
        let mut costs = Vec::new();
        profiler.start();
        for input in inputs.iter().cycle() {
            let before = Instant::now();
            let answer = self.callee.call(input);
            let whole = before.elapsed();
            if let Err(error) = answer {
                profiler.stop();
                return Err(error);
            }
            let spans = profiler.take().into_iter().flat_map(|stream| stream.spans);
            let busy: u64 = spans.map(|span| span.end_ns.saturating_sub(span.start_ns)).sum();
            costs.push(whole.saturating_sub(Duration::from_nanos(busy)));
            if Instant::now() >= end {
                break;
            }
        }
        profiler.stop();
        costs.sort_unstable();
        Ok(costs[costs.len() / 2].as_secs_f64() * 1e6)
    }

    /// The inputs of a thread, each used once.
    fn prepare(&self, thread: usize) -> Result<Vec<C::Input>> {
        let seeds = thread..thread + INPUTS;
        let inputs: Vec<_> = seeds.map(|seed| self.callee.input(seed)).collect::<Result<_>>()?;
        inputs.iter().try_for_each(|input| self.callee.call(input).map(drop))?;
        Ok(inputs)
    }

    /// Only right answers count as calls. Comparing is no part of the latency, but of the time that
    /// the rate is taken over.
    fn call_until(
        &self,
        end: Instant,
        thread: usize,
        inputs: Result<Vec<C::Input>>,
        schedule: &Schedule,
    ) -> Sample {
        let mut sample = Sample::default();
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(error) => {
                sample.error(thread, &error);
                return sample;
            }
        };
        let questions = inputs.iter().zip(&self.answers[thread..]);
        for (calls, (input, expected)) in (1..).zip(questions.cycle()) {
            let Some(before) = schedule.wait(end) else { break };
            if self.arrivals != Arrivals::Closed {
                sample.late.push(before.elapsed());
            }
            let answer = self.callee.call(input);
            let after = Instant::now();
            match answer.and_then(|answer| self.callee.is(&answer, expected)) {
                Ok(true) => sample.latencies.push(after - before),
                Ok(false) => sample.mismatches += 1,
                Err(error) => sample.error(thread, &error),
            }
            if after >= end && calls >= INPUTS {
                break;
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests;

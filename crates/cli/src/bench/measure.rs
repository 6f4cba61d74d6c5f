//! One model called from some threads for some time.

use std::sync::{Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use millstream::nn::{Module, Result};
use millstream::{Device, Download};

use crate::workloads::{Input, Origin, Workload, call};

/// Inputs that a thread uses in turn, so that the answer to the call before is noticed.
const INPUTS: usize = 2;

/// What is measured, and the right answers. Thread `t` uses the inputs `t` and `t + 1`.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub workload: &'a Workload,
    pub device: Device,
    pub origin: Origin,
    pub model: &'a dyn Module,
    pub answers: &'a [Vec<u8>],
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
}

/// The answers to the inputs that so many threads use, one call after another.
pub(crate) fn answers(
    workload: &Workload,
    device: &Device,
    model: &dyn Module,
    threads: usize,
) -> Result<Vec<Vec<u8>>> {
    let answer = |seed| call(model, &workload.input(seed, device)?)?.bytes();
    (0..threads + INPUTS - 1).map(answer).collect()
}

impl Sample {
    /// The latency, in microseconds, that a share of the calls stays within.
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let place = (self.latencies.len() as f64 * share).ceil() as usize;
        let latency = self.latencies.get(place.saturating_sub(1).min(last));
        latency.map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
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
    }
}

impl Subject<'_> {
    /// Calls from so many threads, which start together and are warm by then. Each goes on for the time,
    /// and until it has used each of its inputs. Those that cannot be started are errors of the sample; the
    /// others do not wait for them.
    pub fn measure(&self, threads: usize, time: Duration) -> Sample {
        let gate = RwLock::new(());
        let total = Mutex::new((Sample::default(), None::<(Instant, Instant)>));
        std::thread::scope(|scope| {
            let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
            // Nothing is sent: the channel ends when every thread is ready and has dropped its end.
            let (ready, all_ready) = mpsc::channel::<()>();
            for thread in 0..threads {
                let (ready, gate, total) = (ready.clone(), &gate, &total);
                let work = move || {
                    let inputs = self.prepare(thread);
                    drop(ready);
                    drop(gate.read());
                    let started = Instant::now();
                    let sample = self.call_until(started + time, thread, inputs);
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
            let answer = input.call(self.model);
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
    fn prepare(&self, thread: usize) -> Result<Vec<Input>> {
        let inputs: Vec<Input> = (thread..thread + INPUTS)
            .map(|seed| Input::new(self.workload.input(seed, &self.device)?, self.origin))
            .collect::<Result<_>>()?;
        for input in &inputs {
            input.call(self.model)?;
        }
        Ok(inputs)
    }

    /// Only right answers count as calls. Comparing is no part of the latency, but of the time that
    /// the rate is taken over.
    fn call_until(&self, end: Instant, thread: usize, inputs: Result<Vec<Input>>) -> Sample {
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
            let before = Instant::now();
            let answer = input.call(self.model);
            let after = Instant::now();
            match answer.as_ref().map(Download::view_bytes) {
                Ok(Ok(answer)) if answer == *expected => sample.latencies.push(after - before),
                Ok(Ok(_)) => sample.mismatches += 1,
                Ok(Err(error)) => sample.error(thread, &error),
                Err(error) => sample.error(thread, error),
            }
            if after >= end && calls >= INPUTS {
                break;
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_calls_that_were_made() {
        let latencies = (1..=100).map(Duration::from_micros).collect();
        let sample = Sample { latencies, ..Default::default() };
        assert_eq!(
            [0.5, 0.99, 1.0].map(|share| sample.percentile(share).round()),
            [50., 99., 100.]
        );
        assert_eq!(Sample::default().percentile(0.5), 0.0);
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let device = Device::cpu().unwrap();
        let workload = crate::workloads::chosen(&["mlp".into()])[0];
        let model = workload.load(&device).unwrap();
        let mut answers = answers(workload, &device, &model, 2).unwrap();
        assert_ne!(answers[0], answers[1]);
        answers[2][7] ^= 1;
        for origin in [Origin::Device, Origin::Host] {
            let subject = Subject { workload, device, origin, model: &model, answers: &answers };
            // Too short for more than one call of each input, however fast the machine is.
            let sample = subject.measure(2, Duration::ZERO);
            assert_eq!((sample.mismatches, sample.errors, sample.latencies.len()), (1, 0, 3));
            assert!(sample.calls_per_second > 0.0);
        }
    }
}

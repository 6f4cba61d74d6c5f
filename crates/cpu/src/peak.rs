//! What the machine can do at most, measured: the yardstick of benchmarks.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use crate::kernels::peak::{burn, copy_past_cache, read};

/// Repetitions, of which the best counts.
const REPETITIONS: usize = 5;

/// Floating-point operations per second of so many threads together, each multiplying and adding
/// `f32` in registers with the widest instructions that kernels use. Takes some milliseconds.
pub fn flops(threads: usize) -> f64 {
    const ROUNDS: usize = 100_000;
    let mut done = vec![0; threads];
    let seconds = best_seconds(&mut done, |done| *done = burn(ROUNDS));
    done.iter().sum::<usize>() as f64 / seconds
}

/// Bytes per second that so many threads together read from memory or copy past the caches,
/// whichever is more; a copied byte counts twice. Takes some tenths of a second.
pub fn bandwidth(threads: usize) -> f64 {
    const BYTES: usize = 128 << 20;
    let words = BYTES / size_of::<u32>() / threads;
    let mut memory: Vec<_> = (0..threads).map(|_| (vec![1u32; words], vec![2u32; words])).collect();
    let bytes = (threads * words * size_of::<u32>()) as f64;
    let reading = best_seconds(&mut memory, |(from, _)| {
        black_box(read(from));
    });
    let copying = best_seconds(&mut memory, |(from, to)| copy_past_cache(from, to));
    (bytes / reading).max(2.0 * bytes / copying)
}

/// Has one thread do each part of the work, all at once; the seconds of the slowest.
fn best_seconds<W: Send>(parts: &mut [W], work: impl Fn(&mut W) + Sync) -> f64 {
    let one = |parts: &mut [W]| {
        let barrier = Barrier::new(parts.len());
        std::thread::scope(|scope| {
            let (barrier, work) = (&barrier, &work);
            let timed = |part| {
                move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(part);
                    start.elapsed().as_secs_f64()
                }
            };
            let threads: Vec<_> = parts.iter_mut().map(|part| scope.spawn(timed(part))).collect();
            // A thread of this loop cannot panic; if one did, its time would not count.
            threads.into_iter().filter_map(|thread| thread.join().ok()).fold(0.0, f64::max)
        })
    };
    (0..REPETITIONS).map(|_| one(parts)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    #[test]
    fn peaks_are_plausible() {
        let (flops, bandwidth) = (super::flops(1), super::bandwidth(2));
        assert!(flops > 1e8 && flops < 1e13, "{flops:e}");
        assert!(bandwidth > 1e8 && bandwidth < 1e13, "{bandwidth:e}");
    }
}

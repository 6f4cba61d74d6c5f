//! What the machine can do at most, measured: the yardstick of benchmarks.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use millstream_core::Segment;

use crate::kernels::peak::{add_streaming, burn, copy_streaming, fill_streaming, read};
use crate::memory;

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

/// In which proportion a loop reads and writes memory. What a machine moves per second depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Only reads, as a reduction does.
    Read,
    /// Only writes, as a fill does.
    Write,
    /// Writes as much as it reads, as a function of one element does.
    Copy,
    /// Reads twice what it writes, as the sum of two operands does.
    Add,
}

impl Traffic {
    /// All kinds.
    pub const ALL: [Traffic; 4] = [Traffic::Read, Traffic::Write, Traffic::Copy, Traffic::Add];

    /// Bytes moved for each byte of one operand.
    fn operands(self) -> usize {
        match self {
            Traffic::Read | Traffic::Write => 1,
            Traffic::Copy => 2,
            Traffic::Add => 3,
        }
    }
}

/// Memory to measure the machine's memory with: three operands, each far larger than any cache, of the
/// kind that the device gives to Commands, shared between threads in long ranges.
pub struct Memory {
    parts: Vec<Part>,
    _owners: [Segment; OPERANDS],
}

const OPERANDS: usize = 3;

/// One thread's part of each operand.
struct Part([&'static mut [u32]; OPERANDS]);

impl Memory {
    /// Bytes of one operand.
    const BYTES: usize = 256 << 20;

    /// Memory for so many threads, all of it touched.
    ///
    /// # Panics
    ///
    /// The system does not have three quarters of a gigabyte.
    pub fn new(threads: usize) -> Self {
        Self::of_bytes(threads, Self::BYTES)
    }

    fn of_bytes(threads: usize, bytes: usize) -> Self {
        let words = bytes / size_of::<u32>() / threads;
        let owners: [_; OPERANDS] =
            std::array::from_fn(|_| memory::allocate(bytes).expect("memory to measure with"));
        let part = |thread: usize| {
            Part(owners.each_ref().map(|owner| {
                let first = (owner.address as *mut u32).wrapping_add(thread * words);
                // SAFETY: the words lie in a segment that lives as long as this value, aligned, and
                // are those of one part; they are initialized before anybody sees them.
                unsafe {
                    first.write_bytes(1, words);
                    std::slice::from_raw_parts_mut(first, words)
                }
            }))
        };
        Memory { parts: (0..threads).map(part).collect(), _owners: owners }
    }

    /// Bytes per second that the threads together move with this traffic, each as fast as it can:
    /// with the widest loads, and stores past the caches. Takes some tenths of a second.
    pub fn bandwidth(&mut self, traffic: Traffic) -> f64 {
        let seconds = best_seconds(&mut self.parts, |Part([to, a, b])| match traffic {
            Traffic::Read => {
                black_box(read(a));
            }
            Traffic::Write => fill_streaming(to),
            Traffic::Copy => copy_streaming(a, to),
            Traffic::Add => add_streaming(a, b, to),
        });
        let words: usize = self.parts.iter().map(|Part([to, ..])| to.len()).sum();
        (words * size_of::<u32>() * traffic.operands()) as f64 / seconds
    }
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
mod tests;

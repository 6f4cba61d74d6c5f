//! The matrix products that `compare.py` measures beside its peers.
//!
//! Reads lines `m n k packed threads seconds`, and for each multiplies until so many seconds have
//! passed; prints the best time of one product in nanoseconds. The buffers of a size are made once.
//! With one thread, time is that of the thread on its core, so that other programs do not count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use millstream::{
    Activation, Buffer, Command, DType, Device, Distribution, Layout, Result, Stream,
};

fn main() -> Result<()> {
    let mut products: HashMap<Setting, Product> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<f64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let [m, n, k, packed, threads, seconds] = words[..] else {
            eprintln!("expected `m n k packed threads seconds`, got `{line}`");
            continue;
        };
        let setting = Setting {
            size: [m as usize, n as usize, k as usize],
            packed: packed != 0.0,
            threads: threads as usize,
        };
        let product = match products.entry(setting) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Product::new(setting)?),
        };
        let best = product.measure(Duration::from_secs_f64(seconds))?;
        println!("{}", best.as_nanos());
        let _ = std::io::stdout().flush();
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Setting {
    size: [usize; 3],
    packed: bool,
    threads: usize,
}

struct Product {
    stream: Stream,
    packed: bool,
    threads: usize,
    layouts: [Layout; 3],
    buffers: [Buffer; 3],
}

impl Product {
    fn new(Setting { size: [m, n, k], packed, threads }: Setting) -> Result<Self> {
        let device = Device::builder("cpu").threads(threads).open()?;
        let stream = Stream::new(&device)?;
        let matrix = |rows, columns| Layout::contiguous(DType::F32, &[rows, columns]);
        let mut layouts = [matrix(m, n)?, matrix(m, k)?, matrix(k, n)?];
        let [dst, a, mut b] = layouts.map(|layout| stream.allocate(layout.dense_bytes()));
        let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
        for (buffer, layout) in [(&a, layouts[1]), (&b, layouts[2])] {
            let operand = buffer.as_ref().map_err(Clone::clone)?.operand(layout);
            stream.record(Command::random(operand, uniform, 1, 0)?)?;
        }
        if packed && let Some(layout) = device.packed_layout(&layouts[2]) {
            let weights = stream.allocate(layout.dense_bytes())?;
            stream
                .record(Command::pack_weights(weights.operand(layout), b?.operand(layouts[2]))?)?;
            weights.settle()?;
            layouts[2] = layout;
            b = Ok(weights);
        }
        stream.synchronize()?;
        Ok(Self { stream, packed, threads, layouts, buffers: [dst?, a?, b?] })
    }

    fn multiply(&self) -> Result<()> {
        let [dst, a, b] = [0, 1, 2].map(|i| self.buffers[i].operand(self.layouts[i]));
        let product = if self.packed { Command::matmul_packed } else { Command::matmul };
        self.stream.record(product(dst, a, b, None, None, 1.0, Activation::None)?)?;
        self.stream.synchronize()
    }

    fn measure(&self, budget: Duration) -> Result<Duration> {
        let started = Instant::now();
        let mut best = Duration::MAX;
        loop {
            let start = now(self.threads);
            self.multiply()?;
            let elapsed = now(self.threads) - start;
            // The clock of a thread stands still now and then on virtual machines.
            if !elapsed.is_zero() {
                best = best.min(elapsed);
            }
            if started.elapsed() >= budget {
                return Ok(best);
            }
        }
    }
}

/// The clock that a product is measured with.
fn now(threads: usize) -> Duration {
    let clock = if threads == 1 { libc::CLOCK_THREAD_CPUTIME_ID } else { libc::CLOCK_MONOTONIC };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time is written to memory of this function.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

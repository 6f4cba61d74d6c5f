//! Time that is lost at random, so that orders differ from seed to seed.

use std::time::Duration;

/// A stream of random numbers; does nothing where no seed is set.
pub struct Jitter {
    seed: u64,
    state: u64,
}

impl Jitter {
    /// One of its own for every thread that asks.
    pub fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let own = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { seed: 0, state: own.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// A random number, or 0 without a seed.
    pub fn next(&mut self) -> u64 {
        let seed = crate::control::seed();
        if seed == 0 {
            return 0;
        }
        if seed != self.seed {
            self.seed = seed;
            self.state ^= seed.wrapping_mul(0xd129_0b26_7c95_5a1d);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) | 1
    }

    /// Loses up to 200 µs, mostly none.
    pub fn pause(&mut self) {
        let random = self.next();
        if random >> 62 == 3 {
            std::thread::sleep(
                Duration::from_micros(random >> 8 & 255).min(Duration::from_micros(200)),
            );
        } else if random >> 62 == 2 {
            std::thread::yield_now();
        }
    }
}

//! Which thread runs which chunks of a Command.

use millstream_core::sync::schedule::{AtomicUsize, Ordering};

/// Shares of a Command at most. More threads than that begin with the share of another.
const MOST: usize = 16;

/// The chunks of one Command, in shares of neighbors that are about as large.
pub(crate) struct Shares {
    shares: [Share; MOST],
    count: usize,
}

/// On a cache line of its own: every thread counts in its own share most of the time.
#[repr(align(64))]
struct Share {
    next: AtomicUsize,
    end: usize,
}

impl Shares {
    /// So many chunks for that many threads.
    pub fn new(chunks: usize, threads: usize) -> Self {
        let count = threads.min(chunks).clamp(1, MOST);
        let (each, more) = (chunks / count, chunks % count);
        let begin = |share: usize| share * each + share.min(more);
        let shares = std::array::from_fn(|share| Share {
            next: AtomicUsize::new(begin(share.min(count))),
            end: begin((share + 1).min(count)),
        });
        Shares { shares, count }
    }

    /// A chunk that nobody has taken: of a share, or, when that is empty, of another.
    pub fn take(&self, first: usize) -> Option<usize> {
        (0..self.count).find_map(|step| {
            let share = &self.shares[(first + step) % self.count];
            // The first look keeps threads that search from writing to the line of one that works.
            let chunk = |share: &Share| share.next.fetch_add(1, Ordering::Relaxed);
            let any = share.next.load(Ordering::Relaxed) < share.end;
            any.then(|| chunk(share)).filter(|&chunk| chunk < share.end)
        })
    }

    /// Chunks that nobody has taken.
    pub fn left(&self) -> usize {
        let left = |share: &Share| share.end.saturating_sub(share.next.load(Ordering::Relaxed));
        self.shares[..self.count].iter().map(left).sum()
    }

    /// Nobody takes any chunk again.
    pub fn drop_all(&self) {
        for share in &self.shares[..self.count] {
            share.next.store(share.end, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

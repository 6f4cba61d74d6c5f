use std::sync::Mutex;

use super::*;

struct Recorded(Mutex<Vec<usize>>);

impl Parallel for Recorded {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        self.0.lock().unwrap().push(chunks);
        Sequential.run(chunks, body);
    }
}

/// The ranges that are run, as (start, end), and the numbers of chunks that were shared.
fn ranges(items: usize, work: usize) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (recorded, ranges) = (Recorded(Mutex::default()), Mutex::new(Vec::new()));
    share(&recorded, items, work, |range| {
        ranges.lock().unwrap().push((range.start, range.end));
    });
    (ranges.into_inner().unwrap(), recorded.0.into_inner().unwrap())
}

#[test]
fn small_work_stays_on_the_calling_thread() {
    assert_eq!(ranges(CHUNK_ELEMENTS, 1), (vec![(0, CHUNK_ELEMENTS)], vec![]));
    assert_eq!(ranges(0, 1), (vec![], vec![]));
    assert_eq!(ranges(3, 0), (vec![(0, 3)], vec![]));
}

#[test]
fn ranges_cover_every_item_once() {
    let (found, runs) = ranges(10, CHUNK_ELEMENTS / 4);
    assert_eq!(found, [(0, 4), (4, 8), (8, 10)]);
    assert_eq!(runs, [3]);
    assert_eq!(ranges(2, usize::MAX).0, [(0, 1), (1, 2)]);
    let (found, _) = ranges(3 * MOST_CHUNKS * CHUNK_ELEMENTS + 1, 1);
    assert_eq!(found.len(), MOST_CHUNKS + 1);
    assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert_eq!(found[MOST_CHUNKS].1, 3 * MOST_CHUNKS * CHUNK_ELEMENTS + 1);
}

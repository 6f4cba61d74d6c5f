use super::*;

/// Takes all chunks for a thread.
fn all_of(shares: &Shares, first: usize) -> Vec<usize> {
    std::iter::from_fn(|| shares.take(first)).collect()
}

#[test]
fn every_chunk_is_taken_once() {
    for chunks in [0, 1, 2, 3, 7, 16, 17, 100] {
        for threads in [1, 2, 3, 16, 40] {
            for first in [0, 1, 39] {
                let mut taken = all_of(&Shares::new(chunks, threads), first);
                taken.sort_unstable();
                assert!(taken.into_iter().eq(0..chunks), "{chunks} chunks, {threads} threads");
            }
        }
    }
}

#[test]
fn a_thread_begins_with_neighbors_in_its_own_share() {
    let shares = Shares::new(10, 3);
    assert_eq!(all_of(&shares, 1), [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]);
}

#[test]
fn what_is_left_is_counted_and_can_be_dropped() {
    let shares = Shares::new(5, 2);
    assert_eq!(shares.left(), 5);
    shares.take(1);
    assert_eq!(shares.left(), 4);
    shares.drop_all();
    assert_eq!((shares.left(), shares.take(0), shares.take(1)), (0, None, None));
}

#[test]
fn threads_that_take_at_once_share_all_chunks() {
    let shares = Shares::new(1000, 2);
    let mut taken: Vec<usize> = std::thread::scope(|scope| {
        let threads = [0, 1, 1].map(|first| {
            let shares = &shares;
            scope.spawn(move || all_of(shares, first))
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..1000));
}

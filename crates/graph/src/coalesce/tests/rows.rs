//! Calls of several rows.

use super::*;

fn of(rows: usize) -> Terms {
    Terms { rows, ..Terms::default() }
}

/// Calls that queue, each by its job and its rows.
fn queued<const N: usize>(calls: &Calls, jobs: [(u32, usize); N]) -> Vec<Ticket<u32, u32>> {
    jobs.map(|(job, rows)| wait(calls.enter(job, of(rows)))).into()
}

/// The jobs of the batches that calls come to, one after another.
fn batches(tickets: Vec<Ticket<u32, u32>>) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    for ticket in tickets {
        if let Turn::Lead(mut batch) = ticket.wait(None) {
            batch.fill();
            found.push(batch.jobs().to_vec());
            finish(batch);
        }
    }
    found
}

#[test]
fn a_batch_has_no_more_rows_than_it_may() {
    let calls = Calls::new(1, 8, 16);
    let first = lead(calls.enter(1, of(5)));
    assert_eq!(first.rows(), 5);
    let mut tickets = queued(&calls, [(2, 3), (3, 3), (4, 2), (5, 8), (6, 1)]);
    finish(first);
    let second = led(tickets.remove(0));
    assert_eq!((second.jobs(), second.rows()), (&[2, 3, 4][..], 8));
    finish(second);
    assert_eq!(batches(tickets), [[5], [6]]);
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// Smaller calls fill what a larger one leaves, but only until it is the oldest.
#[test]
fn a_large_call_is_overtaken_until_it_is_the_oldest() {
    let calls = Calls::new(1, 4, 16);
    let first = lead(enter(&calls, 1));
    let mut tickets = queued(&calls, [(2, 1), (3, 4), (4, 2), (5, 3), (6, 1)]);
    finish(first);
    let second = led(tickets.remove(0));
    assert_eq!(second.jobs(), [2, 4, 6]);
    // Many small ones come after it.
    tickets.extend(queued(&calls, [(7, 1), (8, 1), (9, 1)]));
    finish(second);
    assert_eq!(batches(tickets), [vec![3], vec![5, 7], vec![8, 9]]);
}

/// Of calls that do not all fit, the higher priority goes first; smaller ones fill what is left.
#[test]
fn a_high_priority_takes_its_rows_first() {
    let calls = Calls::new(1, 6, 16);
    let first = lead(enter(&calls, 1));
    let terms = |rows, priority| Terms { rows, priority, ..Terms::default() };
    let mut tickets: Vec<_> = [(2, 1, 0), (3, 3, 0), (4, 4, 9), (5, 2, 0), (6, 1, 0)]
        .map(|(job, rows, priority)| wait(calls.enter(job, terms(rows, priority))))
        .into();
    finish(first);
    let second = led(tickets.remove(0));
    assert_eq!(second.jobs(), [2, 4, 6]);
    finish(second);
    assert_eq!(batches(tickets), [[3, 5]]);
}

/// With two in flight, each has half of the rows; a call that is larger than all before it does not follow them.
#[test]
fn batches_in_flight_have_like_numbers_of_rows() {
    let calls = Calls::new(2, 64, 16);
    let (a, b) = (lead(enter(&calls, 1)), lead(enter(&calls, 2)));
    let mut tickets = queued(&calls, [(3, 1), (4, 2), (5, 30), (6, 3), (7, 8), (8, 16)]);
    // 60 rows are at hand, and one comes back.
    finish(a);
    let c = led(tickets.remove(0));
    assert_eq!((c.jobs(), c.rows()), (&[3, 4, 6, 7, 8][..], 30));
    assert_eq!(calls.at_hand(), 6, "these are calls");
    finish(b);
    let d = led(tickets.remove(1));
    assert_eq!((d.jobs(), d.rows()), (&[5][..], 30));
    finish(c);
    finish(d);
    assert_eq!((calls.at_hand(), calls.running()), (0, 0));
}

/// Calls of equal sizes are shared as calls of one row are.
#[test]
fn calls_of_equal_rows_are_shared_as_calls_of_one_row() {
    for rows in [1, 5] {
        let calls = Calls::new(2, 64, 16);
        let (a, mut b) = (lead(calls.enter(1, of(rows))), lead(calls.enter(2, of(rows))));
        b.fill();
        let tickets = queued(&calls, [3, 4, 5, 6].map(|job| (job, rows)));
        finish(a);
        // Half of six: four wait, one runs, and one comes back.
        assert_eq!(batches(tickets), [vec![3, 4, 5], vec![6]], "{rows} rows each");
        finish(b);
    }
}

/// Who leaves a batch leaves its rows to others.
#[test]
fn the_rows_of_who_is_gone_are_free() {
    let calls = Calls::new(1, 4, 16);
    let first = lead(enter(&calls, 1));
    let mut tickets = queued(&calls, [(2, 2), (3, 1), (4, 1), (5, 2)]);
    finish(first);
    let second = led(tickets.remove(0));
    assert_eq!(second.jobs(), [2, 3, 4]);
    drop(second);
    let third = led(tickets.remove(0));
    assert_eq!((third.jobs(), third.rows()), (&[3, 4, 5][..], 4));
    finish(third);
    assert_eq!(tickets.into_iter().map(answered).collect::<Vec<_>>(), [Ok(40), Ok(50)]);
    assert_eq!((calls.at_hand(), calls.running()), (0, 0));
}

#[test]
fn a_leader_waits_until_there_are_enough_rows() {
    let calls = Calls::new(1, 6, 16);
    let mut batch = lead(calls.enter(1, of(3)));
    let tickets = queued(&calls, [(2, 4)]);
    batch.wait_for_others(Instant::now() + Duration::from_secs(60), Duration::ZERO);
    batch.fill();
    assert_eq!(batch.jobs(), [1], "both have seven rows");
    finish(batch);
    assert_eq!(batches(tickets), [[2]]);
}

/// Eight threads with calls of all sizes: no batch is too large, and everybody gets the answer to its own job.
#[test]
fn many_threads_with_calls_of_all_sizes_get_their_own_answers() {
    const MOST: usize = 9;
    let calls = Calls::new(2, MOST, 64);
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let calls = &calls;
            scope.spawn(move || {
                for call in 0..500 {
                    let job = thread * 1000 + call;
                    let rows = 1 + (7 * thread + call) as usize % MOST;
                    let lead = |mut batch: Batch<u32, u32>| {
                        batch.let_others_come();
                        batch.fill();
                        assert!(batch.rows() <= MOST);
                        finish(batch)
                    };
                    let answer = match calls.enter(job, of(rows)) {
                        Entered::Lead(batch) => lead(batch),
                        Entered::Wait(ticket) => match ticket.wait(None) {
                            Turn::Lead(batch) => lead(batch),
                            Turn::Answer(answer) => answer.ok(),
                        },
                        Entered::Full => panic!("the queue is full"),
                    };
                    assert_eq!(answer, Some(10 * job));
                }
            });
        }
    });
    assert_eq!((calls.running(), calls.has_queue(), calls.at_hand()), (0, false, 0));
}

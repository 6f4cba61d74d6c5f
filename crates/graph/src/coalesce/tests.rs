mod rows;

use std::sync::atomic::{AtomicUsize, Ordering as Order};
use std::task::Wake;
use std::time::Duration;

use super::*;

type Calls = Coalescer<u32, u32>;

fn lead(entered: Entered<u32, u32>) -> Batch<u32, u32> {
    match entered {
        Entered::Lead(batch) => batch,
        Entered::Wait(_) => panic!("it waits"),
        Entered::Full => panic!("the queue is full"),
    }
}

fn wait(entered: Entered<u32, u32>) -> Ticket<u32, u32> {
    match entered {
        Entered::Wait(ticket) => ticket,
        Entered::Lead(_) => panic!("it leads"),
        Entered::Full => panic!("the queue is full"),
    }
}

fn led(ticket: Ticket<u32, u32>) -> Batch<u32, u32> {
    match ticket.wait(None) {
        Turn::Lead(mut batch) => {
            batch.fill();
            batch
        }
        Turn::Answer(answer) => panic!("it was answered: {answer:?}"),
    }
}

fn answered(ticket: Ticket<u32, u32>) -> Result<u32, Lost> {
    match ticket.wait(None) {
        Turn::Answer(answer) => answer,
        Turn::Lead(_) => panic!("it leads"),
    }
}

/// The answer to each job is ten times the job.
fn finish(batch: Batch<u32, u32>) -> Option<u32> {
    let answers: Vec<u32> = batch.jobs().iter().map(|job| 10 * job).collect();
    batch.answer(answers, Next::First)
}

fn enter(calls: &Calls, job: u32) -> Entered<u32, u32> {
    calls.enter(job, Terms::default())
}

#[test]
fn a_lone_call_leads_at_once_and_nobody_joins_it() {
    let calls = Calls::new(1, 8, 8);
    for job in 1..4 {
        let batch = lead(enter(&calls, job));
        assert_eq!(batch.jobs(), [job]);
        assert_eq!(finish(batch), Some(10 * job));
    }
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// One runs, five arrive: the next batch has all five, led by the oldest, and everybody has the answer to its own job.
#[test]
fn those_that_arrive_during_a_batch_are_the_next_batch() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let mut tickets: Vec<_> = (2..7).map(|job| wait(enter(&calls, job))).collect();
    assert_eq!(finish(first), Some(10));
    let second = led(tickets.remove(0));
    assert_eq!(second.jobs(), [2, 3, 4, 5, 6]);
    let late = wait(enter(&calls, 7));
    assert_eq!(finish(second), Some(20));
    assert_eq!(calls.running(), 1);
    let answers: Vec<_> = tickets.into_iter().map(answered).collect();
    assert_eq!(answers, [Ok(30), Ok(40), Ok(50), Ok(60)]);
    let third = led(late);
    assert_eq!(third.jobs(), [7]);
    assert_eq!(finish(third), Some(70));
    assert_eq!(calls.running(), 0);
}

#[test]
fn a_batch_has_no_more_calls_than_it_may() {
    let calls = Calls::new(1, 2, 8);
    let first = lead(enter(&calls, 1));
    let [a, b, c] = [2, 3, 4].map(|job| wait(enter(&calls, job)));
    finish(first);
    let second = led(a);
    assert_eq!(second.jobs(), [2, 3]);
    finish(second);
    assert_eq!(answered(b), Ok(30));
    assert_eq!(led(c).jobs(), [4]);
}

/// With two in flight, the first of them does not take all: two batches of like sizes cost less than a large and a small one.
#[test]
fn batches_in_flight_have_like_sizes() {
    let calls = Calls::new(2, 8, 8);
    let (mut a, mut b) = (lead(enter(&calls, 1)), lead(enter(&calls, 2)));
    a.fill();
    b.fill();
    let mut tickets: Vec<_> = (3..9).map(|job| wait(enter(&calls, job))).collect();
    assert_eq!(calls.at_hand(), 8);
    finish(a);
    let c = led(tickets.remove(0));
    assert_eq!(
        c.jobs(),
        [3, 4, 5, 6],
        "half of the eight: of those that wait, run, and will come back"
    );
    finish(b);
    let mut tickets = tickets.split_off(3);
    let d = led(tickets.remove(0));
    assert_eq!(d.jobs(), [7, 8]);
    assert_eq!(calls.at_hand(), 6);
    finish(d);
    finish(c);
    assert_eq!(calls.at_hand(), 0);
}

#[test]
fn how_many_calls_a_batch_may_have_can_be_changed() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let [a, b, c] = [2, 3, 4].map(|job| wait(enter(&calls, job)));
    calls.set_most(2);
    finish(first);
    let second = led(a);
    assert_eq!(second.jobs(), [2, 3]);
    finish(second);
    assert_eq!(answered(b), Ok(30));
    assert_eq!(led(c).jobs(), [4]);
}

#[test]
fn as_many_batches_are_in_flight_as_there_may_be() {
    let calls = Calls::new(2, 8, 8);
    let (a, b) = (lead(enter(&calls, 1)), lead(enter(&calls, 2)));
    let c = wait(enter(&calls, 3));
    assert_eq!(calls.running(), 2);
    finish(b);
    let c = led(c);
    assert_eq!(calls.running(), 2);
    finish(c);
    finish(a);
    assert_eq!(calls.running(), 0);
}

/// When more may be in flight, those that queue notice with the next batch that ends; when fewer may be, places are given up.
#[test]
fn the_number_in_flight_can_be_changed_while_calls_queue() {
    let calls = Calls::new(1, 1, 8);
    let first = lead(enter(&calls, 1));
    let [a, b, c] = [2, 3, 4].map(|job| wait(enter(&calls, job)));
    calls.set_in_flight(2);
    finish(first);
    let (a, b) = (led(a), led(b));
    assert_eq!(calls.running(), 2);
    calls.set_in_flight(1);
    finish(a);
    assert_eq!(calls.running(), 1);
    finish(b);
    assert_eq!(finish(led(c)), Some(40));
}

#[test]
fn a_full_queue_says_so() {
    let calls = Calls::new(1, 8, 2);
    let first = lead(enter(&calls, 1));
    let tickets = [2, 3].map(|job| wait(enter(&calls, job)));
    assert!(matches!(enter(&calls, 4), Entered::Full));
    drop(tickets);
    let again = wait(enter(&calls, 5));
    finish(first);
    assert_eq!(led(again).jobs(), [5]);
}

const WAITS: Terms = Terms { rows: 1, priority: 0, deadline: None, wait_when_full: true };

/// A queue of one: each batch takes who is in it, and the next comes in, in the order of arrival and whatever the priority is.
#[test]
fn those_that_wait_for_room_come_in_by_their_age() {
    let calls = Calls::new(1, 8, 1);
    let mut batch = lead(enter(&calls, 1));
    let tickets: Vec<_> = (2..6u32)
        .map(|job| wait(calls.enter(job, Terms { priority: job as u8, ..WAITS })))
        .collect();
    assert_eq!(
        tickets.iter().map(Ticket::found_full).collect::<Vec<_>>(),
        [false, true, true, true]
    );
    assert!(matches!(enter(&calls, 6), Entered::Full), "who does not wait gets the error");
    batch.fill();
    assert_eq!(batch.jobs(), [1, 2], "no more are taken in than the queue has");
    finish(batch);
    let mut tickets = tickets.into_iter();
    assert_eq!(answered(tickets.next().unwrap()), Ok(20));
    let batch = led(tickets.next().unwrap());
    assert_eq!(batch.jobs(), [3, 4]);
    finish(batch);
    assert_eq!(answered(tickets.next().unwrap()), Ok(40));
    assert_eq!(finish(led(tickets.next().unwrap())), Some(50));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// Room is made by a call that is given up, in the queue or outside, and by one whose deadline passes.
#[test]
fn who_goes_away_makes_room() {
    let calls = Calls::new(1, 8, 2);
    let first = lead(enter(&calls, 1));
    let past = Terms { deadline: Some(Instant::now()), ..WAITS };
    let [a, b, c] = [2, 3, 4].map(|job| wait(calls.enter(job, WAITS)));
    let [late, d] = [(5, past), (6, WAITS)].map(|(job, terms)| wait(calls.enter(job, terms)));
    drop(a);
    drop(c);
    finish(first);
    let batch = led(b);
    assert_eq!(batch.jobs(), [3, 6]);
    assert_eq!(answered(late), Err(Lost::Late));
    finish(batch);
    assert_eq!(answered(d), Ok(60));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// The whole queue is late: those outside are not forgotten.
#[test]
fn a_queue_of_late_calls_leaves_its_room_to_those_outside() {
    let calls = Calls::new(1, 8, 1);
    let first = lead(enter(&calls, 1));
    let past = Terms { deadline: Some(Instant::now()), ..WAITS };
    let (late, other) = (wait(calls.enter(2, past)), wait(calls.enter(3, WAITS)));
    finish(first);
    assert_eq!(finish(led(other)), Some(30));
    assert_eq!(answered(late), Err(Lost::Late));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

#[test]
fn a_wait_for_room_ends_at_its_deadline() {
    let calls = Calls::new(1, 8, 1);
    let first = lead(enter(&calls, 1));
    let [inside, outside] = [2, 3].map(|job| wait(calls.enter(job, WAITS)));
    let turn = outside.wait(Some(Instant::now() + Duration::from_millis(1)));
    assert!(matches!(turn, Turn::Answer(Err(Lost::Late))));
    finish(first);
    assert_eq!(led(inside).jobs(), [2]);
}

/// The oldest goes whatever its priority is, so nobody starves; of the others the highest go.
#[test]
fn the_oldest_and_those_of_the_highest_priority_go_first() {
    let calls = Calls::new(1, 3, 8);
    let first = lead(enter(&calls, 0));
    let of = |priority| Terms { priority, ..Terms::default() };
    let mut tickets: Vec<_> = [(1, 0), (2, 1), (3, 9), (4, 1), (5, 9)]
        .map(|(job, priority)| wait(calls.enter(job, of(priority))))
        .into();
    finish(first);
    let batch = led(tickets.remove(0));
    assert_eq!(batch.jobs(), [1, 3, 5]);
    finish(batch);
    let batch = led(tickets.remove(0));
    assert_eq!(batch.jobs(), [2, 4]);
}

#[test]
fn a_call_that_is_given_up_leaves_the_queue() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let [a, b] = [2, 3].map(|job| wait(enter(&calls, job)));
    drop(a);
    finish(first);
    assert_eq!(led(b).jobs(), [3]);
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A batch goes on without a call that is given up when it was to lead, while it leads, or while it waits for the answer.
#[test]
fn a_batch_goes_on_without_who_is_gone() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let [a, b, c, d] = [2, 3, 4, 5].map(|job| wait(enter(&calls, job)));
    finish(first);
    drop(a);
    let second = led(b);
    assert_eq!(second.jobs(), [3, 4, 5]);
    drop(second);
    let third = led(c);
    assert_eq!(third.jobs(), [4, 5]);
    drop(d);
    assert_eq!(finish(third), Some(40));
    assert_eq!(finish(lead(enter(&calls, 6))), Some(60));
}

/// Waking a leader takes a while: who arrives before it begins is in its batch.
#[test]
fn a_leader_takes_in_all_who_came_before_it_begins() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let a = wait(enter(&calls, 2));
    finish(first);
    let b = wait(enter(&calls, 3));
    let second = led(a);
    assert_eq!(second.jobs(), [2, 3]);
    finish(second);
    assert_eq!(answered(b), Ok(30));
}

/// Whether the next leader is chosen before or behind the answers, everybody has one, and nobody is forgotten.
#[test]
fn the_next_leader_may_be_chosen_last() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let a = wait(enter(&calls, 2));
    assert_eq!(first.answer([10], Next::Last), Some(10));
    assert_eq!(finish(led(a)), Some(20));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// Letting others come first ends when nobody does.
#[test]
fn a_leader_does_not_wait_for_those_who_stay_away() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let a = wait(enter(&calls, 2));
    finish(first);
    finish(led(a));
    let batch = lead(enter(&calls, 3));
    batch.let_others_come();
    assert_eq!(batch.jobs(), [3]);
}

#[test]
fn a_call_whose_time_is_over_is_not_computed() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let past = Terms { deadline: Some(Instant::now()), ..Terms::default() };
    let (late, other) = (wait(calls.enter(2, past)), wait(enter(&calls, 3)));
    finish(first);
    assert_eq!(led(other).jobs(), [3]);
    assert_eq!(answered(late), Err(Lost::Late));
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let ticket = wait(enter(&calls, 2));
    let turn = ticket.wait(Some(Instant::now() + Duration::from_millis(1)));
    assert!(matches!(turn, Turn::Answer(Err(Lost::Late))));
    assert!(!calls.has_queue());
    finish(first);
    assert_eq!(calls.running(), 0);
}

#[test]
fn a_leader_that_panics_loses_its_batch_and_no_other() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let [a, b] = [2, 3].map(|job| wait(enter(&calls, job)));
    finish(first);
    let batch = led(a);
    let next = wait(enter(&calls, 4));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _batch = batch;
        std::panic::resume_unwind(Box::new("planted"));
    }));
    assert!(panicked.is_err());
    assert_eq!(answered(b), Err(Lost::Leader));
    assert_eq!(finish(led(next)), Some(40));
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Order::Relaxed);
    }
}

#[test]
fn a_task_is_woken_once_for_its_turn() {
    use std::future::Future;
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let mut ticket = Box::pin(wait(enter(&calls, 2)));
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = std::task::Waker::from(Arc::clone(&count));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    finish(first);
    assert_eq!(count.0.load(Order::Relaxed), 1);
    let std::task::Poll::Ready(Turn::Lead(batch)) = ticket.as_mut().poll(&mut context) else {
        panic!("it is its turn");
    };
    assert_eq!(finish(batch), Some(20));
}

/// A leader that may wait takes in those that arrive meanwhile, and goes at once when the batch is full.
#[test]
fn a_leader_can_wait_for_others() {
    let calls = Calls::new(1, 3, 8);
    let mut batch = lead(enter(&calls, 1));
    let tickets = [2, 3].map(|job| wait(enter(&calls, job)));
    batch.wait_for_others(Instant::now() + Duration::from_secs(60), Duration::ZERO);
    batch.fill();
    assert_eq!(batch.jobs(), [1, 2, 3]);
    assert!(!calls.has_queue());
    assert_eq!(finish(batch), Some(10));
    assert_eq!(tickets.map(answered), [Ok(20), Ok(30)]);
}

/// There are places, and yet who comes while a leader gathers is in its batch. Those that do not fit are led at once.
#[test]
fn who_comes_while_a_leader_gathers_does_not_lead() {
    let calls = Calls::gathering(2, 3, 8);
    let mut batch = lead(enter(&calls, 1));
    let [a, b, c, d] = [2, 3, 4, 5].map(|job| wait(enter(&calls, job)));
    batch.wait_for_others(Instant::now() + Duration::from_secs(60), Duration::ZERO);
    batch.fill();
    assert_eq!(batch.jobs(), [1, 2, 3]);
    let mut next = led(c);
    assert_eq!(next.jobs(), [4, 5]);
    assert_eq!(calls.running(), 2);
    assert_eq!((finish(batch), finish(next)), (Some(10), Some(40)));
    assert_eq!([a, b, d].map(answered), [Ok(20), Ok(30), Ok(50)]);
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
    // The same where the leader goes away: another leads, and gathers if it likes.
    let batch = lead(enter(&calls, 6));
    let e = wait(enter(&calls, 7));
    drop(batch);
    next = led(e);
    assert_eq!(finish(lead(enter(&calls, 8))), Some(80));
    assert_eq!(finish(next), Some(70));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A batch that ends while another gathers leaves the queue to that one.
#[test]
fn a_batch_that_ends_takes_nothing_from_one_that_gathers() {
    let calls = Calls::gathering(2, 8, 8);
    let mut first = lead(enter(&calls, 1));
    first.fill();
    let mut second = lead(enter(&calls, 2));
    let a = wait(enter(&calls, 3));
    assert_eq!(finish(first), Some(10));
    assert_eq!(calls.running(), 1);
    second.fill();
    assert_eq!(second.jobs(), [2, 3]);
    assert_eq!(finish(second), Some(20));
    assert_eq!(answered(a), Ok(30));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A leader gathers for no longer than those that came meanwhile have time.
#[test]
fn a_leader_gathers_until_the_first_deadline() {
    let calls = Calls::gathering(1, 8, 8);
    let mut batch = lead(enter(&calls, 1));
    let (now, lately) = (Instant::now(), Duration::from_secs(60));
    let soon = Terms { deadline: Some(now + lately), ..Terms::default() };
    let ticket = wait(calls.enter(2, soon));
    batch.wait_for_others(now + 2 * lately, lately);
    batch.fill();
    assert!(now.elapsed() < lately);
    finish(batch);
    assert_eq!(answered(ticket), Ok(20));
}

/// A place waits for any call, and a leader for a full batch: a call that comes is for both to see.
#[test]
fn a_call_wakes_whoever_needs_it() {
    const TIMEOUT: Duration = Duration::from_secs(20);
    let calls = Calls::new(2, 2, 8);
    let mut gathers = lead(enter(&calls, 1));
    let (_, place) = lead(enter(&calls, 2)).answer_and_keep([20]).unwrap();
    let collecting = |count: usize| {
        while lock(&calls.0.queue).collecting != count {
            std::thread::yield_now();
        }
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // It may find that the call is gone already, and wait for another.
        scope.spawn(|| assert!(place.next(TIMEOUT / 20).is_none()));
        collecting(1);
        let leader = scope.spawn(|| {
            gathers.wait_for_others(begun + TIMEOUT, Duration::ZERO);
            gathers.fill();
            assert_eq!(gathers.jobs(), [1, 3]);
            finish(gathers)
        });
        collecting(2);
        assert_eq!(answered(wait(enter(&calls, 3))), Ok(30));
        assert_eq!(leader.join().unwrap(), Some(10));
    });
    assert!(begun.elapsed() < TIMEOUT);
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// Eight threads: everybody gets the answer to its own job, whoever leads.
#[test]
fn many_threads_get_their_own_answers() {
    let calls = Calls::new(1, 3, 64);
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let calls = &calls;
            scope.spawn(move || {
                for call in 0..500 {
                    let job = thread * 1000 + call;
                    let lead = |mut batch: Batch<u32, u32>| {
                        batch.let_others_come();
                        batch.fill();
                        finish(batch)
                    };
                    let answer = match enter(calls, job) {
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
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// Whoever keeps the place of a batch leads the next one, and needs no call of its own for that.
#[test]
fn a_place_that_is_kept_serves_those_that_queue() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let (a, b) = (wait(enter(&calls, 2)), wait(enter(&calls, 3)));
    let (own, place) = first.answer_and_keep([10]).unwrap();
    assert_eq!(own, Some(10));
    let c = wait(enter(&calls, 4));
    let mut batch = place.next(Duration::ZERO).expect("three calls queue");
    batch.fill();
    assert_eq!(batch.jobs(), [2, 3, 4]);
    let (own, place) = batch.answer_and_keep([20, 30, 40]).unwrap();
    assert_eq!(own, None, "nobody of them leads");
    assert_eq!([a, b, c].map(answered), [Ok(20), Ok(30), Ok(40)]);
    assert!(place.next(Duration::ZERO).is_none());
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

#[test]
fn a_place_that_is_dropped_goes_to_the_oldest_call() {
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let (a, b) = (wait(enter(&calls, 2)), wait(enter(&calls, 3)));
    let (_, place) = first.answer_and_keep([10]).unwrap();
    drop(place);
    assert_eq!(finish(led(a)), Some(20));
    assert_eq!(answered(b), Ok(30));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A call that comes while a place waits for one is served in it, at once.
#[test]
fn a_place_waits_for_calls_and_is_told_of_the_first() {
    let calls = Calls::new(1, 8, 8);
    let (_, place) = lead(enter(&calls, 1)).answer_and_keep([10]).unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut batch = place.next(Duration::from_secs(30)).expect("a call comes");
            batch.fill();
            finish(batch)
        });
        while lock(&calls.0.queue).collecting == 0 {
            std::thread::yield_now();
        }
        assert_eq!(answered(wait(enter(&calls, 2))), Ok(20));
        assert_eq!(serving.join().unwrap(), None);
    });
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A place that goes on and on does not hide that more may be in flight by now.
#[test]
fn a_place_that_goes_on_lets_others_lead_if_more_may_be_in_flight() {
    let calls = Calls::new(1, 1, 8);
    let first = lead(enter(&calls, 1));
    let (a, b) = (wait(enter(&calls, 2)), wait(enter(&calls, 3)));
    let (_, place) = first.answer_and_keep([10]).unwrap();
    calls.set_in_flight(2);
    let served = place.next(Duration::ZERO).expect("two calls queue");
    assert_eq!(calls.running(), 2);
    assert_eq!(finish(led(b)), Some(30));
    assert_eq!(finish(served), None);
    assert_eq!(answered(a), Ok(20));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

/// A waker is somebody's code.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("a waker"));
    }
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    use std::future::Future;
    let calls = Calls::new(1, 8, 8);
    let first = lead(enter(&calls, 1));
    let [b, c, d] = [2, 3, 4].map(|job| wait(enter(&calls, job)));
    let mut c = Box::pin(c);
    let waker = std::task::Waker::from(Arc::new(Panics));
    assert!(c.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    finish(first);
    finish(led(b));
    assert_eq!(answered(d), Ok(40));
    assert_eq!((calls.running(), calls.has_queue()), (0, false));
}

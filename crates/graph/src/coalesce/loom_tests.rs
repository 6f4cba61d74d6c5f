//! Calls that come, lead, hand over, are given up and panic, in every interleaving: none is lost, none is answered twice or with
//! the answer of another, and nobody sleeps for ever.

use std::time::Duration;

use loom::thread;

use super::*;

type Calls = Coalescer<u32, u32>;

/// One call to its end. The answer to each job is ten times the job.
fn call(calls: &Calls, job: u32) -> Result<u32, Lost> {
    call_with(calls, job, Terms::default())
}

fn call_with(calls: &Calls, job: u32, terms: Terms) -> Result<u32, Lost> {
    let finish = |mut batch: Batch<u32, u32>| {
        batch.fill();
        let answers: Vec<u32> = batch.jobs().iter().map(|job| 10 * job).collect();
        // Odd ones choose the next leader first, the others last.
        let next = if job % 2 == 1 { Next::First } else { Next::Last };
        Ok(batch.answer(answers, next).expect("the leader has an answer"))
    };
    match calls.enter(job, terms) {
        Entered::Lead(batch) => finish(batch),
        Entered::Wait(ticket) => match ticket.wait(None) {
            Turn::Lead(batch) => finish(batch),
            Turn::Answer(answer) => answer,
        },
        Entered::Full => panic!("the queue is full"),
    }
}

/// Three threads take long: two preemptions must do.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn loom_every_call_gets_its_own_answer() {
    check(|| {
        let calls = Calls::new(1, 8, 8);
        let others = [2, 3].map(|job| {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, job))
        });
        assert_eq!(call(&calls, 1), Ok(10));
        let answers = others.map(|other| other.join().unwrap());
        assert_eq!(answers, [Ok(20), Ok(30)]);
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

#[test]
fn loom_two_batches_in_flight_forget_nobody() {
    check(|| {
        let calls = Calls::new(2, 1, 8);
        let others = [2, 3].map(|job| {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, job))
        });
        assert_eq!(call(&calls, 1), Ok(10));
        assert_eq!(others.map(|other| other.join().unwrap()), [Ok(20), Ok(30)]);
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// A call is given up at any moment: in the queue, when it is to lead, or in a batch of another.
#[test]
fn loom_a_call_that_is_given_up_takes_nobody_with_it() {
    check(|| {
        let calls = Calls::new(1, 8, 8);
        let leader = match calls.enter(1, Terms::default()) {
            Entered::Lead(batch) => batch,
            _ => panic!("nobody else is there"),
        };
        let other = {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, 2))
        };
        let quitter = {
            let calls = calls.clone();
            thread::spawn(move || drop(calls.enter(3, Terms::default())))
        };
        assert_eq!(leader.answer([10], Next::Last), Some(10));
        assert_eq!(other.join().unwrap(), Ok(20));
        quitter.join().unwrap();
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// A leader drops its batch: another of the batch leads it.
#[test]
fn loom_a_batch_that_is_dropped_is_led_by_another() {
    check(|| {
        let calls = Calls::new(1, 8, 8);
        let other = {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, 2))
        };
        match calls.enter(1, Terms::default()) {
            Entered::Lead(mut batch) => {
                batch.fill();
                drop(batch);
            }
            Entered::Wait(ticket) => drop(ticket.wait(None)),
            Entered::Full => panic!("the queue is full"),
        }
        assert_eq!(other.join().unwrap(), Ok(20));
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// A leader panics: its batch is lost, and everybody who comes later is answered.
#[test]
fn loom_a_panic_reaches_its_own_batch_only() {
    check(|| {
        let calls = Calls::new(1, 8, 8);
        let other = {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, 2))
        };
        let own = calls.clone();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut batch = match own.enter(1, Terms::default()) {
                Entered::Lead(batch) => batch,
                Entered::Wait(ticket) => match ticket.wait(None) {
                    Turn::Lead(batch) => batch,
                    Turn::Answer(_) => return,
                },
                Entered::Full => return,
            };
            batch.fill();
            std::panic::resume_unwind(Box::new("planted"));
        }));
        let answer = other.join().unwrap();
        assert!(
            answer == Ok(20) || (answer == Err(Lost::Leader) && panicked.is_err()),
            "{answer:?}"
        );
        assert_eq!(call(&calls, 3), Ok(30));
    });
}

/// The number of batches in flight changes while calls come and go.
#[test]
fn loom_a_change_of_the_number_in_flight_loses_nobody() {
    check(|| {
        let calls = Calls::new(2, 1, 8);
        let other = {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, 2))
        };
        let changer = {
            let calls = calls.clone();
            thread::spawn(move || calls.set_in_flight(1))
        };
        assert_eq!(call(&calls, 1), Ok(10));
        assert_eq!(other.join().unwrap(), Ok(20));
        changer.join().unwrap();
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// There is room for one call in the queue, and the others wait outside: whoever takes it lets the next one in.
#[test]
fn loom_who_waits_for_room_is_never_forgotten() {
    check(|| {
        let calls = Calls::new(1, 8, 1);
        let waits = Terms { wait_when_full: true, ..Terms::default() };
        let others = [2, 3].map(|job| {
            let calls = calls.clone();
            thread::spawn(move || call_with(&calls, job, waits))
        });
        assert_eq!(call_with(&calls, 1, waits), Ok(10));
        assert_eq!(others.map(|other| other.join().unwrap()), [Ok(20), Ok(30)]);
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// The call in the queue is given up at any moment, while another waits for its room and the batch before them ends.
#[test]
fn loom_a_call_that_is_given_up_lets_another_in() {
    check(|| {
        let calls = Calls::new(1, 8, 1);
        let waits = Terms { wait_when_full: true, ..Terms::default() };
        let Entered::Lead(leader) = calls.enter(1, waits) else { panic!("nobody else is there") };
        let Entered::Wait(inside) = calls.enter(2, waits) else { panic!("there is room for one") };
        let outside = {
            let calls = calls.clone();
            thread::spawn(move || call_with(&calls, 3, waits))
        };
        let quitter = thread::spawn(move || drop(inside));
        assert_eq!(leader.answer([10], Next::First), Some(10));
        assert_eq!(outside.join().unwrap(), Ok(30));
        quitter.join().unwrap();
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// A thread that calls nothing itself serves one batch after another, while calls come that may lead as well.
#[test]
fn loom_a_place_that_is_kept_forgets_nobody() {
    check(|| {
        let calls = Calls::new(1, 8, 8);
        let Entered::Lead(leader) = calls.enter(1, Terms::default()) else {
            panic!("nobody else is there")
        };
        let others = [2, 3].map(|job| {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, job))
        });
        let (own, place) = leader.answer_and_keep([10]).expect("it was not answered");
        assert_eq!(own, Some(10));
        let mut place = Some(place);
        while let Some(mut batch) = place.take().and_then(|place| place.next(Duration::ZERO)) {
            batch.fill();
            let answers: Vec<u32> = batch.jobs().iter().map(|job| 10 * job).collect();
            place = batch.answer_and_keep(answers).map(|(_, place)| place);
        }
        assert_eq!(others.map(|other| other.join().unwrap()), [Ok(20), Ok(30)]);
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// Batches have room for two rows: a call of two waits for the next, and is not forgotten behind those that fit.
#[test]
fn loom_a_call_that_does_not_fit_is_not_forgotten() {
    check(|| {
        let calls = Calls::new(1, 2, 8);
        let others = [(2, 2), (3, 1)].map(|(job, rows)| {
            let calls = calls.clone();
            let terms = Terms { rows, ..Terms::default() };
            thread::spawn(move || call_with(&calls, job, terms))
        });
        assert_eq!(call(&calls, 1), Ok(10));
        assert_eq!(others.map(|other| other.join().unwrap()), [Ok(20), Ok(30)]);
        assert_eq!((calls.running(), calls.has_queue(), calls.at_hand()), (0, false, 0));
    });
}

/// There are two places, and yet both calls are one batch: the first waits, with no clock, until the second is in it.
#[test]
fn loom_who_comes_while_a_leader_gathers_is_in_its_batch() {
    fn call(calls: &Calls, job: u32) -> Result<u32, Lost> {
        match calls.enter(job, Terms::default()) {
            Entered::Lead(mut batch) => {
                batch.wait_for_others(Instant::now(), Duration::ZERO);
                batch.fill();
                let answers: Vec<u32> = batch.jobs().iter().map(|job| 10 * job).collect();
                assert_eq!(answers.len(), 2);
                Ok(batch.answer(answers, Next::First).expect("the leader has an answer"))
            }
            Entered::Wait(ticket) => match ticket.wait(None) {
                Turn::Lead(_) => panic!("another gathers"),
                Turn::Answer(answer) => answer,
            },
            Entered::Full => panic!("the queue is full"),
        }
    }
    check(|| {
        let calls = Calls::gathering(2, 2, 8);
        let other = {
            let calls = calls.clone();
            thread::spawn(move || call(&calls, 2))
        };
        assert_eq!(call(&calls, 1), Ok(10));
        assert_eq!(other.join().unwrap(), Ok(20));
        assert_eq!((calls.running(), calls.has_queue()), (0, false));
    });
}

/// Who does not fit in the batch that gathers is led by another, and nobody is forgotten, whether the leader begins or goes away.
#[test]
fn loom_a_leader_that_gathers_forgets_nobody() {
    for begins in [true, false] {
        check(move || {
            let calls = Calls::gathering(2, 2, 8);
            let Entered::Lead(mut leader) = calls.enter(1, Terms::default()) else {
                panic!("nobody else is there")
            };
            let others = [2, 3].map(|job| {
                let calls = calls.clone();
                thread::spawn(move || call(&calls, job))
            });
            if begins {
                leader.wait_for_others(Instant::now(), Duration::ZERO);
                leader.fill();
                assert_eq!(leader.jobs().len(), 2);
                let answers: Vec<u32> = leader.jobs().iter().map(|job| 10 * job).collect();
                assert_eq!(leader.answer(answers, Next::Last), Some(10));
            } else {
                drop(leader);
            }
            assert_eq!(others.map(|other| other.join().unwrap()), [Ok(20), Ok(30)]);
            assert_eq!((calls.running(), calls.has_queue()), (0, false));
        });
    }
}

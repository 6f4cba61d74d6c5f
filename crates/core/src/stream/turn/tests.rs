use super::*;

#[test]
fn threads_have_numbers_of_their_own() {
    let own = thread_number();
    assert_eq!(own, thread_number());
    let other = std::thread::spawn(thread_number).join().unwrap();
    assert_ne!(own, other);
}

#[test]
fn threads_work_as_one_user() {
    let user = 64;
    let outer = work_as(user, || (work_as(2 * user, thread_number), thread_number()));
    assert_eq!(outer, (2 * user, user));
    assert_eq!(std::thread::spawn(move || work_as(user, thread_number)).join().unwrap(), user);
    let own = thread_number();
    let panicked = std::panic::catch_unwind(|| work_as(user, || panic!("planned")));
    assert!(panicked.is_err());
    assert_eq!(thread_number(), own);
}

/// Another thread that comes while this one has `count` batches begun, one after the other.
#[cfg(not(loom))]
fn comes_to_batches(count: usize, times_out: bool) -> Vec<bool> {
    let (device, _) = crate::fake::device(crate::Config::default(), 1 << 20, 1).unwrap();
    let stream = crate::Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let layout = crate::Layout::contiguous(crate::DType::F32, &[16]).unwrap();
    let mut turn_wait = TurnWait::default();
    let lets_finish = (0..count).map(|_| {
        let fill = crate::Command::fill(buffer.operand(layout), 1.0f32).unwrap();
        stream.record(fill).unwrap();
        let mut recorder = stream.inner.lock();
        let other = thread_number() + 1;
        let mut next = stream.inner.take_turn(&mut recorder, other, &mut turn_wait).unwrap();
        if let (true, Some((_, until))) = (times_out, &mut turn_wait.waits_for) {
            *until = Instant::now();
            next = stream.inner.take_turn(&mut recorder, other, &mut turn_wait).unwrap();
        }
        let submitted = recorder.batch.is_empty();
        drop(recorder);
        // Its own thread submits it otherwise.
        stream.flush().unwrap();
        match next {
            Next::Record => assert!(submitted, "mixed"),
            _ => assert!(!submitted),
        }
        matches!(next, Next::LetFinish(_))
    });
    lets_finish.collect()
}

#[cfg(not(loom))]
#[test]
fn a_thread_lets_others_go_first_for_a_time_and_a_number_of_batches() {
    let mut lets_finish = vec![true; MAX_TURNS];
    lets_finish.push(false);
    assert_eq!(comes_to_batches(MAX_TURNS + 1, false), lets_finish);
    assert_eq!(comes_to_batches(2, true), [false, false]);
}

#[test]
fn credits_that_are_not_refilled_run_out() {
    let mut turn = Turn::default();
    let mut waits = 0;
    while turn.has_credits() {
        turn.spend();
        waits += 1;
    }
    assert_eq!(waits, MAX_CREDITS / WAIT_COST);
    for _ in 0..WAIT_COST {
        turn.refill();
    }
    assert!(turn.has_credits());
}

use std::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(30);

/// Work is a channel that the thread says its name on.
type Work = mpsc::Sender<std::thread::ThreadId>;

fn say(work: Work) {
    let _ = work.send(std::thread::current().id());
}

fn until_waiting(standby: &Standby<Work>, threads: usize) {
    while lock(&standby.state).waiting < threads {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_that_waits_gets_the_work_and_no_other_is_started() {
    let standby = Arc::new(Standby::new());
    let (sender, receiver) = mpsc::channel();
    give_or_spawn(&standby, sender.clone(), 2, LONG, say);
    let first = receiver.recv().unwrap();
    until_waiting(&standby, 1);
    give_or_spawn(&standby, sender, 2, LONG, say);
    assert_eq!(receiver.recv().unwrap(), first);
    assert_eq!(lock(&standby.state).threads, 1);
    standby.close();
}

#[test]
fn no_more_threads_are_started_than_there_may_be() {
    let standby = Arc::new(Standby::new());
    let (sender, receiver) = mpsc::channel();
    give_or_spawn(&standby, sender, 0, LONG, say);
    // The work was dropped, and its channel with it.
    assert!(receiver.recv().is_err());
    assert_eq!(lock(&standby.state).threads, 0);
}

#[test]
fn threads_without_work_end() {
    let standby = Arc::new(Standby::new());
    let (sender, receiver) = mpsc::channel();
    give_or_spawn(&standby, sender, 1, Duration::ZERO, say);
    receiver.recv().unwrap();
    while lock(&standby.state).threads > 0 {
        std::thread::yield_now();
    }
    assert!(standby.give(mpsc::channel().0).is_err(), "nobody waits");
}

#[test]
fn threads_end_when_it_is_closed() {
    let standby = Arc::new(Standby::new());
    let (sender, receiver) = mpsc::channel();
    give_or_spawn(&standby, sender, 1, LONG, say);
    receiver.recv().unwrap();
    until_waiting(&standby, 1);
    standby.close();
    while lock(&standby.state).threads > 0 {
        std::thread::yield_now();
    }
    assert!(!standby.join(1), "a thread for work that never comes");
}

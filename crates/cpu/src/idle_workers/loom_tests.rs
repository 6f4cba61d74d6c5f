use loom::sync::Arc;
use loom::thread;

use super::*;

/// Every notification is seen, by a worker that is awake or parks at that moment.
#[test]
fn loom_a_notification_is_never_missed() {
    loom::model(|| {
        let workers = Arc::new(IdleWorkers::<()>::with_streams(1, 2));
        let worker = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                let mut seen = 0;
                while seen < 2 {
                    match workers.take_ready() {
                        Some(_) => seen += 1,
                        None => assert!(workers.park(0, false, || false).is_some()),
                    }
                }
            })
        };
        workers.notify(0);
        workers.notify(1);
        worker.join().unwrap();
    });
}

/// Whoever takes a flag sees what was done before each notification, also before one that found the flag set.
#[test]
fn loom_a_taken_flag_shows_what_was_done_before_the_notification() {
    use loom::sync::atomic::AtomicUsize;
    loom::model(|| {
        let shared = Arc::new((
            IdleWorkers::<()>::with_streams(1, 1),
            [(); 2].map(|()| AtomicUsize::new(0)),
        ));
        let notifiers = [0, 1].map(|notifier| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1[notifier].store(1, Ordering::Relaxed);
                shared.0.notify(0);
            })
        });
        let done = || shared.1.iter().map(|done| done.load(Ordering::Relaxed)).sum::<usize>();
        let mut seen = 0;
        while seen < 2 {
            match shared.0.take_ready() {
                Some(_) => {
                    assert!(done() > seen, "a notification without anything behind it");
                    seen = done();
                }
                None => thread::yield_now(),
            }
        }
        for notifier in notifiers {
            notifier.join().unwrap();
        }
    });
}

/// A stop is seen by a worker that parks at that moment.
#[test]
fn loom_a_stop_is_never_missed() {
    loom::model(|| {
        let workers = Arc::new(IdleWorkers::<()>::with_streams(1, 1));
        let worker = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || assert!(workers.park(0, false, || false).is_none()))
        };
        workers.stop();
        worker.join().unwrap();
    });
}

/// Stopping releases every worker, also one that gets a task or is notified at that moment.
#[test]
fn loom_stop_releases_every_worker() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let workers = Arc::new(IdleWorkers::<u8>::with_streams(2, 1));
        let threads: Vec<_> = (0..2)
            .map(|worker| {
                let workers = Arc::clone(&workers);
                thread::spawn(move || {
                    while !workers.is_stopped() {
                        if workers.take_ready().is_none() {
                            workers.park(worker, false, || false);
                        }
                    }
                })
            })
            .collect();
        workers.notify(0);
        workers.stop();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A task goes to exactly one worker or comes back.
#[test]
fn loom_a_task_is_neither_lost_nor_doubled() {
    loom::model(|| {
        let workers = Arc::new(IdleWorkers::<u8>::with_streams(1, 1));
        let worker = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                let mut done = 0;
                while !workers.is_stopped() {
                    if let Some(Wake::Task(task)) = workers.park(0, false, || false) {
                        done += task;
                    }
                }
                done
            })
        };
        let given = u8::from(workers.dispatch(1).is_ok());
        workers.stop();
        assert_eq!(worker.join().unwrap(), given);
    });
}

/// The same for a worker that stays awake for a while.
#[test]
fn loom_a_task_reaches_a_worker_that_spins() {
    loom::model(|| {
        let workers = Arc::new(IdleWorkers::<u8>::with_streams(1, 1));
        let worker = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                let mut done = 0;
                while !workers.is_stopped() {
                    let spins = std::cell::Cell::new(2);
                    let keep_spinning = || spins.replace(spins.get() - 1) > 0;
                    if let Some(Wake::Task(task)) = workers.park(0, false, keep_spinning) {
                        done += task;
                    }
                }
                done
            })
        };
        let given = u8::from(workers.dispatch(1).is_ok());
        workers.stop();
        assert_eq!(worker.join().unwrap(), given);
    });
}

/// A worker that marks itself before it parks gets every task that it is given from then on, and sees a stop.
#[test]
fn loom_a_task_reaches_a_worker_that_was_marked_before() {
    loom::model(|| {
        let workers = Arc::new(IdleWorkers::<u8>::with_streams(1, 1));
        let worker = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                let (mut done, mut marked) = (0, false);
                while marked || !workers.is_stopped() {
                    match workers.park(0, marked, || false) {
                        Some(Wake::Task(task)) => {
                            done += task;
                            workers.mark_idle(0);
                            marked = true;
                        }
                        Some(Wake::Ready) => marked = false,
                        None => break,
                    }
                }
                done
            })
        };
        let given = (0..2).map(|_| u8::from(workers.dispatch(1).is_ok())).sum::<u8>();
        workers.stop();
        assert_eq!(worker.join().unwrap(), given);
    });
}

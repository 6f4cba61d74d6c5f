use super::*;

#[test]
fn a_flag_is_taken_once() {
    let workers = IdleWorkers::<()>::new(1);
    workers.notify(5);
    workers.notify(5);
    assert_eq!(workers.take_ready(), Some(5));
    assert_eq!(workers.take_ready(), None);
}

#[test]
fn the_stream_that_has_been_ready_for_the_longest_comes_first() {
    let workers = IdleWorkers::<()>::new(1);
    for stream in [5, 2, 60, 5, 0] {
        workers.notify(stream);
    }
    assert!(workers.any_ready());
    assert_eq!([(); 2].map(|()| workers.take_ready()), [Some(5), Some(2)]);
    // Behind those that are ready still.
    workers.notify(5);
    assert_eq!([(); 3].map(|()| workers.take_ready()), [Some(60), Some(0), Some(5)]);
    assert_eq!((workers.any_ready(), workers.take_ready()), (false, None));
}

#[test]
fn a_task_comes_back_when_nobody_sleeps() {
    assert_eq!(IdleWorkers::new(2).dispatch(7), Err(7));
}

/// A worker parks; the task that it is then called for reaches it.
fn reaches(workers: usize, worker: usize, keep_spinning: impl Fn() -> bool + Sync) {
    let workers = IdleWorkers::new(workers);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| workers.park(worker, false, &keep_spinning));
        let mut task = 7;
        while let Err(back) = workers.dispatch(task) {
            task = back;
            std::thread::yield_now();
        }
        assert!(matches!(worker.join().unwrap(), Some(Wake::Task(7))));
    });
}

#[test]
fn a_worker_that_spins_gets_the_task_awake() {
    // It would spin forever if the task did not reach it.
    reaches(1, 0, || true);
}

#[test]
fn a_sleeping_worker_gets_the_task() {
    reaches(70, 69, || false);
}

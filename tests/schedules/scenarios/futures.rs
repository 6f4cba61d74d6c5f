//! Tasks that await their answers.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use crate::runtime::{Device, Result, Stream};
use crate::scene::{HANG, Numbers, Scene, Shared, download, is_fault, room, value, value_of};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whatever thread is free polls the task that was woken first, so tasks go from thread to thread.
#[derive(Default)]
struct Executor {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    woken: VecDeque<Arc<Task>>,
    unfinished: usize,
}

struct Task {
    executor: Arc<Executor>,
    /// None when it has finished.
    work: Mutex<Option<Work>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = Arc::clone(&self.executor);
        executor.tasks().woken.push_back(self);
        executor.changed.notify_one();
    }
}

impl Executor {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap()
    }

    fn spawn(self: &Arc<Self>, work: Work) {
        self.tasks().unfinished += 1;
        let task = Task { executor: Arc::clone(self), work: Mutex::new(Some(work)) };
        Arc::new(task).wake();
    }

    /// Polls tasks until all have finished. Nobody looks at one that is not woken: a wake that is lost hangs.
    fn run(&self) {
        let mut tasks = self.tasks();
        while tasks.unfinished > 0 {
            let Some(task) = tasks.woken.pop_front() else {
                let (guard, waited) = self.changed.wait_timeout(tasks, HANG).unwrap();
                assert!(!waited.timed_out(), "nobody wakes {} tasks", guard.unfinished);
                tasks = guard;
                continue;
            };
            drop(tasks);
            let finished = task.poll();
            tasks = self.tasks();
            if finished {
                tasks.unfinished -= 1;
                self.changed.notify_all();
            }
        }
    }
}

impl Task {
    /// Whether it has finished just now.
    fn poll(self: &Arc<Self>) -> bool {
        let mut work = self.work.lock().unwrap();
        let waker = Waker::from(Arc::clone(self));
        let polled = work.as_mut().map(|work| work.as_mut().poll(&mut Context::from_waker(&waker)));
        let finished = polled.is_some_and(|polled| polled.is_ready());
        if finished {
            *work = None;
        }
        finished
    }
}

/// A task that is dropped when it was polled so many times.
struct Dropped {
    work: Option<Work>,
    polls: u64,
}

impl Future for Dropped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polls -= 1;
        let last = self.polls == 0;
        let polled = self.work.as_mut().map(|work| work.as_mut().poll(context));
        if last {
            self.work = None;
            return Poll::Ready(());
        }
        polled.unwrap_or(Poll::Ready(()))
    }
}

/// A call: a value, some steps, and perhaps one that fails in between. Where it awaits something it may go on on
/// another thread, which has another stream.
async fn call(
    device: Device,
    shared: Arc<Shared>,
    numbers: Numbers,
    v: u64,
    bad: bool,
) -> Result<u64> {
    device.ready().await?;
    let mut current = value(&device.stream()?, v)?;
    let (steps, bad_at) = (1 + numbers.below(3), numbers.below(3));
    for step in 0..steps {
        let point = {
            let stream = device.stream()?;
            let next = room(&stream)?;
            let fails = bad && step == bad_at % steps;
            let record = if fails { Shared::bad_copy } else { Shared::step };
            let point = record(&shared, &stream, &next, &current)?;
            current = next;
            point
        };
        if numbers.one_in(3) {
            let failed = bad && step >= bad_at % steps;
            match point.await {
                Ok(()) => assert!(!failed, "a Command that fails was done"),
                Err(error) => assert!(failed && is_fault(&error), "{error}"),
            }
        }
        if numbers.one_in(4) {
            device.ready().await?;
        }
    }
    let answer = download(&device.stream()?, &current)?;
    drop(current);
    let elements = answer.await?.read::<f32>()?;
    let found = value_of(&elements).unwrap_or_else(|| panic!("no value: {elements:?}"));
    assert_eq!(found, v + steps, "another call's answer");
    Ok(found)
}

/// Many calls in flight from few threads. Some fail, some are dropped half-way; the others get their answers.
pub fn futures(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let shared = Arc::new(Shared::new(&Stream::default_of(&device).unwrap()).unwrap());
    let executor = Arc::new(Executor::default());
    for index in 1..=8 + numbers.below(16) {
        let own = scene.numbers(1000 + index);
        let (bad, dropped) = (own.one_in(5), own.one_in(5));
        let polls = 1 + own.below(3);
        let answer = call(device, Arc::clone(&shared), own, index * 8, bad);
        let work = async move {
            match answer.await {
                Ok(_) => assert!(!bad, "a call that fails was answered"),
                Err(error) => assert!(bad && is_fault(&error), "call {index}: {error}"),
            }
        };
        let work: Work = Box::pin(work);
        executor.spawn(if dropped { Box::pin(Dropped { work: Some(work), polls }) } else { work });
    }
    scene.threads(1 + numbers.below(3), |_, _| executor.run());
    let _ = device.close();
}

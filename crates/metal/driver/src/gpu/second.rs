//! A second thread beside one that runs passes. It stays for the next time: to make one takes longer than most kernels run.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What the second thread does; whoever asks for it waits until it is done.
struct Task(*const (dyn Fn() + Sync));

// SAFETY: any thread may call what it points to.
unsafe impl Send for Task {}

struct Second {
    tasks: Sender<Task>,
    done: Receiver<()>,
}

impl Second {
    fn new() -> Self {
        let ((tasks, own_tasks), (own_done, done)) = (channel::<Task>(), channel());
        // It ends when the sender goes with its thread.
        std::thread::spawn(move || {
            while let Ok(Task(task)) = own_tasks.recv() {
                // SAFETY: it lives until `done` has been received, or nobody can tell.
                unsafe { (*task)() };
                if own_done.send(()).is_err() {
                    return;
                }
            }
        });
        Self { tasks, done }
    }
}

/// Waits for the second thread, also if the first panics.
struct Wait<'a>(&'a Second);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // A second thread that panicked is gone, and uses nothing any more.
        let _ = self.0.done.recv();
    }
}

/// Runs one thing on the second thread of this one, and another on this thread, at the same time.
pub fn at_once(theirs: &(dyn Fn() + Sync), own: impl FnOnce()) {
    thread_local! {
        static SECOND: OnceCell<Second> = const { OnceCell::new() };
    }
    SECOND.with(|second| {
        let second = second.get_or_init(Second::new);
        let task: *const (dyn Fn() + Sync + '_) = theirs;
        // SAFETY: only the lifetime is another: what it points to is used until `Wait` is dropped, and lives longer.
        let task = unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(task)
        };
        second.tasks.send(Task(task)).expect("the second thread ends after this one");
        let _wait = Wait(second);
        own();
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn both_run_at_the_same_time_and_the_second_thread_stays() {
        let (met, threads) = (Barrier::new(2), Mutex::new(HashSet::new()));
        for _ in 0..10 {
            let theirs = || {
                met.wait();
                threads.lock().unwrap().insert(std::thread::current().id());
            };
            at_once(&theirs, || _ = met.wait());
        }
        let threads = threads.into_inner().unwrap();
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&std::thread::current().id()));
    }
}

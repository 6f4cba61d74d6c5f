//! Tasks on a counter.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::super::*;

/// Counts how often it is woken, and lets a thread wait for that.
struct Woken {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *lock(&self.count) += 1;
        self.changed.notify_all();
    }
}

impl Woken {
    fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Woken { count: Mutex::new(0), changed: Condvar::new() });
        (Arc::clone(&woken), Waker::from(woken))
    }

    #[cfg(not(loom))]
    fn count(&self) -> usize {
        *lock(&self.count)
    }

    #[cfg(loom)]
    /// Polls as an executor does: again after each wake. Nobody looks unasked, so a wake that is lost hangs.
    fn block_on(mut poll: impl FnMut(&Waker) -> bool) {
        let (woken, waker) = Self::new();
        let mut seen = 0;
        while !poll(&waker) {
            let mut count = lock(&woken.count);
            while *count == seen {
                (count, _) = wait_until(&woken.changed, count, None);
            }
            seen = *count;
        }
    }
}

fn reach(timeline: &Timeline, value: u64, ticket: &mut Ticket, waker: &Waker) -> bool {
    timeline.poll(value, ticket, waker, |now| (now >= value).then_some(())).is_some()
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    fn listed(timeline: &Timeline) -> bool {
        timeline.has_tasks()
    }

    #[test]
    fn a_task_is_woken_at_its_value_and_once() {
        let timeline = Timeline::new();
        let (woken, waker) = Woken::new();
        let mut ticket = Ticket::default();
        assert!(!reach(&timeline, 3, &mut ticket, &waker));
        for value in [1, 2] {
            timeline.advance(value);
            timeline.wake_tasks();
            assert_eq!(woken.count(), 0, "{value}");
        }
        timeline.advance(4);
        timeline.wake_tasks();
        timeline.wake_tasks();
        assert_eq!(woken.count(), 1);
        assert!(reach(&timeline, 3, &mut ticket, &waker));
        assert!(!listed(&timeline));
    }

    #[test]
    fn a_later_look_replaces_the_waker() {
        let timeline = Timeline::new();
        let ((old, old_waker), (new, new_waker)) = (Woken::new(), Woken::new());
        let mut ticket = Ticket::default();
        assert!(!reach(&timeline, 1, &mut ticket, &old_waker));
        assert!(!reach(&timeline, 1, &mut ticket, &new_waker));
        assert_eq!(Arc::strong_count(&old), 2, "nothing is kept of the old one");
        timeline.advance(1);
        timeline.wake_tasks();
        assert_eq!((old.count(), new.count()), (0, 1));
    }

    #[test]
    fn a_later_look_may_be_for_another_value() {
        let timeline = Timeline::new();
        let (woken, waker) = Woken::new();
        let mut ticket = Ticket::default();
        assert!(!reach(&timeline, 1, &mut ticket, &waker));
        assert!(!reach(&timeline, 2, &mut ticket, &waker));
        timeline.advance(1);
        timeline.wake_tasks();
        assert_eq!(woken.count(), 0);
        timeline.advance(2);
        timeline.wake_tasks();
        assert_eq!(woken.count(), 1);
    }

    #[test]
    fn a_task_that_is_forgotten_leaves_nothing() {
        let timeline = Timeline::new();
        let (woken, waker) = Woken::new();
        let mut ticket = Ticket::default();
        assert!(!reach(&timeline, 1, &mut ticket, &waker));
        timeline.forget(&mut ticket);
        assert!(!listed(&timeline) && ticket.is_empty());
        assert_eq!(Arc::strong_count(&woken), 2, "the test's own");
        timeline.advance(1);
        timeline.wake_tasks();
        assert_eq!(woken.count(), 0);
    }

    #[test]
    fn more_tasks_than_are_taken_out_at_once_are_all_woken() {
        let timeline = Timeline::new();
        let (woken, waker) = Woken::new();
        let mut tickets: Vec<_> = (0..100).map(|_| Ticket::default()).collect();
        for (index, ticket) in tickets.iter_mut().enumerate() {
            assert!(!reach(&timeline, 1 + index as u64, ticket, &waker));
        }
        timeline.advance(70);
        timeline.wake_tasks();
        assert_eq!(woken.count(), 70);
        timeline.wake_all_tasks();
        assert_eq!(woken.count(), 100);
        assert!(!listed(&timeline));
    }

    /// A waker that looks at the counter again while it is called: with a lock held it would hang.
    #[test]
    fn wakers_are_called_with_no_lock_held() {
        struct Looks(Arc<Timeline>);
        impl Wake for Looks {
            fn wake(self: Arc<Self>) {
                let mut ticket = Ticket::default();
                assert!(!reach(&self.0, u64::MAX, &mut ticket, Waker::noop()));
                self.0.forget(&mut ticket);
            }
        }
        let timeline = Arc::new(Timeline::new());
        let waker = Waker::from(Arc::new(Looks(Arc::clone(&timeline))));
        assert!(!reach(&timeline, 1, &mut Ticket::default(), &waker));
        timeline.advance(1);
        timeline.wake_tasks();
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_from_being_woken() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                // Without the hook's message.
                std::panic::resume_unwind(Box::new("planted"));
            }
        }
        let timeline = Timeline::new();
        let (woken, waker) = Woken::new();
        assert!(!reach(&timeline, 1, &mut Ticket::default(), &Waker::from(Arc::new(Panics))));
        assert!(!reach(&timeline, 1, &mut Ticket::default(), &waker));
        timeline.advance(1);
        timeline.wake_tasks();
        assert_eq!(woken.count(), 1);
    }
}

#[cfg(loom)]
mod loom_tests;

//! Scenarios about results that are awaited.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::thread::Thread;

use millstream::Download;
use millstream::Result;

use super::super::harness::{Context, Outcome};
use super::models::{MIXED, answers, load_all, loaded};

/// Calls that a thread has in flight.
const IN_FLIGHT: usize = 4;

/// Every thread begins several calls before it awaits the first, the last one first. Some are not awaited at all.
pub(super) fn awaited(context: &Context) -> Outcome {
    let prepared = load_all(context).and_then(|layers| {
        let expected = answers(&layers, context)?;
        Ok((layers, expected))
    });
    loaded(prepared, |(layers, expected)| {
        context.on_threads(
            |_| {},
            |thread, outcome| {
                for first in (0..context.iterations).step_by(IN_FLIGHT) {
                    let calls = first..(first + IN_FLIGHT).min(context.iterations);
                    let begun: Vec<(usize, Result<Download>)> = calls
                        .map(|iteration| {
                            let index = (thread + iteration) % MIXED.len();
                            let output = MIXED[index].output(&layers[index], 9, context);
                            (index, output.and_then(|output| output.download()))
                        })
                        .collect();
                    for (step, (index, download)) in begun.into_iter().enumerate().rev() {
                        let what = format!("thread {thread}, model {index}, call {}", first + step);
                        if (thread + first + step) % 7 == 3 {
                            // Its memory goes back when the device is through with it.
                            drop(download);
                            continue;
                        }
                        let answer = download.and_then(|download| {
                            let arrived = block_on(download)?;
                            Ok(arrived.view_bytes()?.to_vec())
                        });
                        outcome.count(&what, answer, &expected[index]);
                    }
                }
            },
        )
    })
}

/// Polls on this thread, which sleeps until it is woken: a wake that is lost hangs.
fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future.into_future());
    loop {
        match future.as_mut().poll(&mut Polling::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

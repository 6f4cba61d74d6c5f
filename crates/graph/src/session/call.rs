//! Calls of a session, by themselves or joined with others.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millstream_core::{Device, Stream};

use super::joined::{Begun, Counters, Group, turn};
use super::{Inputs, Outputs, Session};
use crate::coalesce::{Lost, Terms, Turn};
use crate::program::{HostValue, Run, Step};
use crate::{Error, Result};

/// What a call says beside its inputs.
///
/// ```no_run
/// # use std::time::Duration;
/// # use millstream_graph::{Call, Session};
/// # fn main() -> millstream_core::Result<()> {
/// # let device = millstream_core::Device::cpu()?;
/// # let image = millstream_nn::Tensor::zeros(&[1], millstream_core::DType::F32, &device)?;
/// let session = Session::open("model.onnx", &device)?;
/// let call = Call::new().priority(1).within(Duration::from_millis(20));
/// let outputs = session.run_with([("image", &image)], &call)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    priority: u8,
    deadline: Option<Instant>,
}

impl Call {
    /// A call of the usual kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// When not all calls that wait fit in a batch, those of a higher priority go first. The one that has waited longest always
    /// goes, so that nobody starves. 0 unless set.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The call gets an error if it is not answered in this time. It is for calls that wait for others: one that runs by itself
    /// runs to its end.
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// As [`within`](Self::within), by the clock.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    fn terms(&self, rows: usize) -> Terms {
        Terms { rows, priority: self.priority, deadline: self.deadline, ..Terms::default() }
    }
}

/// Counts a call that is given up.
struct Pending<'a>(Option<&'a Counters>);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.0.take() {
            counters.canceled();
        }
    }
}

impl Session {
    /// As [`run`](Self::run), with a priority or a deadline.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run); a deadline that has passed; too many calls that wait;
    /// [`Error::NoTurn`](crate::Error::NoTurn) where those before it do not come to their end.
    pub fn run_with(&self, inputs: impl Into<Inputs>, call: &Call) -> Result<Outputs> {
        let started = self.0.stats.begin();
        let values = inputs.into().arranged(self.inputs(), &self.0.device)?;
        let Some((_, group, rows)) = self.entered(&values)? else {
            return self.alone(values, started);
        };
        let answer = match group.enter(values, call.terms(rows), started.at())? {
            Begun::Alone(values, active) => {
                return Ok(self.alone(values, started)?.with_active(active));
            }
            Begun::Lead(batch) => group.lead(batch)?,
            Begun::Wait(ticket) => {
                ticket.spin(group.spin_timeout());
                let until = call.deadline.or_else(|| group.latest_turn(started.at()));
                let waited = match ticket.wait(until) {
                    // It set no deadline.
                    Turn::Answer(Err(Lost::Late)) if call.deadline.is_none() => {
                        return Err(group.no_turn(started.at()));
                    }
                    waited => waited,
                };
                match turn(&group, waited)? {
                    Ok(answer) => answer,
                    Err(batch) => group.lead(batch)?,
                }
            }
        };
        self.0.stats.end(started);
        Ok(Outputs::of_answer(Arc::clone(&self.0.names), answer))
    }

    /// As [`run_async`](Self::run_async), with a priority or a deadline. The deadline is looked at when batches are made: a
    /// future has no clock of its own.
    ///
    /// # Errors
    ///
    /// As for [`run_with`](Self::run_with).
    pub async fn run_async_with(&self, inputs: impl Into<Inputs>, call: &Call) -> Result<Outputs> {
        let started = self.0.stats.begin();
        let values = inputs.into().arranged(self.inputs(), &self.0.device)?;
        let Some((joined, group, rows)) = self.entered(&values)? else {
            return self.alone_async(values, started).await;
        };
        self.0.device.ready().await?;
        let mut pending = Pending(Some(joined));
        let way = group.enter(values, call.terms(rows), started.at());
        let answer = match way {
            Ok(Begun::Alone(values, active)) => {
                pending.0 = None;
                return Ok(self.alone_async(values, started).await?.with_active(active));
            }
            Ok(Begun::Lead(batch)) => group.lead_async(batch).await,
            Ok(Begun::Wait(ticket)) => match turn(&group, ticket.await) {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(batch)) => group.lead_async(batch).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        pending.0 = None;
        let answer = answer?;
        self.0.stats.end(started);
        Ok(Outputs::of_answer(Arc::clone(&self.0.names), answer))
    }

    /// Begins a call that is [polled](Submitted::poll) for its outputs: for programs with a loop of their own.
    pub fn submit(&self, inputs: impl Into<Inputs>, call: &Call) -> Submitted {
        let (session, inputs, call) = (self.clone(), inputs.into(), *call);
        let device = self.0.device;
        let future = async move { session.run_async_with(inputs, &call).await };
        let mut submitted = Submitted { device, future: Some(Box::pin(future)), result: None };
        submitted.result = submitted.poll();
        submitted
    }

    /// The group that a call enters, where calls are joined, and its rows there.
    fn entered(&self, values: &[HostValue]) -> Result<Option<(&Counters, Arc<Group>, usize)>> {
        let Some(joined) = self.0.joined.as_ref() else { return Ok(None) };
        // In a child process the queue may be behind a leader that does not exist there.
        self.0.device.check()?;
        let entered = joined.entered(values);
        Ok(entered.map(|(group, rows)| (joined.counters(), group, rows)))
    }

    /// A call by itself.
    fn alone(&self, values: Vec<HostValue>, started: super::stats::Started) -> Result<Outputs> {
        let mut run = Run::new(&self.0.program, values);
        loop {
            match run.go_on(&self.0.settings, &Stream::current_unleased(&self.0.device)?)? {
                Step::Wait(downloads) => {
                    downloads.iter().try_for_each(|download| download.timepoint().wait())?;
                }
                Step::Done(values) => return Ok(self.finish(values, started)),
            }
        }
    }

    async fn alone_async(
        &self,
        values: Vec<HostValue>,
        started: super::stats::Started,
    ) -> Result<Outputs> {
        let mut run = Run::new(&self.0.program, values);
        loop {
            self.0.device.ready().await?;
            // A task may be on another thread after each wait, and that has another stream.
            let step = run.go_on(&self.0.settings, &Stream::current_unleased(&self.0.device)?)?;
            match step {
                Step::Wait(downloads) => {
                    for download in downloads {
                        download.timepoint().await?;
                    }
                }
                Step::Done(values) => return Ok(self.finish(values, started)),
            }
        }
    }
}

/// A call that was begun with [`Session::submit`]. Dropping it gives the call up.
pub struct Submitted {
    device: Device,
    /// Taken when it has ended.
    future: Option<Pin<Box<dyn Future<Output = Result<Outputs>> + Send>>>,
    /// What it came to when it was begun.
    result: Option<Result<Outputs>>,
}

impl fmt::Debug for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").field("ended", &self.future.is_none()).finish_non_exhaustive()
    }
}

impl Submitted {
    /// The outputs, if they are there; once. Poll again and again: a call whose turn it is to run a batch for others does so here.
    pub fn poll(&mut self) -> Option<Result<Outputs>> {
        if let Some(result) = self.result.take() {
            return Some(result);
        }
        if self.future.is_some()
            && let Some(error) = self.forget_if_forked()
        {
            return Some(Err(error));
        }
        let future = self.future.as_mut()?;
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => {
                self.future = None;
                Some(result)
            }
            Poll::Pending => None,
        }
    }

    /// In a child process, those that the call waits for do not exist, and one of them may hold a lock for ever. So the call is left as it
    /// is, and the error says why.
    fn forget_if_forked(&mut self) -> Option<Error> {
        let error =
            self.device.check().err().filter(|error| matches!(error, Error::Forked { .. }))?;
        std::mem::forget(self.future.take());
        Some(error)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        drop(self.forget_if_forked());
    }
}

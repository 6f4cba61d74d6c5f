//! Whether calls may be joined, where that was assumed and not proved: found out by running some batches call by call too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_core::{DType, Download, Stream};

use super::group::Request;
use super::run::{self, Alone};
use super::{Answer, Context};
use crate::Result;
use crate::closeness::are_close;
use crate::model_value::ModelValue;
use crate::separate::Obstacle;

/// So many batches are checked at first.
const FIRST: u64 = 8;

/// Whether the batch that begins now is to be checked. Nothing is counted where none is.
pub(super) fn is_due(context: &Context) -> bool {
    let Some(every) = context.batching.checked_every else { return false };
    if context.batching.assumed_axis.is_none() {
        return false;
    }
    let before = context.batches.fetch_add(1, Ordering::Relaxed);
    let is_due = before < FIRST || (before + 1).is_multiple_of(every);
    if is_due {
        context.counters.checked();
    }
    is_due
}

/// A call that was answered in a batch, and is run by itself.
pub(super) struct Checked {
    pub alone: Alone,
    /// The outputs of the batch that belong to it, on their way to the host.
    pub joined: Vec<Option<Arc<Download>>>,
}

impl Checked {
    /// Records a call by itself, by its number in the batch.
    pub fn begin(
        context: &Context,
        stream: &Stream,
        (number, job): (usize, &Request),
        joined: Answer,
    ) -> Result<Self> {
        let joined = run::fetch_values(stream, &joined.values, true)?;
        let alone = run::alone(context, stream, number, job, true)?;
        Ok(Self { alone, joined })
    }

    /// The answer that the call has by itself. If it had another one in its batch of so many calls, calls are joined no more.
    pub fn answer(self, context: &Context, calls: usize) -> Result<Answer> {
        let Self { alone, joined } = self;
        let own = alone.downloads.clone();
        let answer = alone.answer()?;
        for (number, value) in answer.values.iter().enumerate() {
            let ModelValue::Tensor(tensor) = value else { continue };
            let (joined, own) = (joined[number].as_deref(), own[number].as_deref());
            if !are_same(context, tensor.dtype(), joined, own)? {
                let axis = context.batching.assumed_axis.unwrap_or(0);
                let name = &context.program.body().outputs()[number].name;
                let reason = format!(
                    "it was assumed that calls can be joined along axis {axis}, but output {name:?} of a call in a batch of \
                     {calls} is not what it is alone"
                );
                // Another batch may have said so already.
                let _ = context.refuted.set(Obstacle::of(reason));
            }
        }
        Ok(answer)
    }
}

/// Whether an output is the same in both runs: in every bit where the device computes a row of a batch as it does alone.
fn are_same(
    context: &Context,
    dtype: DType,
    a: Option<&Download>,
    b: Option<&Download>,
) -> Result<bool> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.is_none() && b.is_none()) };
    let (found, expected) = (a.view_bytes()?, b.view_bytes()?);
    Ok(match context.computes_on_host {
        true => found == expected,
        false => are_close(dtype, found, expected),
    })
}
